// Package server serves the launcher's gRPC service (launcher/rpc) on a Unix socket that the node's worker opens.
package server
