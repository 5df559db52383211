package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/temporalclient"
)

// recording is a Sender that records what it is given, and can be made to fail.
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

func (r *recording) WaitProcessed(context.Context, string) error { return nil }

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

// outboxOf returns an outbox that is not throttled.
func outboxOf(s Sender, c *temporalclient.Outages) *Outbox {
	return NewOutbox(s, c, func() int64 { return 0 }, rate.NewLimiter(rate.Inf, 1), NewMetrics(nil), zerolog.Nop())
}

func newTestOutbox(t *testing.T, s Sender) (*Outbox, func()) {
	t.Helper()
	o := outboxOf(s, temporalclient.NewOutages())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	return o, func() {
		t.Cleanup(func() { cancel(); <-done })
		go func() { defer close(done); o.Run(ctx, 4) }()
	}
}

func TestKeepsNewestObservation(t *testing.T) {
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

func TestRetriesUntilDelivered(t *testing.T) {
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

// refusing returns an error, for each payload as often as configured.
type refusing struct {
	recording
	times map[any]int
	err   error
}

func (r *refusing) Send(ctx context.Context, d *Delivery) error {
	r.mu.Lock()
	left := r.times[d.Payload]
	r.times[d.Payload]--
	r.mu.Unlock()
	if left > 0 {
		return fmt.Errorf("signalling: %w", r.err)
	}
	return r.recording.Send(ctx, d)
}

func TestRetriesRefusedDeliveryAfterOthers(t *testing.T) {
	for name, err := range map[string]error{
		"too many signals": serviceerror.NewInvalidArgument("exceeded workflow execution limit for signal events"),
		"attributes missing": serviceerror.NewInvalidArgument(
			"Namespace virtflow has no mapping defined for search attribute VirtflowUID"),
	} {
		t.Run(name, func(t *testing.T) {
			r := &refusing{times: map[any]int{"bad": 3}, err: err}
			o, run := newTestOutbox(t, r)
			o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: "1", Payload: "bad"})
			o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: "2", Payload: "good"})
			run()
			require.Eventually(t, func() bool { return len(r.all()) == 2 }, 10*time.Second, time.Millisecond)
			require.Equal(t, []any{"good", "bad"}, payloads(r.all()))
		})
	}
}

func TestDropsOnlyTooLargeDeliveries(t *testing.T) {
	for name, err := range map[string]error{
		"for Temporal": serviceerror.NewInvalidArgument("Blob data size exceeds limit."),
		"for gRPC": serviceerror.NewResourceExhausted(0,
			"grpc: trying to send message larger than max (5000000 vs. 4194304)"),
	} {
		t.Run(name, func(t *testing.T) {
			r := &refusing{times: map[any]int{"large": 1 << 30}, err: err}
			o, run := newTestOutbox(t, r)
			o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: "1", Payload: "large"})
			o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: "2", Payload: "good"})
			run()
			require.Eventually(t, func() bool { return len(r.all()) == 1 }, 10*time.Second, time.Millisecond)
			require.Equal(t, []any{"good"}, payloads(r.all()))
			require.Eventually(t, func() bool {
				o.mu.Lock()
				defer o.mu.Unlock()
				return len(o.pending) == 0
			}, 10*time.Second, time.Millisecond)
		})
	}
	for _, err := range []error{
		serviceerror.NewNamespaceNotFound("virtflow"), serviceerror.NewUnavailable("down"),
		serviceerror.NewDeadlineExceeded("late"),
		serviceerror.NewResourceExhausted(0, "namespace rate limit exceeded"), serviceerror.NewInternal("x"),
		context.DeadlineExceeded,
	} {
		require.Equal(t, sendRetry, resultOf(fmt.Errorf("signalling: %w", err)))
	}
}

// TestDeliversWithinTwoMinutesAfterOutage: the bound holds however long the outage was.
func TestDeliversWithinTwoMinutesAfterOutage(t *testing.T) {
	require.LessOrEqual(t, longestPause+2*sendTimeout, time.Minute, "the other minute is for delivering")
}

