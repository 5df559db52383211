// Package readiness asks the apiserver whether it is ready, from the host or
// from a node, without a kubeconfig's machinery.
package readiness
