package replicaset_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/testsuite/fakes"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/replicaset"
)

// world is one replica set's entity with its transitions on a fake cluster, with time that skips.
type world struct {
	*fakes.ReplicaCluster
	t           *testing.T
	env         *testsuite.TestWorkflowEnvironment
	transitions []string
	inputs      []contract.ReplicateInput
	results     []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	var s testsuite.WorkflowTestSuite
	w := &world{ReplicaCluster: fakes.NewReplicaCluster(), t: t, env: s.NewTestWorkflowEnvironment()}
	w.env.SetTestTimeout(20 * time.Second)
	w.Register(w.env)
	w.env.RegisterWorkflowWithOptions(replicaset.Replicate, workflow.RegisterOptions{Name: contract.WorkflowReplicate})
	w.env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
		var in contract.ReplicateInput
		_ = args.Get(&in)
		w.transitions = append(w.transitions, info.WorkflowExecution.ID)
		w.inputs = append(w.inputs, in)
	})
	w.env.SetOnChildWorkflowCompletedListener(func(_ *workflow.Info, result converter.EncodedValue, err error) {
		var r contract.ReplicateResult
		if err != nil {
			w.results = append(w.results, err.Error())
			return
		}
		_ = result.Get(&r)
		w.results = append(w.results, r.Summary)
	})
	w.Changed = func(signal string, payload any) {
		w.at(time.Millisecond, func() { w.env.SignalWorkflow(signal, payload) })
	}
	w.After = w.at
	w.Boots = func(string) time.Duration { return 5 * time.Second }
	return w
}

func (w *world) at(d time.Duration, f func()) { w.env.RegisterDelayedCallback(f, d) }

func (w *world) gone(at time.Duration) {
	w.at(at, func() { w.ChangeSet(func(o *contract.ReplicaSetObservation) { o.Gone = true }) })
}

func (w *world) run() {
	w.t.Helper()
	w.env.ExecuteWorkflow(replicaset.Workflow, contract.EntityInput{Namespace: "default", Name: "web"})
	require.True(w.t, w.env.IsWorkflowCompleted(), "the entity never ended; calls: %v", w.Calls)
	require.NoError(w.t, w.env.GetWorkflowError())
}

func (w *world) status(replicas, ready int) {
	w.t.Helper()
	require.NotNil(w.t, w.Status)
	require.Equal(w.t, replicas, w.Status.Replicas, "%+v", *w.Status)
	require.Equal(w.t, ready, w.Status.ReadyReplicas, "%+v", *w.Status)
	require.Equal(w.t, "app=web", w.Status.LabelSelector)
}

func TestScaleUpAndDown(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.Scale(3) })
	w.at(4*time.Second, func() { w.status(3, 0) })
	w.at(10*time.Second, func() { w.status(3, 3); w.Scale(1) })
	w.at(20*time.Second, func() {
		w.status(1, 1)
		require.Equal(t, []string{"web001"}, w.Names(), "of equal ones the youngest go first")
	})
	w.gone(30 * time.Second)
	w.run()
	require.Equal(t, []string{"replicaset/default/web/set-uid-/replicate/1", "replicaset/default/web/set-uid-/replicate/2"}, w.transitions)
	require.Equal(t, "alice", w.inputs[0].Actor)
	require.Contains(t, w.results[0], "3 of 3 made, 3 running.")
	require.Contains(t, w.results[1], "2 of 2 deleted, 2 gone.")
	require.Equal(t, 3, w.Most, "never more than wanted")
}

