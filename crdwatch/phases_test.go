package crdwatch

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// leading registers metrics of the informers of d, which show nothing until their process leads.
func leading[C prometheus.Collector](t *testing.T, d *differ, metrics func(lead) C) *prometheus.Registry {
	t.Helper()
	var leads *Informers
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics(func() *Informers { return leads }))
	none, err := registry.Gather()
	require.NoError(t, err)
	require.Empty(t, none, "another process leads")
	leads = d.informers
	return registry
}
