// Package restore detects that Temporal's database, or etcd, was restored from an older copy.
//
// crdwatch's leader keeps one token (contract.FencingToken) on both sides: in Temporal in the workflow
// crdwatch/fencing-token, in Kubernetes in annotations of the Lease virtflow-fencing-token. Every Interval it reads
// both, decides, and writes both, Temporal first:
//
//	temporal = kubernetes             no restore; both advance by one
//	temporal = kubernetes + 1         a check ended between its two writes; the second is done first, then as above
//	temporal < kubernetes             Temporal's database was restored, or lost the token
//	otherwise                         etcd was restored, or the Lease was deleted; or a leader ended in a new epoch
//	either < what this process saw    that side was restored
//	an informer received an object in an older version than it had read    etcd was restored
//
// In the last four cases a new epoch begins, on both sides, and everything is sent again with it. It does not detect a
// copy of Temporal's database that is younger than the last advance: after each loss of the connection, crdwatch
// redelivers what it has sent shortly before, which covers what such a copy has lost.
//
//	decide.go    the decision from the two tokens (pure)
//	detector.go  reading and writing them
//	versions.go  informers that receive an older version than they had read
//	announce.go  the event on the KubeVirt object
package restore
