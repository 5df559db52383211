package control

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// TestReportsAfterChange: a change of the KubeVirt object is reported without another check.
func TestReportsAfterChange(t *testing.T) {
	checks, reports, changed := 0, make(chan error), make(chan struct{})
	r := newRegistration(func(context.Context) error { checks++; return nil }, zerolog.Nop(), prometheus.NewRegistry())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.run(ctx, time.Hour, changed, func(_ context.Context, problem error) { reports <- problem })
	}()
	require.NoError(t, <-reports)
	for range 2 {
		changed <- struct{}{}
		require.NoError(t, <-reports)
	}
	cancel()
	<-done
	require.Equal(t, 1, checks)
}
