package delivery

import (
	"context"
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

// TestThrottleWaitsUntilProcessed: of each hundred objects one is waited for, at most three seconds.
func TestThrottleWaitsUntilProcessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		takes := 3*time.Second - time.Millisecond
		p := throttle{limiter: rate.NewLimiter(100, 1), window: window{size: resyncWindow, log: zerolog.Nop(),
			waitProcessed: func(ctx context.Context, workflow string) error {
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

// asked is a Temporal that notes the queries of workflows.
type asked struct {
	client.Client
	queries []string
}

func (a *asked) QueryWorkflow(
	_ context.Context, workflow, _, query string, _ ...any,
) (converter.EncodedValue, error) {
	a.queries = append(a.queries, workflow+" "+query)
	return nil, nil
}

// TestQueriesWorkflowAfterDelivery: before it, the query would be answered at once.
func TestQueriesWorkflowAfterDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		temporal := &asked{}
		o := outboxOf(NewSender(temporal), nil)
		defer o.queue.ShutDown()
		d := Delivery{Workflow: "vm/a/x", Signal: "s", UID: "u"}
		o.Put(d)
		time.AfterFunc(time.Second-time.Millisecond, func() {
			require.Empty(t, temporal.queries)
			first, _ := o.nextDue(d.Workflow)
			o.remove(first, true)
		})
		begun := time.Now()
		require.NoError(t, o.waitProcessed(t.Context(), d.Workflow))
		require.Equal(t, time.Second, time.Since(begun).Round(pendingPoll))
		require.Equal(t, []string{"vm/a/x plan"}, temporal.queries)

		o.Put(d)
		ctx, cancel := context.WithTimeout(t.Context(), windowWait)
		defer cancel()
		require.ErrorIs(t, o.waitProcessed(ctx, d.Workflow), context.DeadlineExceeded)
		require.Len(t, temporal.queries, 1)

		d.Workflow, d.Class = "vm/a/y", Request
		o.Put(d)
		require.NoError(t, o.waitProcessed(t.Context(), d.Workflow), "a delivery in its flow is not waited for")
		require.Len(t, temporal.queries, 2)
	})
}
