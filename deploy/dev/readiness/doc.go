// Package readiness checks whether the apiserver is ready, from the host or from a node, without a kubeconfig.
package readiness
