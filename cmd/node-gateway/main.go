// Command node-gateway is the only door from nodes to Temporal.
package main

import (
	"github.com/spf13/cobra"

	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/workers/gateway"
)

func main() {
	process.Main(func() *cobra.Command {
		var f gateway.Flags
		return process.NewCommand("node-gateway",
			"lets each node reach its own tasks and virtual machines in Temporal, and nothing else",
			f.AddFlags, f.Run)
	})
}
