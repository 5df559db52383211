package streams

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestCountsOpenConnections(t *testing.T) {
	r := prometheus.NewRegistry()
	c := newConnections(r)
	shows := func(want string) {
		t.Helper()
		require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(want)))
	}
	shows("")
	c.add(connection{"vnc", "ns", "x"}, 1)
	c.add(connection{"vnc", "ns", "x"}, 1)
	c.add(connection{"vnc", "ns", "y"}, 1)
	c.add(connection{portForward, "ns", "x"}, 1)
	c.add(connection{"screenshot", "ns", "x"}, 1) // KubeVirt has no gauge of those
	c.add(connection{"vnc", "ns", "y"}, -1)
	shows(`
# HELP kubevirt_portforward_active_tunnels Forwarded connections to ports of a VMI.
# TYPE kubevirt_portforward_active_tunnels gauge
kubevirt_portforward_active_tunnels{namespace="ns",vmi="x"} 1
# HELP kubevirt_vnc_active_connections Open screens of a VMI.
# TYPE kubevirt_vnc_active_connections gauge
kubevirt_vnc_active_connections{namespace="ns",vmi="x"} 2
`)
	c.add(connection{portForward, "ns", "x"}, -1)
	c.add(connection{"vnc", "ns", "x"}, -2)
	shows("")
}