func TestFiftyAreOneTransitionAndFewCalls(t *testing.T) {
	w := newWorld(t)
	w.Boots = func(name string) time.Duration {
		var n int
		_, _ = fmt.Sscanf(name, "web%d", &n)
		return time.Duration(n) * time.Second
	}
	w.at(0, func() { w.Scale(50) })
	w.at(25500*time.Millisecond, func() {
		v, err := w.env.QueryWorkflow(contract.QueryState)
		require.NoError(t, err)
		var s replicaset.State
		require.NoError(t, v.Get(&s))
		require.NotNil(t, s.Open)
		require.Equal(t, 25, s.Open.Reported.Running)
	})
	w.at(70*time.Second, func() { w.status(50, 50) })
	w.gone(80 * time.Second)
	w.run()
	require.Len(t, w.transitions, 1)
	require.Contains(t, w.results[0], "50 of 50 made, 50 running.")
	writes := 0
	for _, c := range w.Calls {
		if c == contract.ActivityPatchReplicaSet {
			writes++
		}
	}
	require.LessOrEqual(t, writes, 16, "calls: %v", w.Calls)
}

// TestTheFirstOfManyShowsThoughNoOtherFollows: a tenth of the way is written at once, less than that a little later.
func TestTheFirstOfManyShowsThoughNoOtherFollows(t *testing.T) {
	w := newWorld(t)
	w.Boots = nil
	w.at(0, func() { w.Scale(50) })
	w.at(time.Minute, func() { w.status(50, 0); w.Run("web001") })
	w.at(61*time.Second, func() { w.status(50, 1) })
	w.at(62*time.Second, func() { w.Run("web002") })
	w.at(63*time.Second, func() { w.status(50, 1) })
	w.at(67*time.Second, func() { w.status(50, 2) })
	w.gone(70 * time.Second)
	w.run()
}

// TestAWriteWhoseAnswerWasLostIsRepeated: the write has been done, only its answer was lost. When what it wrote is true no more, and what was
// written before it is again, that must be written.
func TestAWriteWhoseAnswerWasLostIsRepeated(t *testing.T) {
	w := newWorld(t)
	w.Boots = func(string) time.Duration { return 100 * time.Millisecond } // before the write is tried again
	lost := false
	w.Lose = func() error {
		if lost {
			lost = false
			return temporal.NewNonRetryableApplicationError("the answer was lost", "Kubernetes", nil)
		}
		return nil
	}
	w.at(0, func() { w.Scale(2) })
	w.at(time.Minute, func() { w.status(2, 2); lost = true; w.Vanish(w.Names()[0]) })
	w.at(time.Minute+200*time.Millisecond, func() { require.False(t, lost); w.status(1, 1) })
	w.at(time.Hour, func() { w.status(2, 2) })
	w.gone(61 * time.Minute)
	w.run()
}

func TestANewerScaleSupersedes(t *testing.T) {
	w := newWorld(t)
	w.Boots = func(string) time.Duration { return time.Minute }
	w.at(0, func() { w.Scale(10) })
	w.at(10*time.Second, func() { w.Scale(4) })
	w.at(30*time.Second, func() { w.status(4, 0); require.Len(t, w.Names(), 4) })
	w.at(3*time.Minute, func() { w.status(4, 4) })
	w.gone(4 * time.Minute)
	w.run()
	require.Len(t, w.transitions, 2)
	require.Len(t, w.inputs[1].Remove, 6)
	require.Contains(t, w.results[0], "anceled")
}

func TestWhatVanishesOrEndsIsReplaced(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.Scale(3) })
	w.at(10*time.Second, func() { w.Vanish("web002") })
	w.at(20*time.Second, func() {
		require.Equal(t, []string{"web001", "web003", "web004"}, w.Names())
		w.Change("web001", func(o *contract.ReplicaObservation) { o.Phase, o.Ready = "Succeeded", false })
	})
	w.at(40*time.Second, func() {
		require.Equal(t, []string{"web003", "web004", "web005"}, w.Names())
		w.status(3, 3)
	})
	w.gone(50 * time.Second)
	w.run()
	require.Len(t, w.transitions, 3)
	require.Equal(t, "3 replicas are wanted, and there are 2; 1 has ended", w.inputs[2].Why)
	require.Len(t, w.inputs[2].Finished, 1)
}

