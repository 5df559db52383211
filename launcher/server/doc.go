// Package server serves the launcher's gRPC service (launcher/rpc) on a Unix socket for the node worker.
package server
