package server

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/virtflow/virtflow/contract"
)

// signals is a fake of Temporal. It accepts a signal when next permits it, or gives up with the context.
type signals struct {
	client.Client
	registry *prometheus.Registry
	t        *testing.T

	next chan struct{}
	fail []error // of the first tries

	mu  sync.Mutex
	got map[string][]int
}

func (s *signals) SignalWorkflow(ctx context.Context, workflow, _, name string, what any) error {
	select {
	case <-s.next:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := what.(contract.RequestReport)
	if !ok || name != contract.SignalReportRequest || time.Since(r.Asked) > time.Minute {
		return errors.New("another signal")
	}
	if len(s.fail) > 0 {
		var err error
		err, s.fail = s.fail[0], s.fail[1:]
		return err
	}
	s.got[workflow] = append(s.got[workflow], r.Replicas)
	return nil
}

// dropped returns how many reports the process has counted as dropped for a reason.
func (s *signals) dropped(reason string) float64 {
	families, err := s.registry.Gather()
	require.NoError(s.t, err)
	for _, f := range families {
		if f.GetName() != "virtflow_reports_dropped_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	s.t.Fatal("nothing is counted")
	return 0
}

func newSignals(t *testing.T) (*signals, *reports) {
	t.Helper()
	s := &signals{registry: prometheus.NewRegistry(), t: t, next: make(chan struct{}), got: map[string][]int{}}
	r := newReports(s, zerolog.Nop(), s.registry)
	t.Cleanup(func() { r.close(0) })
	return s, r
}

// TestRequestsDoNotWaitForReports: requests do not wait for reports even while Temporal accepts none; the reports of
// one workflow arrive in order, also at shutdown.
func TestRequestsDoNotWaitForReports(t *testing.T) {
	s, r := newSignals(t)
	want := map[string][]int{}
	for i := range 40 {
		for _, workflow := range []string{"vm/demo/a", "vm/demo/b", "replicaset/demo/c"} {
			r.Report(workflow, contract.RequestReport{Replicas: i})
			want[workflow] = append(want[workflow], i)
		}
	}
	// No signal has been accepted so far, and no request has waited: a signal lasts until the channel is closed.
	require.Empty(t, s.got)
	close(s.next)
	r.close(time.Minute)
	require.Equal(t, want, s.got)
	r.Report("vm/demo/a", contract.RequestReport{})
	require.Equal(t, want, s.got)
	require.EqualValues(t, 1, s.dropped(droppedEnding), "what comes too late is counted")
}

// TestDropsReportsBeyondQueue: reports that the queue cannot hold are dropped and counted, and requests do not wait for
// them.
func TestDropsReportsBeyondQueue(t *testing.T) {
	s, r := newSignals(t)
	const more = 10
	for range reportQueue + 1 + more { // one is on its way, perhaps
		r.Report("vm/demo/a", contract.RequestReport{})
	}
	dropped := s.dropped(droppedFull)
	require.Contains(t, []float64{more, more + 1}, dropped)
	close(s.next)
	r.close(time.Minute)
	require.EqualValues(t, reportQueue+1+more, float64(len(s.got["vm/demo/a"]))+dropped)
}

// TestCloseIsBounded: closing takes a bounded time even if Temporal does not answer; dropped reports are counted.
func TestCloseIsBounded(t *testing.T) {
	s, r := newSignals(t)
	for range 50 {
		r.Report("vm/demo/a", contract.RequestReport{})
	}
	r.close(0)
	require.Empty(t, s.got)
	require.EqualValues(t, 50, s.dropped(droppedEnding))
}

// TestRetriesReport: a report is retried while Temporal is unavailable; later reports of the same workflow wait.
func TestRetriesReport(t *testing.T) {
	s, r := newSignals(t)
	s.fail = []error{serviceerror.NewUnavailable("away"), context.DeadlineExceeded}
	for i := range 2 {
		r.Report("vm/demo/a", contract.RequestReport{Replicas: i})
	}
	close(s.next)
	r.close(time.Minute)
	require.Equal(t, map[string][]int{"vm/demo/a": {0, 1}}, s.got)
}

// TestCountsRejectedReport: a report is counted and not retried when the workflow has ended or the server rejects the
// report as invalid.
func TestCountsRejectedReport(t *testing.T) {
	s, r := newSignals(t)
	s.fail = []error{serviceerror.NewNotFound("none"), serviceerror.NewInvalidArgument("too large")}
	for range 3 {
		r.Report("vm/demo/a", contract.RequestReport{})
	}
	close(s.next)
	r.close(time.Minute)
	require.EqualValues(t, 1, s.dropped(droppedAbsent))
	require.EqualValues(t, 1, s.dropped(droppedFailed))
	require.Len(t, s.got["vm/demo/a"], 1)
}
