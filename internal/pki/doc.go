// Package pki keeps certificate authorities, and the certificates that they
// issue, in folders of files: those of the development cluster and of tests.
// What is there and still good is kept. What virtflow itself rotates in a
// cluster is in internal/certificates.
package pki
