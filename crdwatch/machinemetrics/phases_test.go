package machinemetrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/virtflow/virtflow/crdwatch/watch"
	"github.com/virtflow/virtflow/internal/kube"
)

// newTestInformers returns informers that the test fills.
func newTestInformers(t *testing.T) *watch.Informers {
	t.Helper()
	kv, err := kube.New(&rest.Config{Host: "http://127.0.0.1:1"})
	require.NoError(t, err)
	i, err := watch.NewInformers(fake.NewClientset(), kv, "virtflow", "launcher:new")
	require.NoError(t, err)
	return i
}

// keep adds a stripped object to an informer's store.
func keep(t *testing.T, store interface{ Add(any) error }, o any) {
	t.Helper()
	less, err := watch.Strip(o)
	require.NoError(t, err)
	require.NoError(t, store.Add(less))
}

// leading registers metrics of informers, which are empty until their process leads.
func leading[C prometheus.Collector](
	t *testing.T, i *watch.Informers, metrics func(Leader) C,
) *prometheus.Registry {
	t.Helper()
	var leads *watch.Informers
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics(func() *watch.Informers { return leads }))
	none, err := registry.Gather()
	require.NoError(t, err)
	require.Empty(t, none, "another process leads")
	leads = i
	return registry
}
