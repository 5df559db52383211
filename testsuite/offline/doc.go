// Package offline runs crdwatch's decisions without connections, goroutines or a clock: whoever uses it hands it the
// objects that informers would, and takes away what is to be delivered. What is sent, to whom and when not, is decided
// by crdwatch's own code. Suites that run the control plane under virtual time use it.
package offline
