// Package pki keeps certificate authorities, and the certificates that they issue, in folders of files: those of the
// development cluster and of tests. Existing ones that are still good are kept. Package internal/certificates rotates
// virtflow's certificates in a cluster.
package pki
