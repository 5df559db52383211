// Package kube makes Kubernetes clients: for the API server that a process is given, and typed ones for kubevirt.io/v1.
package kube
