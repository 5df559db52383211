package process

import (
	"context"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtflow/virtflow/contract"
)

// readyTime bounds the checks when the readiness metric is collected.
const readyTime = 2 * time.Second

// Metrics returns the metrics that every process has; name is the process's. Where KubeVirt has a component with the
// same job, its name for readiness is there, too.
func Metrics(name string, h *Health) []prometheus.Collector {
	ready := func(metric string) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: metric, Help: "1 while /readyz reports that the process can work, otherwise 0.",
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
	if name == "node-worker" {
		all = append(all, kubevirtInfo())
	}
	return all
}

// kubevirtInfo returns the metric with which virt-handler reports its version: here that of KubeVirt's API.
func kubevirtInfo() prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kubevirt_info", Help: "The version of KubeVirt whose API this is.",
		ConstLabels: prometheus.Labels{"goversion": runtime.Version(), "kubeversion": contract.KubeVirtVersion},
	})
	info.Set(1)
	return info
}

// kubevirtsReady returns KubeVirt's metric names by the process that does the job of the component.
func kubevirtsReady() map[string]string {
	return map[string]string{
		"api-server":     "kubevirt_virt_api_ready_status",
		"control-worker": "kubevirt_virt_controller_ready_status",
		"node-worker":    "kubevirt_virt_handler_ready_status",
	}
}
