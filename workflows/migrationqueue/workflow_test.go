package migrationqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
)

// rig runs the queue; the test plays the migrations.
type rig struct {
	t   *testing.T
	env *testsuite.TestWorkflowEnvironment

	mu     sync.Mutex
	began  time.Time
	limits contract.ReadLimitsResult
	broken bool // the limits cannot be read
	reads  int
	absent map[string]bool // migrations without a workflow
	sent   []sentMessage
}

// sentMessage is an observation that a migration received, and when: so many seconds after the start.
type sentMessage struct {
	at   float64
	name string
	o    contract.AdmissionObservation
}

func newRig(t *testing.T) *rig {
	t.Helper()
	env := environment.New()
	r := &rig{t: t, env: env, limits: contract.ReadLimitsResult{Cluster: 2, Outbound: 2}, absent: map[string]bool{},
		began: env.Now()}
	env.RegisterWorkflowWithOptions(Workflow, workflow.RegisterOptions{Name: contract.WorkflowAdmission})
	env.RegisterActivityWithOptions(func(context.Context) (contract.ReadLimitsResult, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reads++
		if r.broken {
			return contract.ReadLimitsResult{}, temporal.NewNonRetryableApplicationError("no settings", "x", nil)
		}
		return r.limits, nil
	}, activity.RegisterOptions{Name: contract.ActivityReadLimits})
	env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).
		Return(func(_, id, _, signal string, arg any) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			o, ok := arg.(contract.AdmissionObservation)
			require.True(t, ok)
			require.Equal(t, contract.SignalObserveAdmission, signal)
			name := strings.TrimPrefix(id, "migration/a/")
			require.Equal(t, "uid-"+name, o.Migration)
			if r.absent[name] {
				return &temporal.UnknownExternalWorkflowExecutionError{}
			}
			r.sent = append(r.sent, sentMessage{at: r.env.Now().Sub(r.began).Seconds(), name: name, o: o})
			return nil
		})
	return r
}

// at calls a function so many seconds after the start.
func (r *rig) at(seconds float64, do func()) {
	r.env.RegisterDelayedCallback(do, time.Duration(seconds*float64(time.Second)))
}

// run runs the queue for that many seconds.
func (r *rig) run(seconds float64, in contract.EntityInput) {
	r.t.Helper()
	r.at(seconds, r.env.CancelWorkflow)
	r.env.ExecuteWorkflow(contract.WorkflowAdmission, in)
	require.True(r.t, r.env.IsWorkflowCompleted())
}

func (r *rig) request(name, node string, changes ...func(*contract.AdmissionRequest)) {
	q := contract.AdmissionRequest{Migration: object(name), Node: node, Since: r.began}
	for _, change := range changes {
		change(&q)
	}
	r.env.SignalWorkflow(contract.SignalRequestAdmission, q)
}

func done(q *contract.AdmissionRequest) { q.Done = true }

func begun(q *contract.AdmissionRequest) { q.Begun = true }

// observe sends crdwatch's observation of a migration, with the number of open ones and the version.
func (r *rig) observe(name, node string, open, version int, changes ...func(*contract.QueuedMigration)) {
	o := contract.QueuedMigration{Migration: object(name), Node: node, CreatedAt: r.began, VMIName: "vmi-" + name,
		Open: open, ResourceVersion: fmt.Sprint(version), Epoch: 1}
	for _, change := range changes {
		change(&o)
	}
	r.env.SignalWorkflow(contract.SignalObserveMigration, o)
}

func started(o *contract.QueuedMigration) { o.Started = true }

func ended(o *contract.QueuedMigration) { o.Ended, o.Open = true, 0 }

func epoch(n int64) func(*contract.QueuedMigration) {
	return func(o *contract.QueuedMigration) { o.Epoch = n }
}

// received returns what migrations received, each as "at name admitted" or "at name position/of", by time and position:
// several may be signalled at once.
func (r *rig) received() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortStableFunc(r.sent, func(a, b sentMessage) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.o.Position, b.o.Position), cmp.Compare(a.name, b.name))
	})
	var out []string
	for _, x := range r.sent {
		what := "admitted"
		if !x.o.Admitted {
			what = fmt.Sprintf("%d/%d", x.o.Position, x.o.Waiting)
		}
		out = append(out, fmt.Sprintf("%g %s %s", x.at, x.name, what))
	}
	return out
}

