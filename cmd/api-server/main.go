// Command api-server serves the requests of users: the admission webhooks, and the API subresources.kubevirt.io.
package main

import (
	"github.com/spf13/cobra"

	"github.com/virtflow/virtflow/api/server"
	"github.com/virtflow/virtflow/internal/process"
)

func main() {
	process.Main(func() *cobra.Command {
		var o server.Options
		return process.NewCommand("api-server", "Admission webhooks of virtflow, and the API subresources.kubevirt.io",
			o.AddFlags, o.Run)
	})
}
