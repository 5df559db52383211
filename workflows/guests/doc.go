// Package guests has the guests that a workflow asks to leave their launchers: a drain those on its node, a workload
// update those in outdated launchers. Both read the guests from Kubernetes again and again.
//
//	guest.go  a guest, and its standing
//	list.go   all of them: folding a read, choosing the next, and describing them
package guests