func (r *rig) state() State {
	r.t.Helper()
	v, err := r.env.QueryWorkflow(contract.QueryState)
	require.NoError(r.t, err)
	var s State
	require.NoError(r.t, v.Get(&s))
	return s
}

func (r *rig) details() string {
	s := r.state()
	return s.describe(r.env.Now())
}

// uids returns the UIDs of the migrations that the queue knows.
func (r *rig) uids() []string {
	var out []string
	for _, e := range r.state().Entries {
		out = append(out, e.Migration.UID)
	}
	return out
}

// names returns the names of the migrations that the queue knows.
func (r *rig) names() []string {
	var out []string
	for _, e := range r.state().Entries {
		out = append(out, e.Migration.Name)
	}
	slices.Sort(out)
	return out
}

// TestFirstMigrationDoesNotWait: the queue knows at once that there are no others.
func TestFirstMigrationDoesNotWait(t *testing.T) {
	r := newRig(t)
	r.at(0, func() { r.observe("x", "n1", 1, 1) })
	r.at(1, func() { r.request("x", "n1") })
	r.at(2, func() { r.observe("x", "n1", 1, 2, started) })
	r.at(3, func() { r.request("x", "n1", done) })
	r.at(3.5, func() { r.observe("x", "n1", 1, 3, ended) })
	r.run(3600, contract.EntityInput{Name: contract.AdmissionID})
	require.Equal(t, []string{"1 x admitted"}, r.received())
	require.Equal(t, 1, r.reads, "none waits")
	require.Empty(t, r.state().Entries)
	records := r.state().Records
	require.Len(t, records, 1)
	require.Equal(t, "migration/a/x", records[0].ID)
	require.Equal(t, "ended", records[0].Outcome)
	require.Equal(t, 2*time.Second, records[0].Until.Sub(records[0].Since))
}

// TestListensBeforeAdmitting: the queue may have been lost while migrations run.
func TestListensBeforeAdmitting(t *testing.T) {
	r := newRig(t)
	r.at(0, func() { r.request("x", "n1") })
	r.at(1, func() { r.observe("r", "n2", 4, 1, started); r.observe("s", "n2", 4, 1, started) })
	r.at(2, func() {
		require.Contains(t, r.details(), "None begins: the queue has just started")
		require.Contains(t, r.details(), "2 run, 1 wait")
	})
	r.at(30, func() { r.observe("r", "n2", 0, 2, ended) })
	r.run(40, contract.EntityInput{})
	require.Equal(t, []string{"0 x 1/1", "10 x 1/1", "30 x admitted"}, r.received())
	require.Contains(t, r.sent[0].o.Why, "first observes")
	require.Contains(t, r.sent[1].o.Why, "no more than 2 migrations")
}

// TestLostQueueRebuildsItself: a lost queue rebuilds its state from crdwatch's observations and repeated requests. Its
// messages have higher sequence numbers than those of the queue before it.
func TestLostQueueRebuildsItself(t *testing.T) {
	r := newRig(t)
	for i, name := range []string{"x", "y"} {
		r.at(0, func() { r.observe(name, "n1", 4, 1) })
		r.at(12+float64(i), func() {
			r.request(name, "n1", func(q *contract.AdmissionRequest) { q.Since = moment(-i) })
		})
	}
	r.at(0, func() { r.observe("r", "n2", 4, 1, started); r.request("s", "n2", begun) })
	r.at(5, func() { r.observe("s", "n2", 4, 1) })
	r.at(20, func() {
		require.Contains(t, r.details(), "2 run, 2 wait")
		require.Contains(t, r.details(), "1. a/y of vmi-y from n1: no more than 2")
	})
	r.at(30, func() { r.request("s", "n2", done) })
	r.at(31, func() { r.observe("r", "n2", 0, 2, ended) })
	r.run(60, contract.EntityInput{})
	require.Equal(t, []string{"0 s admitted", "12 x 1/1", "13 y 1/2", "17 x 2/2", "30 y admitted", "30 x 1/1",
		"31 x admitted"}, r.received())
	require.GreaterOrEqual(t, r.sent[0].o.Sequence, r.began.UnixMilli(), "a queue before it counted as high")
}

