package process

import (
	"context"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// readyTime bounds the checks of one look at whether a process is ready.
const readyTime = 2 * time.Second

// Metrics are those that every process has; name is the process's. Where KubeVirt has a component that does the same,
// its name for readiness is there, too.
func Metrics(name string, h *Health) []prometheus.Collector {
	ready := func(metric string) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: metric, Help: "1 while the process can do its work: what /readyz says. Otherwise 0.",
		}, func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), readyTime)
			defer cancel()
			if h.unknown() || h.Ready(ctx) != nil {
				return 0
			}
			return 1
		})
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "virtflow_info", Help: "The process and its version.",
		ConstLabels: prometheus.Labels{"process": name, "version": Version, "goversion": runtime.Version()},
	})
	info.Set(1)
	all := []prometheus.Collector{info, ready("virtflow_ready")}
	if metric, ok := kubevirtsReady()[name]; ok {
		all = append(all, ready(metric))
	}
	return all
}

// kubevirtsReady are KubeVirt's names by the process here that does what the component there does.
func kubevirtsReady() map[string]string {
	return map[string]string{
		"api-server":     "kubevirt_virt_api_ready_status",
		"control-worker": "kubevirt_virt_controller_ready_status",
		"node-worker":    "kubevirt_virt_handler_ready_status",
	}
}