// TestSendsChangesBeforeResyncs: a change is sent before all resyncs, also for a workflow whose resync was queued
// before.
func TestSendsChangesBeforeResyncs(t *testing.T) {
	r := &recording{}
	o := outboxOf(r, temporalclient.NewOutages())
	for _, workflow := range []string{"1", "2", "3"} {
		o.Put(Delivery{Workflow: workflow, Signal: "vm", UID: "u", Payload: "again " + workflow,
			Policy: Policy{Class: Resync}})
	}
	o.Put(Delivery{Workflow: "4", Signal: "vm", UID: "u", Payload: "changed 4"})
	o.Put(Delivery{Workflow: "2", Signal: "vm", UID: "u", Payload: "changed 2"})
	o.Put(Delivery{Workflow: "4", Signal: "vm", UID: "u", Payload: "changed 4 twice", Policy: Policy{Class: Resync}})
	for range 4 {
		require.True(t, o.deliverNext(t.Context()))
	}
	require.Equal(t, []any{"changed 4 twice", "changed 2", "again 1", "again 3"}, payloads(r.all()))
}

// TestRedeliversRecentAfterOutage: Temporal may have lost it.
func TestRedeliversRecentAfterOutage(t *testing.T) {
	r := &recording{}
	c := temporalclient.NewOutages()
	o := outboxOf(r, c)
	deliver := func(d Delivery) {
		o.Put(d)
		require.True(t, o.deliverNext(t.Context()))
	}
	deliver(Delivery{Workflow: "1", Signal: "vm", UID: "u", Payload: "first"})
	deliver(Delivery{Workflow: "1", Signal: "vm", UID: "u", Payload: "second"})
	deliver(Delivery{Workflow: "2", Signal: "vm", UID: "u", Payload: "old"})
	deliver(partial(0, "a"))
	deliver(partial(0, "b"))
	old := subject{"2", "vm", "u"}
	before := time.Now().Add(-2*temporalclient.Forgotten + time.Minute)
	o.recentlySent.bySubject[old] = sentDelivery{delivery: o.recentlySent.bySubject[old].delivery, at: before}

	now := time.Now()
	at := func(seconds int, code codes.Code) { c.Note(code, now.Add(time.Duration(seconds)*time.Second)) }
	at(0, codes.OK)
	at(0, codes.DeadlineExceeded)
	at(10, codes.DeadlineExceeded)
	at(10, codes.Canceled)
	at(10, codes.NotFound)
	at(11, codes.Unavailable)
	at(12, codes.OK)
	at(13, codes.Unavailable)
	at(14, codes.ResourceExhausted)
	require.Empty(t, c.Restored(), "it was slow, and never lost")
	at(21, codes.Unavailable)
	at(22, codes.DeadlineExceeded)
	at(23, codes.Unavailable)
	require.Empty(t, c.Restored())
	at(24, codes.NotFound)
	c.Trust(c.Suspicion())

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); o.redeliverLost(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	require.Eventually(t, func() bool { return o.queue.Len() == 2 }, 10*time.Second, time.Millisecond)
	require.True(t, o.deliverNext(t.Context()))
	require.True(t, o.deliverNext(t.Context()))
	require.Len(t, r.all(), 7)
	require.Equal(t, "second", r.all()[5].Payload, "the newest of each")
	require.Equal(t, Resync, r.all()[5].Class, "behind what changes")
	require.Equal(t, []string{"a", "b"}, r.all()[6].Payload, "all of what was sent piece by piece")

	sent := o.recentlySent.bySubject[subject{"1", "vm", "u"}].delivery
	o.Put(Delivery{Workflow: "1", Signal: "vm", UID: "u", Payload: "third"})
	require.False(t, o.redeliver(sent), "something newer waits")
	require.True(t, o.deliverNext(t.Context()))
	require.False(t, o.redeliver(sent), "something newer was sent")
	require.Equal(t, "third", r.all()[7].Payload)
}

// partial returns a delivery that merges with those before.
func partial(debounce time.Duration, parts ...string) Delivery {
	return Delivery{Workflow: "replicaset/a/web", Signal: "replicas", UID: "replicas", Payload: parts,
		Policy: Policy{Debounce: debounce},
		Merge:  func(before, after any) any { return slices.Concat(before.([]string), after.([]string)) }}
}

func TestMergesDeliveries(t *testing.T) {
	r := &recording{held: make(chan struct{})}
	o, run := newTestOutbox(t, r)
	run()
	o.Put(partial(50*time.Millisecond, "a", "b"))
	o.Put(partial(50*time.Millisecond, "c"))
	underWay := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.busy["replicaset/a/web"] == 1
	}
	require.Eventually(t, underWay, 10*time.Second, time.Millisecond)
	o.Put(partial(50*time.Millisecond, "d")) // too late for what is on its way
	r.held <- struct{}{}
	r.held <- struct{}{}
	require.Eventually(t, func() bool { return len(r.all()) == 2 }, 10*time.Second, time.Millisecond)
	require.Equal(t, []any{[]string{"a", "b", "c"}, []string{"a", "b", "c", "d"}}, payloads(r.all()),
		"the first might not have arrived")
}

