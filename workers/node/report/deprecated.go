package report

import "github.com/prometheus/client_golang/prometheus"

// NewDeprecated returns KubeVirt's metric of the machine types that QEMU has deprecated.
func NewDeprecated(node string, types []string) *prometheus.GaugeVec {
	out := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubevirt_node_deprecated_machine_types", Help: "Machine types of the node that QEMU has deprecated.",
	}, []string{"machine_type", "node"})
	for _, t := range types {
		out.WithLabelValues(t, node).Set(1)
	}
	return out
}
