package crdwatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"

	"github.com/virtflow/virtflow/internal/temporalclient"
	"github.com/virtflow/virtflow/workflows/contract"
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
	o := newOutbox(s, temporalclient.NewOutages(), NewMetrics(nil), zerolog.Nop())
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

// refusing answers with an error, for each payload as often as it is told to.
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

func TestWhatIsRefusedComesBehindTheRestAndIsTriedAgain(t *testing.T) {
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

func TestOnlyWhatIsTooLargeIsDropped(t *testing.T) {
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
		require.Equal(t, retried, consequenceOf(fmt.Errorf("signalling: %w", err)))
	}
}

// TestEverythingIsDeliveredWithinTwoMinutes after Temporal answers again, however long it was away.
func TestEverythingIsDeliveredWithinTwoMinutes(t *testing.T) {
	require.LessOrEqual(t, longestPause+2*sendTimeout, time.Minute, "the other minute is for delivering")
}

// TestChangesGoFirst, also for a workflow that was only to be resynced until something changed.
func TestChangesGoFirst(t *testing.T) {
	r := &recording{}
	o := newOutbox(r, temporalclient.NewOutages(), NewMetrics(nil), zerolog.Nop())
	for _, workflow := range []string{"1", "2", "3"} {
		o.Put(Delivery{Workflow: workflow, Signal: "vm", UID: "u", Payload: "again " + workflow, Resync: true})
	}
	o.Put(Delivery{Workflow: "4", Signal: "vm", UID: "u", Payload: "changed 4"})
	o.Put(Delivery{Workflow: "2", Signal: "vm", UID: "u", Payload: "changed 2"})
	o.Put(Delivery{Workflow: "4", Signal: "vm", UID: "u", Payload: "changed 4 twice", Resync: true})
	for range 4 {
		require.True(t, o.step(t.Context()))
	}
	require.Equal(t, []any{"changed 4 twice", "changed 2", "again 1", "again 3"}, payloads(r.all()))
}