func TestWhatEndsWhileOthersBootIsReplacedAtOnce(t *testing.T) {
	w := newWorld(t)
	w.Boots = func(name string) time.Duration {
		if name == "web002" {
			return 9 * time.Minute
		}
		return time.Second
	}
	w.at(0, func() { w.Scale(3) })
	w.at(10*time.Second, func() {
		w.Change("web001", func(o *contract.ReplicaObservation) { o.Phase, o.Ready = "Failed", false })
	})
	w.at(20*time.Second, func() { require.Equal(t, []string{"web002", "web003", "web004"}, w.Names()) })
	w.gone(20 * time.Minute)
	w.run()
	require.Contains(t, w.results[0], "another transition goes on")
}

func TestReplicasThatNeverRunAreReplacedMoreAndMoreSlowly(t *testing.T) {
	w := newWorld(t)
	w.Boots = nil
	for i := range 600 {
		w.at(time.Duration(i)*time.Second+500*time.Millisecond, func() {
			for _, n := range w.Names() {
				w.Change(n, func(o *contract.ReplicaObservation) { o.Phase = "Failed" })
			}
		})
	}
	w.at(0, func() { w.Scale(1) })
	w.gone(600 * time.Second)
	w.run()
	require.Greater(t, len(w.transitions), 5)
	require.Less(t, len(w.transitions), 20)
}

func TestAdoptsAndReleases(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() {
		w.Add(contract.ReplicaObservation{UID: "bare", Name: "bare", Matches: true, Phase: "Running", Ready: true, EverRan: true})
		w.Add(contract.ReplicaObservation{UID: "other", Name: "other", Matches: true, OwnerUID: "somebody", Phase: "Running"})
		w.Scale(2)
	})
	w.at(10*time.Second, func() {
		require.Equal(t, "set-uid-123456", w.VMIs["bare"].OwnerUID)
		require.Equal(t, []string{"bare", "other", "web001"}, w.Names())
		w.status(2, 2)
		w.Change("bare", func(o *contract.ReplicaObservation) { o.Matches = false })
	})
	w.at(20*time.Second, func() {
		require.Empty(t, w.VMIs["bare"].OwnerUID)
		require.Equal(t, []string{"bare", "other", "web001", "web002"}, w.Names())
		w.Add(contract.ReplicaObservation{UID: "late", Name: "late", Matches: true, Phase: "Pending"})
	})
	w.at(30*time.Second, func() {
		require.Equal(t, []string{"bare", "other", "web001", "web002"}, w.Names(), "one too many: the one that does not run yet goes")
		w.status(2, 2)
	})
	w.gone(40 * time.Second)
	w.run()
}

func TestPaused(t *testing.T) {
	w := newWorld(t)
	pause := func(p bool) func() {
		return func() { w.ChangeSet(func(o *contract.ReplicaSetObservation) { o.Paused = p }) }
	}
	w.at(0, func() { w.Scale(1) })
	w.at(10*time.Second, pause(true))
	w.at(11*time.Second, func() { w.Scale(3) })
	w.at(20*time.Second, func() {
		w.status(1, 1)
		c, ok := conditions.Get(w.Status.Conditions, "ReplicaPaused")
		require.True(t, ok)
		require.Equal(t, "Paused", c.Reason)
		require.Equal(t, "Controller got paused", c.Message)
	})
	w.at(21*time.Second, pause(false))
	w.at(30*time.Second, func() { w.status(3, 3); require.Empty(t, w.Status.Conditions) })
	w.gone(40 * time.Second)
	w.run()
	require.Equal(t, []contract.Event{
		{Type: "Normal", Reason: "SuccessfulPaused", Message: "Paused"}, {Type: "Normal", Reason: "SuccessfulResumed", Message: "Resumed"},
	}, w.Events)
}

func TestQuotaShowsAndIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.Quota = 2
	w.at(0, func() { w.Scale(3) })
	w.at(20*time.Second, func() {
		w.status(2, 2)
		c, ok := conditions.Get(w.Status.Conditions, "ReplicaFailure")
		require.True(t, ok)
		require.Equal(t, "FailedCreate", c.Reason)
		require.Equal(t, "exceeded quota", c.Message)
		v, err := w.env.QueryWorkflow(contract.QueryPlan)
		require.NoError(t, err)
		var p struct{ Waiting string }
		require.NoError(t, v.Get(&p))
		require.Contains(t, p.Waiting, "another attempt: exceeded quota")
	})
	w.at(5*time.Minute, func() {
		require.Less(t, len(w.transitions), 12, "with a growing pause")
		w.Quota = 0
	})
	w.at(10*time.Minute, func() { w.status(3, 3); require.Empty(t, w.Status.Conditions) })
	w.gone(11 * time.Minute)
	w.run()
	require.Equal(t, 3, w.Most)
}

func TestWhatDoesNotBootShowsAfterItsDeadline(t *testing.T) {
	w := newWorld(t)
	w.Boots = func(name string) time.Duration {
		if name == "web002" {
			return time.Hour
		}
		return time.Second
	}
	w.at(0, func() { w.Scale(2) })
	w.at(20*time.Minute, func() {
		w.status(2, 1)
		c, ok := conditions.Get(w.Status.Conditions, "ReplicaFailure")
		require.True(t, ok)
		require.Contains(t, c.Message, "2 of 2 made, 1 running.")
	})
	w.at(61*time.Minute, func() { w.status(2, 2); require.Empty(t, w.Status.Conditions) })
	w.gone(62 * time.Minute)
	w.run()
	require.Len(t, w.transitions, 1)
}

func TestMoreThanABurst(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.Scale(600) })
	w.at(time.Minute, func() { w.status(600, 600) })
	w.gone(2 * time.Minute)
	w.run()
	require.Equal(t, 600, w.Most)
	require.Len(t, w.inputs, 3)
	for i, n := range []int{250, 250, 100} {
		require.Equal(t, n, w.inputs[i].Make)
	}
}

func TestAnOutageDelaysButMakesNoneTwice(t *testing.T) {
	w := newWorld(t)
	out := false
	w.Fail = func(string) error {
		if out {
			return fakes.Unavailable()
		}
		return nil
	}
	w.at(0, func() { w.Scale(1) })
	w.at(10*time.Second, func() { out = true; w.Scale(4) })
	w.at(30*time.Minute, func() { require.Len(t, w.Names(), 1); out = false })
	w.at(40*time.Minute, func() { w.status(4, 4) })
	w.gone(41 * time.Minute)
	w.run()
	require.Equal(t, 4, w.Most)
}

// TestHistoryLost: an entity that begins anew finds what an earlier one has made.
func TestHistoryLost(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.Add(contract.ReplicaObservation{
			UID: fmt.Sprintf("old-%d", i), Name: fmt.Sprintf("web%03d", i+5), OwnerUID: "set-uid-123456", Matches: true, Phase: "Running", Ready: true, EverRan: true, Ordinal: i + 5,
		})
	}
	w.at(0, func() { w.Scale(4) })
	w.at(10*time.Second, func() { require.Equal(t, []string{"web005", "web006", "web007", "web008"}, w.Names()) })
	w.gone(20 * time.Second)
	w.run()
	require.Equal(t, 4, w.Most)
}

func TestATakenNameIsPassedOver(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() {
		w.Add(contract.ReplicaObservation{UID: "x", Name: "web002", OwnerUID: "somebody"})
		w.Scale(2)
	})
	w.at(20*time.Second, func() { w.status(2, 2); require.Equal(t, []string{"web001", "web002", "web003"}, w.Names()) })
	w.gone(30 * time.Second)
	w.run()
}

func TestGoneWhileReplicating(t *testing.T) {
	w := newWorld(t)
	w.Boots = nil
	w.at(0, func() { w.Scale(2) })
	w.gone(10 * time.Second)
	w.run()
	require.Contains(t, w.results[0], "anceled")
}

