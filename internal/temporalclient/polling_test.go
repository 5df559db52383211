package temporalclient

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"
)

// ending is a worker of the SDK, as Polling uses it.
type ending struct {
	worker.Worker
	start   error
	stopped atomic.Bool
}

func (e *ending) Start() error { return e.start }
func (e *ending) Stop()        { e.stopped.Store(true) }

// TestPollingContinues: a worker that the SDK has ended, or that could not start, is stopped and replaced, and
// meanwhile the health check returns the reason.
func TestPollingContinues(t *testing.T) {
	var log bytes.Buffer
	p := NewPolling("queue", zerolog.New(&log), nil)
	require.ErrorContains(t, p.Ready(t.Context()), "task queue queue is not polled")

	ctx, cancel := context.WithCancel(t.Context())
	made := make(chan *ending)
	fatal := make(chan func(error), 1)
	checks := make(chan error)
	done := make(chan struct{})
	start := errors.New("cannot start")
	go func() {
		defer close(done)
		p.Run(ctx, func(ctx context.Context) error {
			select {
			case err := <-checks:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}, func(onFatal func(error)) worker.Worker {
			w := &ending{start: start}
			fatal <- onFatal
			made <- w
			return w
		})
	}()
	says := func(what string) {
		t.Helper()
		require.Eventually(t, func() bool {
			err := p.Ready(t.Context())
			return what == "" && err == nil || what != "" && err != nil && strings.Contains(err.Error(), what)
		}, 10*time.Second, time.Millisecond, what)
	}
	stopped := func(w *ending) {
		t.Helper()
		require.Eventually(t, w.stopped.Load, 10*time.Second, time.Millisecond, "a worker was left behind")
	}

	checks <- errors.New("no namespace")
	says("no namespace")
	checks <- nil
	first := <-made
	<-fatal
	says("cannot start")
	stopped(first)
	start = nil
	checks <- nil
	second := <-made
	says("")
	end := <-fatal
	end(errors.New("namespace not found"))
	end(errors.New("second error"))
	says("namespace not found")
	stopped(second)
	checks <- nil
	third := <-made
	<-fatal
	says("")
	cancel()
	<-done
	stopped(third)
	require.ErrorContains(t, p.Ready(t.Context()), "is stopping")
	require.Equal(t, 6, strings.Count(log.String(), "\n"), "a line for each change: %s", log.String())
}