// TestUrgentDeliveryTakesDebouncedAlong: what was debounced for its workflow is sent at once, too.
func TestUrgentDeliveryTakesDebouncedAlong(t *testing.T) {
	r := &recording{}
	o, run := newTestOutbox(t, r)
	run()
	o.Put(partial(time.Hour, "a"))
	o.Put(Delivery{Workflow: "replicaset/a/web", Signal: "set", UID: "set"})
	require.Eventually(t, func() bool { return len(r.all()) == 2 }, 10*time.Second, time.Millisecond)
}

// TestRedeliveryWaitsUntilProcessed: a user's request would wait behind all of it.
func TestRedeliveryWaitsUntilProcessed(t *testing.T) {
	c := temporalclient.NewOutages()
	o := outboxOf(&recording{}, c)
	asked, processed := make(chan string), make(chan struct{})
	o.redeliveries = throttle{limiter: rate.NewLimiter(1e9, 1), window: window{size: resyncWindow,
		waitProcessed: func(ctx context.Context, workflow string) error {
			asked <- workflow
			select {
			case <-processed:
			case <-ctx.Done():
			}
			return ctx.Err()
		}}}
	for i := range resyncWindow + 1 {
		o.Put(Delivery{Workflow: strconv.Itoa(i), Signal: "vm", UID: "u", Payload: i})
		require.True(t, o.deliverNext(t.Context()))
	}
	now := time.Now()
	for second, code := range []codes.Code{codes.Unavailable, codes.Unavailable, codes.Unavailable, codes.OK} {
		c.Note(code, now.Add(time.Duration(second)*time.Second))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); o.redeliverLost(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	require.Equal(t, strconv.Itoa(resyncWindow-1), <-asked)
	require.Equal(t, resyncWindow, o.queue.Len())
	close(processed)
	require.Eventually(t, func() bool { return o.queue.Len() == resyncWindow+1 }, 10*time.Second, time.Millisecond)
}

// TestRedeliversRecordedDeliveriesAfterOutage: an entity may have lost what it wrote itself.
func TestRedeliversRecordedDeliveriesAfterOutage(t *testing.T) {
	r := &recording{}
	o := outboxOf(r, temporalclient.NewOutages())
	vm := func(version string, class Class) Delivery {
		return Delivery{Workflow: "w", Signal: "vm", UID: "u", Policy: Policy{Class: class},
			Payload: contract.VMObservation{UID: "u", ResourceVersion: version}}
	}
	sent := func() []string {
		for o.queue.Len() > 0 {
			require.True(t, o.deliverNext(t.Context()))
		}
		var out []string
		for _, d := range r.all() {
			p, ok := d.Payload.(contract.VMObservation)
			require.True(t, ok)
			out = append(out, fmt.Sprintf("%s %t", p.ResourceVersion, p.Again))
		}
		return out
	}
	o.Put(vm("1", Change))
	require.Equal(t, []string{"1 false"}, sent())
	o.Put(vm("2", Record))
	require.Equal(t, []string{"1 false"}, sent(), "its entity knows it")
	o.Put(vm("3", Change))
	o.Put(vm("4", Record))
	require.Equal(t, []string{"1 false", "4 false"}, sent(), "the newest of what waits")
	o.Put(vm("5", Record))

	lost := o.markLost(time.Now())
	require.Len(t, lost, 1)
	o.Put(vm("6", Record))
	require.True(t, o.redeliver(lost[0]))
	require.Equal(t, "6 true", sent()[2], "the newest, also of what was known")
	require.False(t, o.redeliver(lost[0]), "it was sent since")
	o.Put(vm("7", Change))
	require.Equal(t, "7 false", sent()[3], "Temporal has it")

	lost = o.markLost(time.Now())
	o.Put(vm("8", Change))
	require.Equal(t, "8 true", sent()[4], "a change that comes first says it as well")
	require.False(t, o.redeliver(lost[0]))
}

// TestSendsNothingToSuspectTemporal: nothing is sent before Temporal was checked for a restore; but deliveries do not
// wait for ever.
func TestSendsNothingToSuspectTemporal(t *testing.T) {
	r := &recording{}
	c := temporalclient.NewOutages()
	o := outboxOf(r, c)
	epoch := int64(7)
	o.epoch = func() int64 { return epoch }
	put := func() {
		o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: "u", Payload: contract.VMObservation{}})
		require.True(t, o.deliverNext(t.Context()))
	}
	now := time.Now()
	c.Note(codes.DeadlineExceeded, now.Add(-time.Minute))
	c.Note(codes.DeadlineExceeded, now.Add(-2*time.Second))
	c.Note(codes.Unavailable, now.Add(-2*time.Second))
	require.Zero(t, c.Suspicion(), "it is slow")
	c.Note(codes.Unavailable, now)
	c.Note(codes.OK, now)
	put()
	require.Empty(t, r.all(), "it was away")
	require.Len(t, o.pending, 1)
	c.Note(codes.Unavailable, now.Add(time.Second))
	c.Note(codes.Unavailable, now.Add(3*time.Second))
	c.Trust(now)
	require.NotZero(t, c.Suspicion(), "it was away once more since")
	epoch = 8
	c.Trust(c.Suspicion())
	put()
	require.Equal(t, []any{contract.VMObservation{Epoch: 8}}, payloads(r.all()))
	c.Suspect(time.Now().Add(-suspectFor))
	c.Suspect(time.Now())
	put()
	require.Len(t, r.all(), 2, "being away again and again holds nothing back for longer than that")
	c.Note(codes.OK, time.Now())
	c.Trust(c.Suspicion())

	long := now.Add(-30 * suspectFor)
	c.Note(codes.Unavailable, long)
	c.Note(codes.Unavailable, long.Add(2*time.Second))
	c.Note(codes.Unavailable, now.Add(-time.Second))
	put()
	require.Len(t, r.all(), 2, "it is away")
	c.Note(codes.OK, now)
	put()
	require.Len(t, r.all(), 2, "no check was possible during the outage")
	reachable := func(after time.Duration) time.Duration {
		d, suspected := c.SuspectedFor(now.Add(after))
		require.True(t, suspected)
		return d
	}
	require.Equal(t, 5*time.Second, reachable(5*time.Second))
	c.Note(codes.Unavailable, now.Add(10*time.Second))
	c.Note(codes.Unavailable, now.Add(12*time.Second))
	require.Equal(t, 10*time.Second, reachable(time.Minute), "away again")
	c.Note(codes.OK, now.Add(time.Minute))
	require.Equal(t, 15*time.Second, reachable(time.Minute+5*time.Second))
}

