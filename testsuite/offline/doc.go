// Package offline runs crdwatch's decisions without connections, goroutines or a clock: its caller passes the objects
// that informers would deliver, and takes the due deliveries. What is sent to which workflow, and when, is decided
// by crdwatch's own code. Suites that run the control plane under virtual time use it.
package offline
