// Package health asks a running server, as a client with a certificate, whether it serves.
package health
