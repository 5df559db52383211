// Package guests is what the workflows that have guests leave their launchers remember of them: a drain of those on its
// node, a workload update of those in outdated launchers. What is true of them is read from Kubernetes again and again.
//
//	guest.go  a guest, and how it stands
//	list.go   all of them: taking in what was read, who is next, and how it is told
package guests
