// Command api-server answers what users' requests meet first: the admission webhooks, and the API
// subresources.kubevirt.io.
package main

import (
	"github.com/virtflow/virtflow/api/server"
	"github.com/virtflow/virtflow/internal/process"
)

func main() {
	var o server.Options
	process.Main(process.NewCommand("api-server", "Admission webhooks of virtflow, and the API subresources.kubevirt.io", o.AddFlags, o.Run))
}
