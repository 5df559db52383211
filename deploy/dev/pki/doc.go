// Package pki makes the development cluster's certificate authorities, the
// certificates they issue, and the kubeconfig files that carry them. What is
// there and still good is kept.
package pki
