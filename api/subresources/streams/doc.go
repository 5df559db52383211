// Package streams answers what leads to a running guest: its serial console, its screen, its ports, and what its agent
// says.
//
// A stream goes from the client through this process and the worker of the guest's node to the launcher. It ends a
// client's WebSocket here, in a process without privileges: a node's worker never reads what a user has framed. The
// worker is asked first, so that what is wrong there is answered as an HTTP status, and the WebSocket is opened when
// the guest is reached.
//
//	streams.go     the handlers of streams, and how many there may be
//	reads.go       the handlers of what is answered at once: screenshot, guestosinfo, userlist, filesystemlist
//	states.go      what a guest has to be like for each of them, in KubeVirt's words
//	plain/         KubeVirt's framing: binary messages, without channels
//	nodes.go       how a node's worker is found and asked
package streams
