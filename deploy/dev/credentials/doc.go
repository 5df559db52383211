// Package credentials lists the certificate authorities of the development cluster with the certificates of each, and
// writes the kubeconfig files that carry the certificates.
package credentials
