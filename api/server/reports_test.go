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

	"github.com/virtflow/virtflow/workflows/contract"
)

// signals is Temporal as far as reports know it. It takes one after next says so, or gives up with the context.
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

// dropped is how many reports the process says that it dropped for a reason.
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

// TestNoRequestWaitsForAReport, though Temporal takes none; those of one workflow arrive in their order, also at the
// end.
func TestNoRequestWaitsForAReport(t *testing.T) {
	s, r := newSignals(t)
	want := map[string][]int{}
	for i := range 40 {
		for _, workflow := range []string{"vm/demo/a", "vm/demo/b", "replicaset/demo/c"} {
			r.Report(workflow, contract.RequestReport{Replicas: i})
			want[workflow] = append(want[workflow], i)
		}
	}
	// Nothing has been taken so far, and nobody has waited: a signal lasts until the channel is closed.
	require.Empty(t, s.got)
	close(s.next)
	r.close(time.Minute)
	require.Equal(t, want, s.got)
	r.Report("vm/demo/a", contract.RequestReport{})
	require.Equal(t, want, s.got)
	require.EqualValues(t, 1, s.dropped(droppedEnding), "what comes too late is counted")
}

// TestReportsBeyondTheQueueAreDropped and counted, and nobody waits for them either.
func TestReportsBeyondTheQueueAreDropped(t *testing.T) {
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

// TestTheEndComesInTime, though Temporal does not answer; what is given up is counted.
func TestTheEndComesInTime(t *testing.T) {
	s, r := newSignals(t)
	for range 50 {
		r.Report("vm/demo/a", contract.RequestReport{})
	}
	r.close(0)
	require.Empty(t, s.got)
	require.EqualValues(t, 50, s.dropped(droppedEnding))
}

// TestAReportIsTriedAgain while Temporal is away, and what comes after it for the same workflow waits.
func TestAReportIsTriedAgain(t *testing.T) {
	s, r := newSignals(t)
	s.fail = []error{serviceerror.NewUnavailable("away"), context.DeadlineExceeded}
	for i := range 2 {
		r.Report("vm/demo/a", contract.RequestReport{Replicas: i})
	}
	close(s.next)
	r.close(time.Minute)
	require.Equal(t, map[string][]int{"vm/demo/a": {0, 1}}, s.got)
}

// TestAReportThatNobodyTakesIsCounted, and not tried again: the workflow has ended, or the server calls it invalid.
func TestAReportThatNobodyTakesIsCounted(t *testing.T) {
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