// TestReportsPositionsAtIntervals: positions are reported at intervals, and an admission at once.
func TestReportsPositionsAtIntervals(t *testing.T) {
	r := newRig(t)
	r.limits.Cluster = 1
	r.at(0, func() { r.observe("r", "n2", 1, 1, started) })
	for i := range 12 {
		name := fmt.Sprintf("x%02d", i)
		r.at(1, func() { r.request(name, "n1") })
	}
	for i := range 3 { // one ends each second
		r.at(2+float64(i), func() { r.request(fmt.Sprintf("x%02d", i), "n1", done) })
	}
	r.at(30, func() { r.request("r", "n2", done) })
	r.run(62, contract.EntityInput{})
	received := r.received()
	require.Len(t, slices.DeleteFunc(slices.Clone(received), func(s string) bool {
		return !strings.HasPrefix(s, "1 ")
	}), 12, "each is answered")
	count := func(name string) (n int) {
		for _, x := range r.sent {
			if x.name == name {
				n++
			}
		}
		return n
	}
	require.Contains(t, received, "6 x03 1/9")
	require.NotContains(t, received, "2 x03 3/11")
	require.Contains(t, received, "30 x03 admitted")
	require.Equal(t, 3, count("x03"))
	require.Equal(t, 3, count("x04"), "1, 6 and 30 s")
	last := r.sent[0].o.Sequence
	for _, x := range r.sent {
		if x.name == "x04" {
			require.GreaterOrEqual(t, x.o.Sequence, last)
			last = x.o.Sequence
		}
	}
}

// TestIgnoresRepeatedAndLateSignals: they change nothing.
func TestIgnoresRepeatedAndLateSignals(t *testing.T) {
	r := newRig(t)
	r.limits.Cluster = 1
	r.at(0, func() { r.observe("x", "n1", 2, 5, started); r.observe("y", "n1", 2, 6) })
	r.at(1, func() { r.observe("x", "n1", 2, 3) }) // older: it was pending then
	r.at(2, func() { r.request("y", "n1"); r.request("y", "n1") })
	r.at(3, func() { r.observe("y", "n1", 2, 6); r.observe("x", "n1", 2, 5, started) })
	r.at(4, func() { require.Equal(t, []string{"x", "y"}, r.names()) })
	r.at(20, func() { r.request("x", "n1", done); r.request("x", "n1", done) })
	r.at(21, func() { r.observe("x", "n1", 2, 4); r.observe("x", "n1", 2, 7, ended); r.observe("x", "n1", 2, 6) })
	r.at(22, func() { require.Equal(t, []string{"y"}, r.names()) })
	r.at(23, func() { r.request("y", "n1") })        // the answer was lost
	r.at(24, func() { r.request("y", "n1", begun) }) // it was not
	r.at(25, func() { r.request("y", "n1") })        // sent before that
	r.at(26, func() {
		require.True(t, r.state().Entries[0].Begun)
		r.env.SignalWorkflow(contract.SignalRequestAdmission, contract.AdmissionRequest{})
		r.env.SignalWorkflow(contract.SignalObserveMigration, contract.QueuedMigration{})
	})
	r.run(30, contract.EntityInput{})
	require.Equal(t, []string{"uid-x"}, r.state().Ended)
	require.Equal(t, []string{"2 y 1/1", "20 y admitted", "23 y admitted", "24 y admitted", "25 y admitted"},
		r.received())
}

// TestNewerNamesakeReplacesMigration: the earlier object of that name no longer exists.
func TestNewerNamesakeReplacesMigration(t *testing.T) {
	r := newRig(t)
	r.limits.Cluster = 1
	r.at(0, func() { r.observe("x", "n1", 2, 1, started); r.observe("y", "n1", 2, 1); r.request("y", "n1") })
	r.at(5, func() {
		r.observe("x", "n1", 2, 2, func(o *contract.QueuedMigration) { o.Migration.UID = "another" })
	})
	r.run(20, contract.EntityInput{})
	require.Equal(t, []string{"0 y 1/1", "5 y admitted"}, r.received())
	require.Equal(t, []string{"x", "y"}, r.names())
}

