// Package control is the worker of the control queue, and of that of transitions: it keeps the Temporal namespace with
// its search attributes registered, and runs the workflows and the activities that talk to Kubernetes. Every replica is
// active.
//
//	run.go            a worker for each queue, and what it may have in hand
//	register.go       which workflows and activities it runs
//	namespace.go      what has to be registered in Temporal
//	registration.go   looking whether it still is, for as long as the process runs
//	status.go         what an administrator sees of it: the status of the KubeVirt object
package control
