// Package plain is KubeVirt's framing of a stream: a WebSocket of the subprotocol plain.kubevirt.io, whose binary
// messages are bytes without channels, or one datagram each. A client that answers no ping, or violates the protocol,
// ends its own stream and nothing else.
//
// It has few dependencies, so that fuzzing it builds in seconds.
package plain
