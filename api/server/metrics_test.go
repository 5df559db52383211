package server

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/testsuite/metrics"
)

func TestMetricsAreDocumented(t *testing.T) {
	r := prometheus.NewRegistry()
	observer(r)
	subresourceRefusals(r)
	subresourceObserver(r)
	newReports(nil, zerolog.Nop(), r).close(0)
	r.MustRegister(newServer("", 0, Limits{}, nil, nil, nil, zerolog.Nop()).refused)
	metrics.Documented(t, "api/server", r)
}
