// Command api-server answers what users' requests meet first: the admission webhooks.
package main

import (
	"github.com/virtflow/virtflow/api/server"
	"github.com/virtflow/virtflow/workers/process"
)

func main() {
	var o server.Options
	process.Main(process.NewCommand("api-server", "Admission webhooks of virtflow: defaults, KubeVirt's rules, and what is supported", o.AddFlags, o.Run))
}
