// Package credentials says which certificate authorities the development
// cluster has and what each issues, and writes the kubeconfig files that carry
// the certificates.
package credentials
