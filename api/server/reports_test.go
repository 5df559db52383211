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
	"go.temporal.io/sdk/client"

	"github.com/virtflow/virtflow/workflows/contract"
)

// signals is Temporal as far as reports know it. It takes one after next says so, or gives up with the context.
type signals struct {
	client.Client
	registry *prometheus.Registry
	t        *testing.T

	next chan struct{}
	fail error

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
	if !ok || name != contract.SignalReportRequest {
		return errors.New("another signal")
	}
	s.got[workflow] = append(s.got[workflow], r.Replicas)
	return s.fail
}

// lost is what the process says of the reports that it lost.
func (s *signals) lost() float64 {
	families, err := s.registry.Gather()
	require.NoError(s.t, err)
	for _, f := range families {
		if f.GetName() == "virtflow_reports_lost_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	s.t.Fatal("nothing is counted")
	return 0
}

func newSignals(t *testing.T) (*signals, *reports) {
	t.Helper()
	s := &signals{registry: prometheus.NewRegistry(), t: t, next: make(chan struct{}), got: map[string][]int{}}
	r := newReports(s, zerolog.Nop(), s.registry)
	t.Cleanup(func() { r.end(0) })
	return s, r
}

// hurried has nobody wait.
func hurried(t *testing.T, r *reports) {
	t.Helper()
	require.True(t, r.waited.TryAcquire(reportsWaited))
	t.Cleanup(func() { r.waited.Release(reportsWaited) })
}

// TestADeletionWaitsForItsReport: what comes of it is then told to a workflow that knows who asked.
func TestADeletionWaitsForItsReport(t *testing.T) {
	s, r := newSignals(t)
	r.wait = time.Minute
	close(s.next)
	for i := range 100 {
		r.Report("vm/demo/a", contract.RequestReport{Replicas: i})
		s.mu.Lock()
		got := len(s.got["vm/demo/a"])
		s.mu.Unlock()
		require.Equal(t, i+1, got)
	}
}

// TestNobodyWaitsLongForAReport, and those of one workflow arrive in their order, also at the end.
func TestNobodyWaitsLongForAReport(t *testing.T) {
	s, r := newSignals(t)
	hurried(t, r)
	want := map[string][]int{}
	for i := range 40 {
		for _, workflow := range []string{"vm/demo/a", "vm/demo/b", "replicaset/demo/c"} {
			r.Report(workflow, contract.RequestReport{Replicas: i})
			want[workflow] = append(want[workflow], i)
		}
	}
	// Nothing has been taken so far, and nobody has waited.
	close(s.next)
	r.end(time.Minute)
	require.Equal(t, want, s.got)
	require.Zero(t, s.lost())
	r.Report("vm/demo/a", contract.RequestReport{})
	require.Equal(t, want, s.got)
	require.EqualValues(t, 1, s.lost(), "what comes too late is counted")
}

// TestWhatIsReportedTooFastIsCounted and nobody waits for it either.
func TestWhatIsReportedTooFastIsCounted(t *testing.T) {
	s, r := newSignals(t)
	hurried(t, r)
	const more = 10
	for range reportsWaiting + 1 + more { // one is on its way, perhaps
		r.Report("vm/demo/a", contract.RequestReport{})
	}
	lost := s.lost()
	require.Contains(t, []float64{more, more + 1}, lost)
	close(s.next)
	r.end(time.Minute)
	require.EqualValues(t, reportsWaiting+1+more, float64(len(s.got["vm/demo/a"]))+lost)
}

// TestTheEndComesInTime, though Temporal does not answer; what is given up is counted.
func TestTheEndComesInTime(t *testing.T) {
	s, r := newSignals(t)
	hurried(t, r)
	for range 50 {
		r.Report("vm/demo/a", contract.RequestReport{})
	}
	r.end(0)
	require.Empty(t, s.got)
	require.EqualValues(t, 50, s.lost())
}

// TestAReportThatNobodyTakesIsCounted: the workflow has ended.
func TestAReportThatNobodyTakesIsCounted(t *testing.T) {
	s, r := newSignals(t)
	s.fail = errors.New("not found")
	r.Report("vm/demo/a", contract.RequestReport{})
	close(s.next)
	r.end(time.Minute)
	require.EqualValues(t, 1, s.lost())
}