// TestIgnoresLateEarlierNamesake: it was deleted while crdwatch did not run.
func TestIgnoresLateEarlierNamesake(t *testing.T) {
	r := newRig(t)
	r.limits.Cluster = 1
	earlier := func(o *contract.QueuedMigration) { o.Migration.UID = "earlier" }
	r.at(0, func() { r.observe("r", "n1", 2, 1, started); r.observe("x", "n1", 2, 7); r.request("x", "n1") })
	r.at(5, func() { r.observe("x", "n1", 2, 5, earlier, started) })
	r.at(10, func() { r.observe("r", "n1", 1, 8, ended) })
	r.at(15, func() { r.request("x", "n1", done); r.observe("x", "n1", 1, 6, earlier, started) })
	r.run(20, contract.EntityInput{})
	require.Equal(t, []string{"0 x 1/1", "10 x admitted"}, r.received())
	require.Empty(t, r.names(), "the queue knows that the earlier one is gone")
}

// TestEarlierNamesakeIsObservedFirst: the later one has requested admission and was not observed yet.
func TestEarlierNamesakeIsObservedFirst(t *testing.T) {
	r := newRig(t)
	r.limits.Cluster = 1
	earlier := func(o *contract.QueuedMigration) {
		o.Migration.UID, o.CreatedAt = "earlier", r.began.Add(-time.Minute)
	}
	r.at(0, func() { r.observe("r", "n1", 1, 1, started) })
	r.at(5, func() { r.request("x", "n1") })
	r.at(6, func() { r.observe("x", "n1", 2, 5, earlier, started) })
	r.at(7, func() { require.ElementsMatch(t, []string{"uid-r", "uid-x"}, r.uids()) })
	r.at(8, func() { r.observe("x", "n1", 2, 7) })
	r.at(10, func() { r.observe("r", "n1", 1, 8, ended) })
	r.run(15, contract.EntityInput{})
	require.Equal(t, []string{"5 x 1/1", "10 x admitted"}, r.received())
}

// TestRestoredNamesakeReplacesLaterOne: an older copy of etcd was put back.
func TestRestoredNamesakeReplacesLaterOne(t *testing.T) {
	r := newRig(t)
	r.limits.Cluster = 1
	earlier := func(o *contract.QueuedMigration) { o.Migration.UID = "earlier" }
	r.at(0, func() { r.observe("x", "n1", 1, 7); r.observe("y", "n1", 1, 6) })
	r.at(20, func() {
		r.observe("x", "n1", 2, 5, earlier, started, epoch(2))
		r.observe("y", "n1", 2, 4, epoch(2))
		r.request("y", "n1")
	})
	r.at(40, func() { require.ElementsMatch(t, []string{"earlier", "uid-y"}, r.uids()) })
	r.at(50, func() { r.observe("x", "n1", 1, 8, earlier, ended, epoch(2)) })
	r.run(60, contract.EntityInput{})
	received := r.received()
	require.Equal(t, "50 y admitted", received[len(received)-1])
}

// TestRequestUndoesEnd: the status was set by hand, or what ended the migration was undone.
func TestRequestUndoesEnd(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"crdwatch reported the end":     func(r *rig) { r.observe("x", "n1", 0, 2, ended) },
		"its workflow reported the end": func(r *rig) { r.request("x", "n1", done) },
		"another has its name": func(r *rig) {
			r.observe("x", "n1", 1, 2, func(o *contract.QueuedMigration) { o.Migration.UID = "another" })
			r.observe("x", "n1", 1, 2, func(o *contract.QueuedMigration) { o.Migration.UID, o.Ended = "another", true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.limits.Cluster = 1
			r.at(0, func() { r.observe("r", "n1", 2, 1, started); r.observe("x", "n1", 2, 1); r.request("x", "n1") })
			r.at(2, func() { end(r) })
			r.at(3, func() { r.observe("x", "n1", 2, 1) })
			r.at(3.5, func() { require.NotContains(t, r.uids(), "uid-x") })
			r.at(4, func() { r.request("x", "n1") })
			r.at(10, func() { r.observe("r", "n1", 1, 2, ended) })
			r.at(12, func() { r.observe("x", "n1", 1, 3, started) })
			r.at(13, func() {
				s := r.state()
				require.True(t, s.find("uid-x") != nil && s.find("uid-x").Started, "observations of it count again")
			})
			r.at(15, func() { r.request("x", "n1", done); r.observe("x", "n1", 0, 4, ended) })
			r.run(20, contract.EntityInput{})
			require.Equal(t, []string{"0 x 1/1", "4 x 1/1", "10 x admitted"}, r.received())
			require.Empty(t, r.uids())
		})
	}
}

