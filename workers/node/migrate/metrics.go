package migrate

import (
	"net"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workers/node/launchers"
)

// traffic counts the bytes that the streams of one side carry.
type traffic struct{ sent, received prometheus.Counter }

// newTraffic returns counters for one side; r may be nil.
func newTraffic(r prometheus.Registerer, side launchers.Side) traffic {
	all := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "virtflow_node_migration_bytes_total", ConstLabels: prometheus.Labels{"side": string(side)},
		Help: "Bytes that streams of migrations have moved, by direction as this node sees it.",
	}, []string{"direction"})
	if r != nil {
		r.MustRegister(all)
	}
	return traffic{sent: all.WithLabelValues("sent"), received: all.WithLabelValues("received")}
}

// newGauge registers the number of migrations of one side.
func newGauge(r prometheus.Registerer, side launchers.Side, count func() int) {
	if r != nil {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "virtflow_node_migrations", ConstLabels: prometheus.Labels{"side": string(side)},
			Help: "Guests that leave this node (source), and those that it is prepared to receive (target).",
		}, func() float64 { return float64(count()) }))
	}
}

// countedStream is the launcher's end of a stream: what is read there is sent to the other node.
type countedStream struct {
	*net.UnixConn
	traffic
	sum *atomic.Int64 // of the bytes that one guest's streams have sent; nil: not counted
}

// NetConn returns the connection itself.
func (c countedStream) NetConn() net.Conn { return c.UnixConn }

func (c countedStream) Read(p []byte) (int, error) {
	n, err := c.UnixConn.Read(p)
	c.sent.Add(float64(n))
	if c.sum != nil {
		c.sum.Add(int64(n))
	}
	return n, err
}

func (c countedStream) Write(p []byte) (int, error) {
	n, err := c.UnixConn.Write(p)
	c.received.Add(float64(n))
	return n, err
}

// progress has KubeVirt's metrics of guests that leave this node, with its names and units. Each exists while its guest
// moves. They lack the labels of the VMI, which KubeVirt's have.
type progress struct {
	sessions *Sessions
	metrics  []progressMetric
}

type progressMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(contract.MigrationProgress) int64
}

func newProgress(s *Sessions) *progress {
	p := &progress{sessions: s}
	add := func(name, help string, kind prometheus.ValueType, of func(contract.MigrationProgress) int64) {
		p.metrics = append(p.metrics, progressMetric{desc: prometheus.NewDesc("kubevirt_vmi_migration_"+name, help,
			[]string{"node", "namespace", "name"}, nil), kind: kind, of: of})
	}
	add("data_bytes_total", "Bytes of a guest that are to be at its target.", prometheus.CounterValue,
		func(p contract.MigrationProgress) int64 { return p.Total })
	add("data_processed_bytes", "Bytes of a guest that were copied, some of them more than once.",
		prometheus.GaugeValue, func(p contract.MigrationProgress) int64 { return p.Processed })
	add("data_remaining_bytes", "Bytes of a guest that are still to be copied.", prometheus.GaugeValue,
		func(p contract.MigrationProgress) int64 { return p.Remaining })
	add("dirty_memory_rate_bytes", "Bytes of its memory that a guest changes in a second.", prometheus.GaugeValue,
		func(p contract.MigrationProgress) int64 { return p.DirtyRate })
	add("memory_transfer_rate_bytes", "Bytes of a guest's memory that are copied in a second.", prometheus.GaugeValue,
		func(p contract.MigrationProgress) int64 { return p.Rate })
	return p
}

// Describe implements prometheus.Collector.
func (p *progress) Describe(out chan<- *prometheus.Desc) {
	for _, m := range p.metrics {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (p *progress) Collect(out chan<- prometheus.Metric) {
	for vmi, now := range p.sessions.progress() {
		for _, m := range p.metrics {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(m.of(now)), p.sessions.node, vmi.Namespace,
				vmi.Name)
		}
	}
}
