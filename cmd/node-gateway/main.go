// Command node-gateway is the only door from nodes to Temporal.
package main

import (
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/workers/gateway"
)

func main() {
	var f gateway.Flags
	process.Main(process.NewCommand("node-gateway", "lets each node reach its own tasks and virtual machines in Temporal, and nothing else", f.AddFlags, f.Run))
}
