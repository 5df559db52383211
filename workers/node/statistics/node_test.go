package statistics_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/forward"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/launchertest"
	"github.com/virtflow/virtflow/workers/node/records"
	"github.com/virtflow/virtflow/workers/node/statistics"
)

// temporal accepts signals.
type temporal struct{}

func (temporal) SignalWorkflow(context.Context, string, string, string, any) error { return nil }

// TestScrapeOfNode: a scrape goes from the kubelet's file and the launcher's socket to the metric, and the guest of a
// launcher that has ended is gone from the next one.
func TestScrapeOfNode(t *testing.T) {
	const pod = "3f2a9c1e-0b5d-4c6e-8f70-112233445566"
	node, launcher := launchertest.NewNode(t), launchertest.NewLauncher()
	launcher.Count = answers(&rpc.StatisticsResponse{Affinities: new(uint32(4))})
	stop := launchertest.Serve(t, node.AddPod(t, pod), launcher)
	node.WriteVMI(t, pod, `{"metadata":{"namespace":"shop","name":"web","uid":"u1","labels":{"app":"web"}}}`)

	store, err := records.Open(t.TempDir())
	require.NoError(t, err)
	dialer := node.Dialer()
	forwarder := forward.New(forward.Options{
		Log: zerolog.Nop(), Temporal: temporal{}, Records: store,
		Connect:   func(ctx context.Context, pod string) (forward.Launcher, error) { return dialer.Connect(ctx, pod) },
		IsPodGone: func(pod string) bool { return launchers.IsPodGone(node.KubeletDir, pod) },
	}, []records.Record{{Pod: contract.Object{Namespace: "shop", Name: "launcher", UID: pod},
		VMI: contract.Object{Namespace: "shop", Name: "web", UID: "u1"}}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); forwarder.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })

	r := prometheus.NewRegistry()
	statistics.New(statistics.Options{
		Log: zerolog.Nop(), Node: "node1", Registry: r, Guests: forwarder.Guests, Machine: dialer.Machine,
		SharedFor: -1,
	})
	has := func(n int) func() bool {
		return func() bool {
			found, err := testutil.GatherAndCount(r, affinity)
			return err == nil && found == n
		}
	}
	require.Eventually(t, has(1), 10*time.Second, 10*time.Millisecond, "the guest was not scraped")
	require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(strings.Join([]string{
		"# HELP kubevirt_vmi_node_cpu_affinity Pairs of a virtual CPU and a CPU of the node on which it may run.",
		"# TYPE kubevirt_vmi_node_cpu_affinity gauge",
		`kubevirt_vmi_node_cpu_affinity{kubernetes_vmi_label_app="web",` +
			`kubernetes_vmi_label_kubevirt_io_nodeName="node1",name="web",namespace="shop",node="node1"} 4`, "",
	}, "\n")), affinity))
	stop()
	require.Eventually(t, has(0), 10*time.Second, 10*time.Millisecond, "the launcher has ended")
}