// The limits are read again while migrations wait, and changed ones apply.
func TestReadsLimitsWhileMigrationsWait(t *testing.T) {
	r := newRig(t)
	r.limits.Cluster = 1
	r.at(0, func() { r.observe("r", "n1", 2, 1, started); r.observe("x", "n1", 2, 1); r.request("x", "n1") })
	r.at(90, func() { r.limits.Cluster = 2 })
	r.run(3600, contract.EntityInput{})
	require.Equal(t, []string{"0 x 1/1", "120 x admitted"}, r.received())
	require.Equal(t, 3, r.reads)
}

// No migration is admitted until the limits were read once. A later read that fails keeps the limits that were read.
func TestAdmitsNoneUntilLimitsAreRead(t *testing.T) {
	r := newRig(t)
	r.broken = true
	r.at(0, func() { r.observe("x", "n1", 1, 1); r.request("x", "n1") })
	r.at(0.5, func() {
		require.Contains(t, r.details(), "limits are not known")
		require.Contains(t, r.details(), "no settings")
	})
	r.at(10, func() { r.broken = false })
	r.at(20, func() {
		r.broken, r.limits.Cluster = true, 9
		r.observe("y", "n1", 1, 1)
		r.observe("z", "n1", 1, 1)
		r.request("y", "n1")
		r.request("z", "n1")
	})
	r.run(300, contract.EntityInput{})
	require.Equal(t, []string{"0 x 1/1", "15 x admitted", "20 y admitted", "20 z 1/1"}, r.received())
	require.Contains(t, r.sent[0].o.Why, "limits are not known")
}

// A queue under an operator hold admits no migration until it is released.
func TestHeldQueueAdmitsNone(t *testing.T) {
	r := newRig(t)
	alice := contract.ControlRequest{Actor: "alice", Reason: "maintenance"}
	r.at(0, func() { r.observe("r", "n1", 1, 1, started); r.env.SignalWorkflow(contract.ControlHold, alice) })
	r.at(1, func() { r.request("x", "n1") })
	r.at(2, func() {
		require.Contains(t, r.details(), "None begins: the queue is held by alice (claimed): maintenance")
	})
	r.at(9, func() {
		r.env.UpdateWorkflow(contract.ControlHold, "again", &testsuite.TestUpdateCallback{
			OnReject: func(err error) { require.ErrorContains(t, err, "held already") },
			OnAccept: func() { t.Error("it is held already") }, OnComplete: func(any, error) {},
		}, alice)
	})
	r.at(60, func() { r.env.SignalWorkflow(contract.ControlRelease, alice) })
	r.run(100, contract.EntityInput{})
	require.Equal(t, []string{"1 x 1/1", "60 x admitted"}, r.received())
	require.Contains(t, r.sent[0].o.Why, "held by alice")
	require.Equal(t, 1, r.reads)
}

// TestBackOffEnds: a back-off ends by itself or by the control retry-now, also when the migration sends its request
// again.
func TestBackOffEnds(t *testing.T) {
	r := newRig(t)
	later := func(seconds int) func(*contract.AdmissionRequest) {
		return func(q *contract.AdmissionRequest) {
			q.NotBefore = r.began.Add(time.Duration(seconds) * time.Second)
		}
	}
	r.at(0, func() { r.observe("x", "n1", 2, 1); r.observe("y", "n2", 2, 1) })
	r.at(1, func() { r.request("x", "n1", later(20)); r.request("y", "n2", later(3600)) })
	r.at(40, func() { r.env.SignalWorkflow(contract.ControlRetryNow, contract.ControlRequest{Actor: "alice"}) })
	r.at(40, func() { r.request("y", "n2", later(3600)) })
	r.run(100, contract.EntityInput{})
	require.Equal(t, []string{"1 x 1/2", "1 y 2/2", "20 x admitted", "20 y 1/1", "40 y admitted",
		"40 y admitted"}, r.received(), "each request is answered")
}

