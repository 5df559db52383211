// Package chain connects the parts of a stream without a cluster: a client, the API server's handlers behind HTTPS, a
// node worker's access server with real certificates, a launcher's real service behind its socket in a kubelet's
// directory, and a device that a test simulates.
package chain
