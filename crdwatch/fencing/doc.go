// Package fencing notices that Temporal's database, or etcd, is an older copy of what it was.
//
// crdwatch's leader keeps one token (contract.FencingToken) on both sides: in Temporal in the workflow
// crdwatch/fencing-token, in Kubernetes in annotations of the Lease virtflow-fencing-token. Every Interval it reads
// both, decides, and writes both, Temporal first:
//
//	temporal = kubernetes             all is well; both advance by one
//	temporal = kubernetes + 1         a look ended between its two writes; the second is done first, then likewise
//	temporal < kubernetes             Temporal is an older copy, or lost the token
//	otherwise                         etcd is an older copy, or the Lease was deleted; or a leader ended in a new epoch
//	either < what this process saw    that side is an older copy
//	an informer was told of an object in an older version than it had read    etcd is an older copy
//
// In the last four cases a new epoch begins, on both sides, and everything is sent again with it. A copy of Temporal's
// database that is younger than the last advance is not told apart: what it has lost, the repetition of what was sent
// shortly before a loss of the connection makes good.
//
//	decide.go  what follows from the two tokens (pure)
//	fence.go   reading and writing them
package fencing
