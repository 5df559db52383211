// Package wire has the protocol between the API server and a node worker's access server: paths, the names in their
// certificates, and the framing of datagrams. Streams begin as an HTTP/1.1 request to upgrade; after the answer 101 the
// connection carries the guest's bytes as they are, or datagrams with their lengths.
package wire
