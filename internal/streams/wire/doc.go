// Package wire is what the API server and a node worker's access server have agreed on: paths, the names in their
// certificates, and how datagrams lie in a stream of bytes. Streams begin as an HTTP/1.1 request to upgrade; after the
// answer 101 the connection carries the guest's bytes as they are, or datagrams with their lengths.
package wire