// TestAdmissionIsReturned: another migration is admitted, and the first one again after its back-off.
func TestAdmissionIsReturned(t *testing.T) {
	r := newRig(t)
	r.limits.Cluster = 1
	returned := func(q *contract.AdmissionRequest) {
		q.Returned, q.NotBefore = true, r.env.Now().Add(20*time.Second)
	}
	r.at(0, func() { r.observe("x", "n1", 2, 1); r.observe("y", "n2", 2, 1); r.request("x", "n1") })
	r.at(1, func() { r.request("y", "n2") })
	r.at(10, func() { r.request("x", "n1", returned) })
	r.at(15, func() { r.request("y", "n2", done) })
	r.run(100, contract.EntityInput{})
	require.Equal(t, []string{"0 x admitted", "1 y 1/1", "10 y admitted", "10 x 1/1", "30 x admitted"}, r.received())
	require.Contains(t, r.sent[3].o.Why, "back-off")
}

// TestUnscheduledMigrationReturnsAdmission: the admission stays returned until the target's pod has a node, whatever
// phase crdwatch reports.
func TestUnscheduledMigrationReturnsAdmission(t *testing.T) {
	r := newRig(t)
	r.limits.Cluster = 1
	unscheduled := func(q *contract.AdmissionRequest) { q.Unscheduled = true }
	returned := func(q *contract.AdmissionRequest) { q.Returned, q.Unscheduled = true, true }
	r.at(0, func() { r.observe("x", "n1", 2, 1); r.observe("y", "n2", 2, 1); r.request("x", "n1") })
	r.at(1, func() { r.request("y", "n2") })
	r.at(2, func() { r.observe("x", "n1", 2, 2, started) })
	r.at(30, func() { r.request("x", "n1", returned) })
	r.at(31, func() { r.observe("x", "n1", 2, 3, started) })
	r.at(32, func() { require.Contains(t, r.details(), "do not run:\n\n1. a/x") })
	r.at(40, func() { r.request("x", "n1", unscheduled) })
	r.at(50, func() { r.request("x", "n1") })
	r.at(60, func() { r.request("y", "n2", done) })
	r.run(100, contract.EntityInput{})
	require.Equal(t, []string{"0 x admitted", "1 y 1/1", "30 x 0/0", "30 y admitted", "40 x 0/0", "50 x 1/1",
		"60 x admitted"}, r.received())
}

// TestMigrationWithoutWorkflowDoesNotCount: it did not receive its admission. Its next workflow requests it again.
func TestMigrationWithoutWorkflowDoesNotCount(t *testing.T) {
	r := newRig(t)
	r.limits.Cluster = 1
	r.absent["x"] = true
	r.at(0, func() { r.observe("x", "n1", 2, 1); r.observe("y", "n2", 2, 1); r.request("x", "n1") })
	r.at(1, func() { r.request("y", "n2") })
	r.at(100, func() { r.absent["x"] = false; r.request("x", "n1") })
	r.at(200, func() { r.request("y", "n2", done) })
	r.run(300, contract.EntityInput{})
	require.Equal(t, []string{"1 y admitted", "100 x 1/1", "200 x admitted"}, r.received())
	require.Equal(t, []string{"x"}, r.names())

	r = newRig(t)
	r.absent["x"] = true
	r.at(0, func() { r.observe("x", "n1", 1, 1); r.request("x", "n1") })
	r.at(599, func() { require.Equal(t, []string{"x"}, r.names()) })
	r.run(601, contract.EntityInput{})
	require.Empty(t, r.names())
}

