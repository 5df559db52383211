// Command node-gateway is the only connection from nodes to Temporal.
package main

import (
	"github.com/spf13/cobra"

	"github.com/virtflow/virtflow/gateway"
	"github.com/virtflow/virtflow/internal/process"
)

func main() {
	process.Main(func() *cobra.Command {
		var f gateway.Flags
		return process.NewCommand("node-gateway",
			"lets each node reach its own tasks and virtual machines in Temporal, and nothing else",
			f.AddFlags, f.Run)
	})
}
