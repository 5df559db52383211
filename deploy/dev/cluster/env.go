package cluster

import (
	"fmt"
	"strings"

	"github.com/virtflow/virtflow/deploy/dev/layout"
)

// Env prints, for eval, the lines by which a shell can use the cluster.
func (c Cluster) Env(path string) {
	tls := func(file string) string { return c.Layout.PKI("temporal", file) }
	bin := c.Layout.Path("bin")
	if path != bin && !strings.HasPrefix(path, bin+":") {
		path = bin + ":" + path
	}
	for _, v := range [][2]string{
		{"PATH", path},
		{"KUBECONFIG", c.Layout.Kubeconfig("admin")},
		{"TEMPORAL_ADDRESS", layout.Temporal},
		{"TEMPORAL_NAMESPACE", layout.TemporalNamespace},
		// As the temporal command knows them.
		{"TEMPORAL_TLS_CA", tls("ca.crt")},
		{"TEMPORAL_TLS_CERT", tls("client.crt")},
		{"TEMPORAL_TLS_KEY", tls("client.key")},
		{"TEMPORAL_TLS_SERVER_NAME", layout.TemporalName},
		// As tctl knows them.
		{"TEMPORAL_CLI_ADDRESS", layout.Temporal},
		{"TEMPORAL_CLI_NAMESPACE", layout.TemporalNamespace},
		{"TEMPORAL_CLI_TLS_CA", tls("ca.crt")},
		{"TEMPORAL_CLI_TLS_CERT", tls("client.crt")},
		{"TEMPORAL_CLI_TLS_KEY", tls("client.key")},
		{"TEMPORAL_CLI_TLS_SERVER_NAME", layout.TemporalName},
		{"VIRTFLOW_UI", "http://" + layout.UI},
		{"VIRTFLOW_STATE", c.Layout.State},
		{"VIRTFLOW_AUDIT_LOG", c.Layout.Audit()},
	} {
		fmt.Fprintf(c.Out, "export %s='%s'\n", v[0], strings.ReplaceAll(v[1], "'", `'\''`))
	}
}