func TestAnotherObjectOfTheName(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.Scale(1) })
	w.at(10*time.Second, func() {
		w.Vanish("web001")
		w.ChangeSet(func(o *contract.ReplicaSetObservation) { o.UID = "second-uid" })
	})
	w.at(30*time.Second, func() {
		w.status(1, 1)
		require.Equal(t, []string{"web002"}, w.Names())
		require.Equal(t, "second-uid", w.VMIs["web002"].OwnerUID)
	})
	w.gone(40 * time.Second)
	w.run()
	require.Contains(t, w.transitions, "replicaset/default/web/second-u/replicate/1")
}

func TestCancelReasonHandIsHeld(t *testing.T) {
	w := newWorld(t)
	w.Boots = nil
	w.at(0, func() { w.Scale(2) })
	w.at(10*time.Second, func() {
		w.env.SignalWorkflow(contract.ControlCancelTransition, contract.ControlRequest{Actor: "bob", Reason: "storage is slow"})
	})
	w.at(12*time.Second, func() { w.Scale(5) })
	w.at(20*time.Second, func() {
		require.Len(t, w.Names(), 2)
		require.True(t, conditions.Is(w.Status.Conditions, contract.ConditionHeld, "True"))
		w.env.SignalWorkflow(contract.ControlRelease, contract.ControlRequest{Actor: "bob"})
	})
	w.at(30*time.Second, func() { require.Len(t, w.Names(), 5); require.Empty(t, w.Status.Conditions) })
	w.gone(40 * time.Second)
	w.run()
	require.Contains(t, w.results[0], "anceled")
}

func TestAGracePeriodOfCenturiesDoesNotStopTheSet(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() {
		w.ChangeSet(func(o *contract.ReplicaSetObservation) {
			o.Replicas, o.GracePeriodSeconds = 2, new(int64(9_300_000_000))
		})
	})
	w.at(time.Minute, func() { w.status(2, 2); w.Scale(0) })
	w.at(2*time.Minute, func() {
		w.status(0, 0)
		for _, in := range w.inputs {
			require.WithinDuration(t, w.env.Now(), in.Deadline, 8*24*time.Hour)
		}
	})
	w.gone(3 * time.Minute)
	w.run()
}

func TestConflictsAreBelievedAndPaused(t *testing.T) {
	w := newWorld(t)
	writes := func() int {
		n := 0
		for _, c := range w.Calls {
			if c == contract.ActivityPatchReplicaSet {
				n++
			}
		}
		return n
	}
	before := 0
	w.at(0, func() { w.Scale(1) })
	w.at(time.Minute, func() {
		before = writes()
		w.Set.ResourceVersion = "7" // older by number than what was seen
		w.Change(w.Names()[0], func(o *contract.ReplicaObservation) { o.Ready = false })
	})
	w.at(2*time.Minute, func() {
		w.status(1, 0)
		require.Equal(t, 2, writes()-before)
		before = writes()
		w.Conflicts = true
		w.Change(w.Names()[0], func(o *contract.ReplicaObservation) { o.Ready = true })
	})
	w.at(time.Hour, func() {
		require.Less(t, writes()-before, 50, "a pause that doubles up to two minutes")
		w.Conflicts = false
	})
	w.at(time.Hour+3*time.Minute, func() { w.status(1, 1) })
	w.gone(2 * time.Hour)
	w.run()
}

func TestMoreThanASetCanHaveIsRefusedAndShows(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.Scale(2) })
	w.at(time.Minute, func() {
		w.ChangeSet(func(o *contract.ReplicaSetObservation) { o.Replicas, o.Unusable = 1001, "it asks for too many" })
	})
	w.at(2*time.Minute, func() {
		require.Len(t, w.Names(), 2)
		c, _ := conditions.Get(w.Status.Conditions, "ReplicaFailure")
		require.Equal(t, "it asks for too many", c.Message)
	})
	w.at(3*time.Minute, func() {
		w.ChangeSet(func(o *contract.ReplicaSetObservation) { o.Replicas, o.Unusable = 3, "" })
	})
	w.at(4*time.Minute, func() { w.status(3, 3); require.Empty(t, w.Status.Conditions) })
	w.gone(5 * time.Minute)
	w.run()
}
