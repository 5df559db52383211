// Package streams answers requests to a running guest: for its serial console, its screen, its ports, and information
// from its agent.
//
// A stream goes from the client through this process and the node worker of the guest's node to the launcher. The
// client's WebSocket ends here, in a process without privileges, so that a node worker never parses a user's frames.
// The node worker is asked first, so that its errors are answered as an HTTP status, and the WebSocket is opened once
// the guest is reached.
//
//	streams.go     the handlers of streams, and their limits
//	reads.go       the handlers of requests that are answered at once: screenshot, guestosinfo, userlist, filesystemlist
//	states.go      the state that a guest must have for each of them, in KubeVirt's words
//	origin.go      the origins of pages that may open them
//	plain/         KubeVirt's framing: binary messages, without channels
//	nodes.go       requests to node workers
package streams
