// Package trial starts a development server of its own for a test or a measurement: certificates made on the spot, free
// loopback ports, a directory that is thrown away.
package trial
