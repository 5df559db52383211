package delivery

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// The values of the label result.
const (
	resultSent    = "sent"
	resultSkipped = "skipped"
	resultFailed  = "failed"
	resultRefused = "refused"
	resultDropped = "dropped"
)

// Metrics has the metrics of one process's deliveries.
type Metrics struct {
	observations *prometheus.CounterVec
	depth        prometheus.Gauge
	lag          prometheus.Histogram
	// outbox is the outbox that runs in this process; nil: another process leads.
	outbox atomic.Pointer[Outbox]
}

// NewMetrics registers the metrics; reg may be nil.
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
	oldest := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "virtflow_crdwatch_oldest_timestamp_seconds",
		Help: "When the first observation that waits was, or will be, due, in seconds since 1970; 0: none waits.",
	}, func() float64 {
		if o := m.outbox.Load(); o != nil {
			return o.oldestDue()
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
		reg.MustRegister(oldest, m.observations, m.depth, m.lag, leader)
	}
	return m
}

// CountSkipped counts an observation that is not worth sending.
func (m *Metrics) CountSkipped(kind Kind) { m.count(kind, resultSkipped) }

func (m *Metrics) count(kind Kind, result string) {
	m.observations.WithLabelValues(string(kind), result).Inc()
}
