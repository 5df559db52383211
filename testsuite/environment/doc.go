// Package environment returns Temporal's test environment, with virtual time and with a limit in real time that a busy
// machine does not reach.
package environment
