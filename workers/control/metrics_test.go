package control

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/testsuite/metrics"
)

func TestMetricsAreDocumented(t *testing.T) {
	r := prometheus.NewRegistry()
	newRegistration(nil, zerolog.Nop(), r)
	metrics.Documented(t, "workers/control", r)
}
