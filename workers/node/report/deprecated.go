package report

import "github.com/prometheus/client_golang/prometheus"

// NewDeprecated returns KubeVirt's metric of the machine types that QEMU will remove.
func NewDeprecated(node string, types []string) *prometheus.GaugeVec {
	out := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubevirt_node_deprecated_machine_types", Help: "Machine types of the node that QEMU will remove.",
	}, []string{"machine_type", "node"})
	for _, t := range types {
		out.WithLabelValues(t, node).Set(1)
	}
	return out
}
