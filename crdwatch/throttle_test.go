package crdwatch

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"golang.org/x/time/rate"
)

// TestWhatHasNotChangedIsSentAsItIsTakenIn: of each hundred objects one is waited for, at most three seconds.
func TestWhatHasNotChangedIsSentAsItIsTakenIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		takes := 3*time.Second - time.Millisecond
		p := throttle{limiter: rate.NewLimiter(100, 1), window: window{size: resyncWindow, log: zerolog.Nop(),
			takenIn: func(ctx context.Context, workflow string) error {
				asked = append(asked, workflow)
				select {
				case <-time.After(takes):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}}}
		send := func(n int) time.Duration {
			begun := time.Now()
			for i := range n {
				require.NoError(t, p.wait(t.Context(), "vm/a/"+strconv.Itoa(i+1)))
			}
			return time.Since(begun).Round(100 * time.Millisecond)
		}
		require.Equal(t, time.Second, send(100))
		require.Empty(t, asked)
		require.Equal(t, 4*time.Second, send(100))
		require.Equal(t, []string{"vm/a/100"}, asked)

		takes = time.Hour
		require.Equal(t, 4*time.Second, send(100), "it does not answer")
		require.Len(t, asked, 2)

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		for err := error(nil); err == nil; err = p.wait(ctx, "vm/a/x") {
		}
		require.ErrorIs(t, ctx.Err(), context.Canceled)
	})
}

// TestWhatHasNotChangedWaitsForNothingAtNoRate is how tests under virtual time send.
func TestWhatHasNotChangedWaitsForNothingAtNoRate(t *testing.T) {
	p := throttle{limiter: rate.NewLimiter(rate.Inf, 1), window: window{size: resyncWindow,
		takenIn: func(context.Context, string) error { return errors.New("asked") }}}
	for range 3 * resyncWindow {
		require.NoError(t, p.wait(t.Context(), "vm/a/x"))
	}
	require.Zero(t, p.window.sent)
}

// asked is a Temporal that notes the queries of workflows.
type asked struct {
	client.Client
	queries []string
}

func (a *asked) QueryWorkflow(
	_ context.Context, workflow, _, query string, _ ...any,
) (converter.EncodedValue, error) {
	a.queries = append(a.queries, workflow+" "+query)
	return nil, nil //nolint:nilnil // nobody looks at it
}

// TestAWorkflowIsAskedWhenEverythingIsDelivered: before, it would answer at once.
func TestAWorkflowIsAskedWhenEverythingIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(nil, nil, NewMetrics(nil), zerolog.Nop())
		defer o.queue.ShutDown()
		temporal := &asked{}
		r := &resyncer{temporal: temporal, differ: &differ{queue: o}}
		d := Delivery{Workflow: "vm/a/x", Signal: "s", UID: "u"}
		o.Put(d)
		time.AfterFunc(time.Second-time.Millisecond, func() {
			require.Empty(t, temporal.queries)
			first, _ := o.first(d.Workflow)
			o.done(first, true)
		})
		begun := time.Now()
		require.NoError(t, r.takenIn(t.Context(), d.Workflow))
		require.Equal(t, time.Second, time.Since(begun).Round(holdsPause))
		require.Equal(t, []string{"vm/a/x plan"}, temporal.queries)

		o.Put(d)
		ctx, cancel := context.WithTimeout(t.Context(), windowWait)
		defer cancel()
		require.ErrorIs(t, r.takenIn(ctx, d.Workflow), context.DeadlineExceeded)
		require.Len(t, temporal.queries, 1)

		d.Workflow, d.FlowControlled = "vm/a/y", true
		o.Put(d)
		require.NoError(t, r.takenIn(t.Context(), d.Workflow), "what waits for its turn comes after what is asked about")
		require.Len(t, temporal.queries, 2)
	})
}
