package crdwatch

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Results of an observation.
const (
	resultSent    = "sent"
	resultSkipped = "skipped"
	resultFailed  = "failed"
	resultRefused = "refused"
	resultDropped = "dropped"
)

// Causes of a new epoch: which side was found to be an older copy.
const (
	causeTemporal   = "temporal"
	causeKubernetes = "kubernetes"
)

// Metrics are those of one process.
type Metrics struct {
	observations *prometheus.CounterVec
	depth        prometheus.Gauge
	lag          prometheus.Histogram
	epoch        prometheus.Gauge
	epochs       *prometheus.CounterVec
	// outbox is the one of this process while it leads; nil: another process leads.
	outbox atomic.Pointer[Outbox]
}

// NewMetrics registers them; reg may be nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		observations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtflow_crdwatch_observations_total",
			Help: "Observations by kind and result: sent to a workflow, skipped because nothing relevant changed, " +
				"failed to be sent or refused by Temporal (and tried again), or too large for Temporal (and dropped).",
		}, []string{"kind", "result"}),
		depth: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "virtflow_crdwatch_queue_depth", Help: "Observations that wait to be sent.",
		}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "virtflow_crdwatch_delivery_seconds",
			Help:    "Time from when a change was due to be sent until Temporal had taken it.",
			Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
	}
	m.epoch = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "virtflow_crdwatch_epoch",
		Help: "The epoch that observations are sent in. It grows when an older copy of Temporal's database or of " +
			"etcd was put back.",
	})
	m.epochs = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "virtflow_crdwatch_epochs_total",
		Help: "Epochs that this process began, by which side was found to be an older copy: temporal or kubernetes.",
	}, []string{"cause"})
	for _, cause := range []string{causeTemporal, causeKubernetes} {
		m.epochs.WithLabelValues(cause) // an alert asks for the increase, of which a series' first value is none
	}
	oldest := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "virtflow_crdwatch_oldest_timestamp_seconds",
		Help: "When the first observation that waits was, or will be, due, in seconds since 1970; 0: none waits.",
	}, func() float64 {
		if o := m.outbox.Load(); o != nil {
			return o.oldest()
		}
		return 0
	})
	leader := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "virtflow_crdwatch_leader", Help: "1 while this process is the one that sends.",
	}, func() float64 {
		if m.outbox.Load() != nil {
			return 1
		}
		return 0
	})
	if reg != nil {
		reg.MustRegister(oldest, m.observations, m.depth, m.lag, leader, m.epoch, m.epochs)
	}
	return m
}

func (m *Metrics) count(kind, result string) { m.observations.WithLabelValues(kind, result).Inc() }
