package streams

import "github.com/prometheus/client_golang/prometheus"

// connectionMetrics are KubeVirt's gauges of open streams, by subresource.
var connectionMetrics = map[string]prometheus.GaugeOpts{
	"console":   {Name: "kubevirt_console_active_connections", Help: "Open serial consoles of a VMI."},
	"vnc":       {Name: "kubevirt_vnc_active_connections", Help: "Open screens of a VMI."},
	"usbredir":  {Name: "kubevirt_usbredir_active_connections", Help: "USB devices that are redirected to a VMI."},
	portForward: {Name: "kubevirt_portforward_active_tunnels", Help: "Forwarded connections to ports of a VMI."},
}

// connection identifies one series.
type connection struct{ kind, namespace, name string }

// connections counts the open streams of each VMI. The caller holds a lock.
type connections struct {
	gauges map[string]*prometheus.GaugeVec
	open   map[connection]int
}

func newConnections(r prometheus.Registerer) connections {
	c := connections{gauges: map[string]*prometheus.GaugeVec{}, open: map[connection]int{}}
	for kind, o := range connectionMetrics {
		c.gauges[kind] = prometheus.NewGaugeVec(o, []string{"namespace", "vmi"})
		if r != nil {
			r.MustRegister(c.gauges[kind])
		}
	}
	return c
}

// add counts n more streams, or fewer. The series of a VMI ends with its last stream: KubeVirt keeps one at 0 for each
// VMI that ever existed, as long as virt-api runs.
func (c *connections) add(o connection, n int) {
	gauge := c.gauges[o.kind]
	if gauge == nil {
		return
	}
	c.open[o] += n
	if c.open[o] == 0 {
		delete(c.open, o)
		gauge.DeleteLabelValues(o.namespace, o.name)
		return
	}
	gauge.WithLabelValues(o.namespace, o.name).Set(float64(c.open[o]))
}
