package migrate

import (
	"net"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/virtflow/virtflow/workers/node/launchers"
)

// traffic counts what the streams of one side move.
type traffic struct{ sent, received prometheus.Counter }

// newTraffic has counters of its own for each side; r may be nil.
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

// newGauge is how many migrations of one side there are.
func newGauge(r prometheus.Registerer, side launchers.Side, count func() int) {
	if r != nil {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "virtflow_node_migrations", ConstLabels: prometheus.Labels{"side": string(side)},
			Help: "Guests that leave this node (source), and those that it is prepared to receive (target).",
		}, func() float64 { return float64(count()) }))
	}
}

// counted is the launcher's end of a stream: what is read there is sent to the other node.
type counted struct {
	*net.UnixConn
	traffic
	sum *atomic.Int64 // of the bytes that one guest's streams have sent; nil: nobody asks
}

// NetConn is the connection itself.
func (c counted) NetConn() net.Conn { return c.UnixConn }

func (c counted) Read(p []byte) (int, error) {
	n, err := c.UnixConn.Read(p)
	c.sent.Add(float64(n))
	if c.sum != nil {
		c.sum.Add(int64(n))
	}
	return n, err //nolint:wrapcheck // what the connection says
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.UnixConn.Write(p)
	c.received.Add(float64(n))
	return n, err //nolint:wrapcheck // what the connection says
}
