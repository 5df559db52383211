// Command node-worker works on one node for the virtual machines there.
package main

import (
	"github.com/spf13/cobra"

	"github.com/virtflow/virtflow/internal/kvm"
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/workers/node"
)

func main() { process.Main(command) }

func command() *cobra.Command {
	var o node.Options
	cmd := process.NewCommand("node-worker",
		"starts and watches the virtual machines of one node, and gives them network and devices",
		o.AddFlags, o.Run)
	cmd.AddCommand(kvm.TrialCommand())
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetHelpCommand(&cobra.Command{Hidden: true})
	return cmd
}
