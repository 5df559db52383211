// Package vulnerabilities looks for known vulnerabilities in what virtflow's programs call, with govulncheck and the
// newest database of the Go project that can be had.
package vulnerabilities
