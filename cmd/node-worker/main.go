// Command node-worker works on one node for the virtual machines there.
package main

import (
	"github.com/spf13/cobra"

	"github.com/virtflow/virtflow/internal/kvm"
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/workers/node"
)

func main() {
	var o node.Options
	command := process.NewCommand("node-worker", "starts and watches the virtual machines of one node, and gives them network and devices", o.AddFlags, o.Run)
	command.AddCommand(&cobra.Command{
		Use: kvm.TrialCommand, Short: "run a virtual CPU until it halts", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return kvm.Trial() },
	})
	command.CompletionOptions.DisableDefaultCmd = true
	command.SetHelpCommand(&cobra.Command{Hidden: true})
	process.Main(command)
}