// TestWhatWasTakenShortlyBeforeALossIsSentAgain: Temporal may have forgotten it.
func TestWhatWasTakenShortlyBeforeALossIsSentAgain(t *testing.T) {
	r := &recording{}
	c := temporalclient.NewOutages()
	o := newOutbox(r, c, NewMetrics(nil), zerolog.Nop())
	deliver := func(d Delivery) {
		o.Put(d)
		require.True(t, o.step(t.Context()))
	}
	deliver(Delivery{Workflow: "1", Signal: "vm", UID: "u", Payload: "first"})
	deliver(Delivery{Workflow: "1", Signal: "vm", UID: "u", Payload: "second"})
	deliver(Delivery{Workflow: "2", Signal: "vm", UID: "u", Payload: "old"})
	deliver(replicaNews(0, "a"))
	deliver(replicaNews(0, "b"))
	old := subject{"2", "vm", "u"}
	before := time.Now().Add(-2*temporalclient.Forgotten + time.Minute)
	o.lately.of[old] = sending{delivery: o.lately.of[old].delivery, at: before}

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
	go func() { defer close(done); o.sendAgain(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	require.Eventually(t, func() bool { return o.queue.Len() == 2 }, 10*time.Second, time.Millisecond)
	require.True(t, o.step(t.Context()))
	require.True(t, o.step(t.Context()))
	require.Len(t, r.all(), 7)
	require.Equal(t, "second", r.all()[5].Payload, "the newest of each")
	require.True(t, r.all()[5].Resync, "behind what changes")
	require.Equal(t, []string{"a", "b"}, uidsIn(t, r.all()[6]), "all of what was sent piece by piece")

	sent := o.lately.of[subject{"1", "vm", "u"}].delivery
	o.Put(Delivery{Workflow: "1", Signal: "vm", UID: "u", Payload: "third"})
	require.False(t, o.again(sent), "something newer waits")
	require.True(t, o.step(t.Context()))
	require.False(t, o.again(sent), "something newer was sent")
	require.Equal(t, "third", r.all()[7].Payload)
}

// TestWhatIsSentAgainIsTakenInMeanwhile: what somebody asks for would wait behind all of it.
func TestWhatIsSentAgainIsTakenInMeanwhile(t *testing.T) {
	c := temporalclient.NewOutages()
	o := newOutbox(&recording{}, c, NewMetrics(nil), zerolog.Nop())
	asked, takenIn := make(chan string), make(chan struct{})
	o.throttle = throttle{limiter: rate.NewLimiter(1e9, 1), window: window{size: resyncWindow,
		takenIn: func(ctx context.Context, workflow string) error {
			asked <- workflow
			select {
			case <-takenIn:
			case <-ctx.Done():
			}
			return ctx.Err()
		}}}
	for i := range resyncWindow + 1 {
		o.Put(Delivery{Workflow: strconv.Itoa(i), Signal: "vm", UID: "u", Payload: i})
		require.True(t, o.step(t.Context()))
	}
	now := time.Now()
	for second, code := range []codes.Code{codes.Unavailable, codes.Unavailable, codes.Unavailable, codes.OK} {
		c.Note(code, now.Add(time.Duration(second)*time.Second))
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); o.sendAgain(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	require.Equal(t, strconv.Itoa(resyncWindow-1), <-asked)
	require.Equal(t, resyncWindow, o.queue.Len())
	close(takenIn)
	require.Eventually(t, func() bool { return o.queue.Len() == resyncWindow+1 }, 10*time.Second, time.Millisecond)
}

// TestWhatAnEntityKnowsIsSentAfterALoss: it may have forgotten what it wrote itself.
func TestWhatAnEntityKnowsIsSentAfterALoss(t *testing.T) {
	r := &recording{}
	o := newOutbox(r, temporalclient.NewOutages(), NewMetrics(nil), zerolog.Nop())
	vm := func(version string, known bool) Delivery {
		return Delivery{Workflow: "w", Signal: "vm", UID: "u", Known: known,
			Payload: contract.VMObservation{UID: "u", ResourceVersion: version}}
	}
	sent := func() []string {
		for o.queue.Len() > 0 {
			require.True(t, o.step(t.Context()))
		}
		var out []string
		for _, d := range r.all() {
			p, ok := d.Payload.(contract.VMObservation)
			require.True(t, ok)
			out = append(out, fmt.Sprintf("%s %t", p.ResourceVersion, p.Again))
		}
		return out
	}
	o.Put(vm("1", false))
	require.Equal(t, []string{"1 false"}, sent())
	o.Put(vm("2", true))
	require.Equal(t, []string{"1 false"}, sent(), "its entity knows it")
	o.Put(vm("3", false))
	o.Put(vm("4", true))
	require.Equal(t, []string{"1 false", "4 false"}, sent(), "the newest of what waits")
	o.Put(vm("5", true))

	lost := o.sentBefore(time.Now())
	require.Len(t, lost, 1)
	o.Put(vm("6", true))
	require.True(t, o.again(lost[0]))
	require.Equal(t, "6 true", sent()[2], "the newest, also of what was known")
	require.False(t, o.again(lost[0]), "it was sent since")
	o.Put(vm("7", false))
	require.Equal(t, "7 false", sent()[3], "Temporal has it")

	lost = o.sentBefore(time.Now())
	o.Put(vm("8", false))
	require.Equal(t, "8 true", sent()[4], "a change that comes first says it as well")
	require.False(t, o.again(lost[0]))
}

// TestNothingIsSentToASuspectedTemporal before somebody has looked whether it is an older copy; but it does not wait
// for ever.
func TestNothingIsSentToASuspectedTemporal(t *testing.T) {
	r := &recording{}
	c := temporalclient.NewOutages()
	o := newOutbox(r, c, NewMetrics(nil), zerolog.Nop())
	epoch := int64(7)
	o.epoch = func() int64 { return epoch }
	put := func() {
		o.Put(Delivery{Workflow: "vm/a/b", Signal: "vm", UID: "u", Payload: contract.VMObservation{}})
		require.True(t, o.step(t.Context()))
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
	require.Len(t, r.all(), 2, "nobody could look for as long as it was away")
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

// TestObservationsCarryTheEpoch that they are sent in, also if they were queued before it began.
func TestObservationsCarryTheEpoch(t *testing.T) {
	r := &recording{}
	o := newOutbox(r, temporalclient.NewOutages(), NewMetrics(nil), zerolog.Nop())
	o.epoch = func() int64 { return 7 }
	for i, payload := range []contract.Observation{
		contract.VMObservation{}, contract.VMIObservation{}, contract.PodObservation{}, contract.NodeObservation{},
		contract.NodeState{},
		contract.ReplicaSetObservation{}, contract.ReplicasObservation{},
	} {
		o.Put(Delivery{Workflow: "w", Signal: "s", UID: string(rune('a' + i)), Payload: payload})
	}
	require.True(t, o.step(t.Context()))
	require.Len(t, r.all(), 7)
	for _, d := range r.all() {
		b, err := json.Marshal(d.Payload)
		require.NoError(t, err)
		require.Contains(t, string(b), `"epoch":7`, "%T", d.Payload)
	}
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

// TestSinceWhenTheOldestWaits is that of the whole outbox; where nothing waits there is none.
func TestSinceWhenTheOldestWaits(t *testing.T) {
	o := newOutbox(&recording{}, temporalclient.NewOutages(), NewMetrics(nil), zerolog.Nop())
	require.Zero(t, o.oldest())
	for i, at := range []int64{2000, 1000, 3000} {
		o.put(&Delivery{Workflow: fmt.Sprint("vm/a/", i), since: time.Unix(at, 0)})
	}
	require.InDelta(t, 1000, o.oldest(), 0)
}
