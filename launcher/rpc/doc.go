// Package rpc has the gRPC service between a node worker and the launcher in each guest's pod. It needs neither cgo nor
// libvirt, so both ends import it. launcher.proto is the source; `make generate` makes the rest.
package rpc
