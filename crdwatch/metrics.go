package crdwatch

import "github.com/prometheus/client_golang/prometheus"

// Causes of a new epoch: which database was restored.
const (
	causeTemporal   = "temporal"
	causeKubernetes = "kubernetes"
)

// epochMetrics has the metrics of restores that one process detects.
type epochMetrics struct {
	epoch  prometheus.Gauge
	epochs *prometheus.CounterVec
}

// newEpochMetrics registers the metrics; reg may be nil.
func newEpochMetrics(reg prometheus.Registerer) *epochMetrics {
	m := &epochMetrics{
		epoch: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "virtflow_crdwatch_epoch",
			Help: "The epoch of the observations. It grows when Temporal's database or etcd was restored from an " +
				"older copy.",
		}),
		epochs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtflow_crdwatch_epochs_total",
			Help: "Epochs that this process began, by which database was restored: temporal or kubernetes.",
		}, []string{"cause"}),
	}
	for _, cause := range []string{causeTemporal, causeKubernetes} {
		m.epochs.WithLabelValues(cause) // increase() ignores a series' first value
	}
	if reg != nil {
		reg.MustRegister(m.epoch, m.epochs)
	}
	return m
}
