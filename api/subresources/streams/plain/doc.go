// Package plain is KubeVirt's framing of a stream: a WebSocket of the subprotocol plain.kubevirt.io, whose binary
// messages are bytes without channels, or one datagram each. Clients that answer no ping, and frames out of protocol,
// end their own stream and nothing else.
//
// It has few dependencies, so that fuzzing it builds in seconds.
package plain