// TestDropsMigrationThatVanished: the queue got no signal of the migration's end: crdwatch missed its deletion, and its
// workflow was terminated.
func TestDropsMigrationThatVanished(t *testing.T) {
	r := newRig(t)
	r.limits.Cluster = 2
	r.at(0, func() { r.observe("gone", "n1", 2, 1, started); r.observe("runs", "n1", 2, 1, started) })
	r.at(1, func() { r.request("x", "n2") })
	r.at(2, func() { r.absent["gone"] = true })
	r.run(3600, contract.EntityInput{})
	received := r.received()
	require.Equal(t, "600 runs admitted", received[1], "the signal shows whether its workflow exists")
	require.Contains(t, received, "1200 x admitted")
	require.Equal(t, []string{"runs", "x"}, r.names())
}

// TestListensInNewEpoch: the state may be of an older copy, so only migrations that are observed again count.
func TestListensInNewEpoch(t *testing.T) {
	r := newRig(t)
	r.at(0, func() {
		for _, name := range []string{"ended", "runs", "again"} {
			r.observe(name, "n1", 3, 9, started)
		}
	})
	r.at(1, func() { r.observe("again", "n1", 0, 10, ended) })
	r.at(2, func() { r.request("x", "n2") })
	r.at(60, func() { r.observe("runs", "n1", 3, 4, started, epoch(2)) })
	r.at(61, func() { r.observe("again", "n1", 3, 5, started, epoch(2)); r.request("x", "n2") })
	r.at(65, func() { require.Equal(t, []string{"again", "ended", "runs", "x"}, r.names()) })
	r.at(75, func() { require.Equal(t, []string{"again", "runs", "x"}, r.names()) })
	r.at(80, func() { r.observe("runs", "n1", 0, 6, ended, epoch(2)) })
	r.run(90, contract.EntityInput{})
	received := r.received()
	require.Equal(t, "2 x 1/1", received[0])
	require.Equal(t, "80 x admitted", received[len(received)-1])
	require.EqualValues(t, 2, r.state().Epoch)
	require.False(t, r.state().Stale)
}

// TestIgnoresEarlierEpoch: neither an end nor a version counts.
func TestIgnoresEarlierEpoch(t *testing.T) {
	r := newRig(t)
	r.limits.Cluster = 1
	r.at(0, func() { r.observe("x", "n1", 2, 8); r.observe("y", "n1", 2, 9) })
	r.at(1, func() { r.observe("x", "n1", 2, 4, epoch(2)); r.observe("y", "n1", 2, 5, epoch(2)) })
	r.at(2, func() { r.observe("x", "n1", 1, 9, ended); r.observe("y", "n1", 1, 10) })
	r.at(3, func() { r.observe("x", "n1", 2, 6, started, epoch(2)); r.observe("y", "n1", 2, 7, started, epoch(2)) })
	r.at(20, func() {
		for _, e := range r.state().Entries {
			require.True(t, e.Started, e.Migration.Name)
		}
		require.Equal(t, []string{"x", "y"}, r.names())
	})
	r.run(21, contract.EntityInput{})
}

// TestContinuesAsNew: the queue continues as new between steps, with the whole state.
func TestContinuesAsNew(t *testing.T) {
	r := newRig(t)
	r.limits.Cluster = 1
	r.at(0, func() { r.observe("r", "n1", 2, 1, started); r.observe("x", "n1", 2, 1); r.request("x", "n1") })
	r.at(5, func() { r.env.SignalWorkflow(contract.SignalContinueAsNew, struct{}{}) })
	r.run(10, contract.EntityInput{Name: contract.AdmissionID})
	var again *workflow.ContinueAsNewError
	require.True(t, errors.As(r.env.GetWorkflowError(), &again))
	require.Equal(t, contract.WorkflowAdmission, again.WorkflowType.Name)
	carried := r.state()
	require.Nil(t, carried.Listening)

	next := newRig(t)
	var in contract.EntityInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	require.Equal(t, contract.AdmissionID, in.Name)
	next.limits.Cluster = 1
	next.at(1, func() { next.observe("x", "n1", 2, 1); next.observe("r", "n1", 0, 2, ended) })
	next.run(10, in)
	require.Equal(t, []string{"1 x admitted"}, next.received(), "it does not listen again, nor repeat the position")
}
