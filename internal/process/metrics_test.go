package process

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// TestReadinessIsMetric: readiness is a metric under virtflow's name, and also under KubeVirt's where there is one.
func TestReadinessIsMetric(t *testing.T) {
	h := NewHealth()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(Metrics("api-server", h)...)
	is := func(want string) {
		for _, name := range []string{"virtflow_ready", "kubevirt_virt_api_ready_status"} {
			require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(
				"# HELP "+name+" 1 while /readyz reports that the process can work, otherwise 0.\n"+
					"# TYPE "+name+" gauge\n"+name+" "+want+"\n"), name))
		}
	}
	is("0")
	missing := errors.New("not there yet")
	h.AddReady("it", func(context.Context) error { return missing })
	is("0")
	missing = nil
	is("1")
}
