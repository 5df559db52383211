// Package tlsfiles reads and checks the certificates that the server and its clients use.
package tlsfiles