// TestObservationsCarryTheEpoch: observations carry the epoch in which they are sent, even if they were queued before
// it began.
func TestObservationsCarryTheEpoch(t *testing.T) {
	r := &recording{}
	o := outboxOf(r, temporalclient.NewOutages())
	o.epoch = func() int64 { return 7 }
	for i, payload := range []contract.Observation{
		contract.VMObservation{}, contract.VMIObservation{}, contract.PodObservation{}, contract.NodeObservation{},
		contract.NodeState{},
		contract.ReplicaSetObservation{}, contract.ReplicasObservation{},
	} {
		o.Put(Delivery{Workflow: "w", Signal: "s", UID: string(rune('a' + i)), Payload: payload})
	}
	require.True(t, o.deliverNext(t.Context()))
	require.Len(t, r.all(), 7)
	for _, d := range r.all() {
		b, err := json.Marshal(d.Payload)
		require.NoError(t, err)
		require.Contains(t, string(b), `"epoch":7`, "%T", d.Payload)
	}
}

func TestDeliversOneAtATimePerWorkflow(t *testing.T) {
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

func TestSupersedesDeliveryBeingSent(t *testing.T) {
	r := &recording{held: make(chan struct{})}
	o, run := newTestOutbox(t, r)
	run()
	o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: "1", Payload: "first"})
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.busy["vm/a/b"] == 1
	}, 10*time.Second, time.Millisecond)
	o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: "1", Payload: "second"})
	close(r.held)
	require.Eventually(t, func() bool { return len(r.all()) == 2 }, 10*time.Second, time.Millisecond)
	require.Equal(t, []any{"first", "second"}, payloads(r.all()))
}

// TestOldestDue: the oldest due time is that of the whole outbox, and zero if nothing waits.
func TestOldestDue(t *testing.T) {
	o := outboxOf(&recording{}, temporalclient.NewOutages())
	require.Zero(t, o.oldestDue())
	for i, at := range []int64{2000, 1000, 3000} {
		o.put(&Delivery{Workflow: fmt.Sprint("vm/a/", i), since: time.Unix(at, 0)})
	}
	require.InDelta(t, 1000, o.oldestDue(), 0)
}
