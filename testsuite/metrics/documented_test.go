package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"k8s.io/client-go/kubernetes"

	"github.com/virtflow/virtflow/activities/cluster/events"
	"github.com/virtflow/virtflow/api/subresources/streams"
	"github.com/virtflow/virtflow/crdwatch"
	"github.com/virtflow/virtflow/gateway"
	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/internal/temporalclient"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/testsuite/metrics"
	"github.com/virtflow/virtflow/workers/node/access"
	"github.com/virtflow/virtflow/workers/node/forward"
	"github.com/virtflow/virtflow/workers/node/migrate"
	"github.com/virtflow/virtflow/workers/node/report"
	"github.com/virtflow/virtflow/workers/node/statistics"
)

// TestMetricsAreDocumented: the page has the registered metrics of each package whose metrics can be created outside
// it.
func TestMetricsAreDocumented(t *testing.T) {
	for of, register := range map[string]func(*prometheus.Registry){
		"internal/process": func(r *prometheus.Registry) {
			for _, name := range []string{"api-server", "control-worker", "node-worker"} {
				for _, c := range process.Metrics(name, process.NewHealth()) {
					_ = r.Register(c) // common ones are registered already
				}
			}
		},
		"internal/kube":           func(r *prometheus.Registry) { kube.NewRequests(r) },
		"internal/temporalclient": func(r *prometheus.Registry) { temporalclient.NewPolling("q", zerolog.Nop(), r) },
		"crdwatch": func(r *prometheus.Registry) {
			server := fakekube.New(fakekube.Options{})
			clients, err := kubernetes.NewForConfig(server.Config())
			require.NoError(t, err)
			kv, err := kube.New(server.Config())
			require.NoError(t, err)
			temporal, err := client.NewLazyClient(client.Options{})
			require.NoError(t, err)
			_, err = crdwatch.New(crdwatch.Options{Kubernetes: clients, KubeVirt: kv, Temporal: temporal,
				Namespace: "virtflow", Identity: "w", Workers: 1, Registry: r, Log: zerolog.Nop()})
			require.NoError(t, err)
		},
		"activities/cluster/events": func(r *prometheus.Registry) { events.NewQueue(nil, zerolog.Nop(), r) },
		"api/subresources/streams":  func(r *prometheus.Registry) { streams.New(streams.Options{Registry: r}) },
		"gateway": func(r *prometheus.Registry) {
			gateway.New(gateway.Options{Registry: r, Log: zerolog.Nop()})
			gateway.NewCallers(nil, nil, "", "virtflow", "node-worker", r)
		},
		"workers/node/access":  func(r *prometheus.Registry) { access.New(access.Options{Registry: r}) },
		"workers/node/forward": func(r *prometheus.Registry) { forward.New(forward.Options{Registry: r}, nil) },
		"workers/node/report":  func(r *prometheus.Registry) { r.MustRegister(report.NewDeprecated("n", nil)) },
		"workers/node/statistics": func(r *prometheus.Registry) {
			statistics.New(statistics.Options{Registry: r})
		},
		"workers/node/migrate": func(r *prometheus.Registry) { migrate.NewSessions("n", zerolog.Nop(), r) },
	} {
		t.Run(of, func(t *testing.T) {
			r := prometheus.NewRegistry()
			register(r)
			metrics.Documented(t, of, r)
		})
	}
}
