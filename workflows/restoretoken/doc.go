// Package restoretoken is the workflow that keeps Temporal's side of the token by which crdwatch detects that
// Temporal's database or etcd was restored from an older copy. Its released name is contract.FencingToken; the fencing
// of nodes is another matter.
package restoretoken
