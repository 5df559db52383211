package crdwatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
)

// recording is a Sender that keeps what it is given, and fails while it is told to.
type recording struct {
	mu   sync.Mutex
	sent []Delivery
	down bool
	held chan struct{} // when set, each Send takes one
	busy map[string]int
	most int
}

func (r *recording) Send(ctx context.Context, d *Delivery) error {
	r.mu.Lock()
	if r.busy == nil {
		r.busy = map[string]int{}
	}
	r.busy[d.Workflow]++
	r.most = max(r.most, r.busy[d.Workflow])
	held := r.held
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.busy[d.Workflow]--
		r.mu.Unlock()
	}()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return errors.New("Temporal is away")
	}
	r.sent = append(r.sent, *d)
	return nil
}

func (r *recording) all() []Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Delivery(nil), r.sent...)
}

func payloads(list []Delivery) []any {
	var out []any
	for _, d := range list {
		out = append(out, d.Payload)
	}
	return out
}

func newTestOutbox(t *testing.T, s Sender) (*Outbox, func()) {
	t.Helper()
	o := newOutbox(s, NewMetrics(nil), zerolog.Nop())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	return o, func() {
		t.Cleanup(func() { cancel(); <-done })
		go func() { defer close(done); o.Run(ctx, 4) }()
	}
}

func TestNewestOfAnObjectWins(t *testing.T) {
	r := &recording{}
	o, run := newTestOutbox(t, r)
	o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: "1", Payload: "old"})
	o.Put(Delivery{Workflow: "vm/a/b", Signal: "vmi", UID: "2", Payload: "instance"})
	o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: "1", Payload: "gone"})
	o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: "3", Payload: "next"})
	run()
	require.Eventually(t, func() bool { return len(r.all()) == 3 }, 10*time.Second, time.Millisecond)
	require.Equal(t, []any{"gone", "instance", "next"}, payloads(r.all()))
}

func TestRetriedUntilTaken(t *testing.T) {
	r := &recording{down: true}
	o, run := newTestOutbox(t, r)
	run()
	o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: "1", Payload: "first"})
	o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: "1", Payload: "second"})
	require.Eventually(t, func() bool { return o.queue.NumRequeues("vm/a/b") > 1 }, 10*time.Second, time.Millisecond)
	r.mu.Lock()
	r.down = false
	r.mu.Unlock()
	require.Eventually(t, func() bool { return len(r.all()) == 1 }, 10*time.Second, time.Millisecond)
	require.Equal(t, []any{"second"}, payloads(r.all()))
}

// refusing takes everything but one payload.
type refusing struct{ recording }

func (r *refusing) Send(ctx context.Context, d *Delivery) error {
	if d.Payload == "bad" {
		return fmt.Errorf("signalling: %w", serviceerror.NewInvalidArgument("too large"))
	}
	return r.recording.Send(ctx, d)
}

func TestWhatIsRefusedDoesNotHoldUpTheRest(t *testing.T) {
	r := &refusing{}
	o, run := newTestOutbox(t, r)
	o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: "1", Payload: "bad"})
	o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: "2", Payload: "good"})
	run()
	require.Eventually(t, func() bool { return len(r.all()) == 1 }, 10*time.Second, time.Millisecond)
	require.Equal(t, []any{"good"}, payloads(r.all()))
}

func TestOneAtATimeForAWorkflow(t *testing.T) {
	r := &recording{held: make(chan struct{})}
	o, run := newTestOutbox(t, r)
	run()
	for _, uid := range []string{"1", "2", "3", "4"} {
		o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: uid, Payload: uid})
		o.Put(Delivery{Workflow: "vm/a/c", Signal: "vm", UID: uid, Payload: uid})
	}
	for range 8 {
		r.held <- struct{}{}
	}
	require.Eventually(t, func() bool { return len(r.all()) == 8 }, 10*time.Second, time.Millisecond)
	require.Equal(t, 1, r.most)
}

func TestReplacedWhileBeingSent(t *testing.T) {
	r := &recording{held: make(chan struct{})}
	o, run := newTestOutbox(t, r)
	run()
	o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: "1", Payload: "first"})
	require.Eventually(t, func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.busy["vm/a/b"] == 1 }, 10*time.Second, time.Millisecond)
	o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: "1", Payload: "second"})
	close(r.held)
	require.Eventually(t, func() bool { return len(r.all()) == 2 }, 10*time.Second, time.Millisecond)
	require.Equal(t, []any{"first", "second"}, payloads(r.all()))
}
