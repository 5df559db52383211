// Package rpc is the gRPC service between a node's worker and the launcher in each VM's pod. It has neither cgo nor
// libvirt in it, so both ends import it. launcher.proto is the source; `make generate` makes the rest.
package rpc
