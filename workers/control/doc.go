// Package control is the worker of the control queue: it registers the Temporal namespace with its search attributes, and runs the
// workflows and the activities that talk to Kubernetes. Every replica is active.
package control
