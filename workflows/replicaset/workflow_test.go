package replicaset_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/cluster"
	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/replicaset"
)

// world is one replica set's entity with its transitions on a fake cluster, with time that skips.
type world struct {
	*cluster.Cluster
	t           *testing.T
	env         *testsuite.TestWorkflowEnvironment
	transitions []string
	inputs      []contract.ReplicateInput
	results     []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	env := environment.New()
	w := &world{Cluster: cluster.New(t, "replicaset/default/web", env), t: t, env: env}
	w.env.RegisterWorkflowWithOptions(replicaset.Replicate, workflow.RegisterOptions{Name: contract.WorkflowReplicate})
	w.env.SetOnChildWorkflowStartedListener(
		func(info *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
			var in contract.ReplicateInput
			_ = args.Get(&in)
			// replicaset/NAMESPACE/NAME/UID/…
			w.transitions = append(w.transitions, strings.SplitN(info.WorkflowExecution.ID, "/", 5)[4])
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
	w.Boots = func(int) time.Duration { return 5 * time.Second }
	return w
}

func (w *world) at(d time.Duration, f func()) { w.env.RegisterDelayedCallback(f, d) }

func (w *world) deleteSet(at time.Duration) {
	w.at(at, w.DeleteSet)
}

func (w *world) run() {
	w.t.Helper()
	w.env.ExecuteWorkflow(replicaset.Workflow, contract.EntityInput{Namespace: "default", Name: "web"})
	require.True(w.t, w.env.IsWorkflowCompleted(), "the entity never ended; calls: %v", w.Calls)
	require.NoError(w.t, w.env.GetWorkflowError())
}

func (w *world) status(replicas, ready int) {
	w.t.Helper()
	require.NotNil(w.t, w.SetStatus)
	require.Equal(w.t, replicas, w.SetStatus.Replicas, "%+v", *w.SetStatus)
	require.Equal(w.t, ready, w.SetStatus.ReadyReplicas, "%+v", *w.SetStatus)
	require.Equal(w.t, "app=web", w.SetStatus.LabelSelector)
}

func TestScaleUpAndDown(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateSet(3) })
	w.at(4*time.Second, func() { w.status(3, 0) })
	w.at(10*time.Second, func() { w.status(3, 3); w.Scale(1) })
	w.at(20*time.Second, func() {
		w.status(1, 1)
		require.Equal(t, []int{1}, w.Ordinals(), "of equal ones the youngest go first")
	})
	w.deleteSet(30 * time.Second)
	w.run()
	require.Equal(t, []string{"replicate/1", "replicate/2"}, w.transitions)
	require.Equal(t, "alice", w.inputs[0].Actor)
	require.Contains(t, w.results[0], "3 of 3 made, 3 running.")
	require.Contains(t, w.results[1], "2 of 2 deleted, 2 gone.")
	require.Equal(t, 3, w.Most, "never more than wanted")
}

func TestFiftyReplicasInOneTransition(t *testing.T) {
	w := newWorld(t)
	w.Boots = func(ordinal int) time.Duration { return time.Duration(ordinal) * time.Second }
	w.at(0, func() { w.CreateSet(50) })
	w.at(25500*time.Millisecond, func() {
		v, err := w.env.QueryWorkflow(contract.QueryState)
		require.NoError(t, err)
		var s replicaset.State
		require.NoError(t, v.Get(&s))
		require.NotNil(t, s.Open)
		require.Equal(t, 25, s.Open.Reported.Running)
	})
	w.at(70*time.Second, func() { w.status(50, 50) })
	w.deleteSet(80 * time.Second)
	w.run()
	require.Len(t, w.transitions, 1)
	require.Contains(t, w.results[0], "50 of 50 made, 50 running.")
	writes := 0
	for _, c := range w.Calls {
		if c == contract.ActivityPatchReplicaSet {
			writes++
		}
	}
	require.LessOrEqual(t, writes, 25, "calls: %v", w.Calls)
}

// TestShowsFirstReplicaSoon: the first replica is shown soon, though no other follows: a tenth of the way is written at
// once, less than that a little later.
func TestShowsFirstReplicaSoon(t *testing.T) {
	w := newWorld(t)
	w.Boots = nil
	w.at(0, func() { w.CreateSet(50) })
	w.at(time.Minute, func() { w.status(50, 0); w.Run(w.Replica(1)) })
	w.at(61*time.Second, func() { w.status(50, 1) })
	w.at(62*time.Second, func() { w.Run(w.Replica(2)) })
	w.at(63*time.Second, func() { w.status(50, 1) })
	w.at(67*time.Second, func() { w.status(50, 2) })
	w.deleteSet(70 * time.Second)
	w.run()
}

// TestRepeatsWriteWithLostAnswer: the write was done, and its answer lost. If the status then returns to what was
// written before, that must be written again.
func TestRepeatsWriteWithLostAnswer(t *testing.T) {
	w := newWorld(t)
	w.Boots = func(int) time.Duration { return 100 * time.Millisecond } // before the next attempt of the write
	lost := false
	w.Lose = func(activity string) error {
		if lost && activity == contract.ActivityPatchReplicaSet {
			lost = false
			return temporal.NewNonRetryableApplicationError("the answer was lost", "Kubernetes", nil)
		}
		return nil
	}
	w.at(0, func() { w.CreateSet(2) })
	w.at(time.Minute, func() { w.status(2, 2); lost = true; w.Vanish(w.Replica(1)) })
	w.at(time.Minute+400*time.Millisecond, func() { require.False(t, lost); w.status(1, 1) })
	w.at(time.Hour, func() { w.status(2, 2) })
	w.deleteSet(61 * time.Minute)
	w.run()
}

func TestNewerScaleSupersedes(t *testing.T) {
	w := newWorld(t)
	w.Boots = func(int) time.Duration { return time.Minute }
	w.at(0, func() { w.CreateSet(10) })
	w.at(10*time.Second, func() { w.Scale(4) })
	w.at(30*time.Second, func() { w.status(4, 0); require.Len(t, w.Replicas(), 4) })
	w.at(3*time.Minute, func() { w.status(4, 4) })
	w.deleteSet(4 * time.Minute)
	w.run()
	require.Len(t, w.transitions, 2)
	require.Len(t, w.inputs[1].Remove, 6)
	require.Contains(t, w.results[0], "anceled")
}

// TestLateScaleReportNamesNoUser: it may be about a request that was refused.
func TestLateScaleReportNamesNoUser(t *testing.T) {
	for actor, late := range map[string]time.Duration{"bob": 30 * time.Second, "": 5 * time.Minute} {
		w := newWorld(t)
		w.at(0, func() { w.CreateSet(1) })
		w.at(10*time.Minute, func() {
			w.env.SignalWorkflow(contract.SignalReportRequest, contract.RequestReport{UID: w.SetUID(),
				ResourceVersion: "1", Operation: contract.OperationReplicate, Replicas: 3, Actor: "bob",
				Asked: w.env.Now().Add(-late)})
			w.Scale(3)
		})
		w.deleteSet(11 * time.Minute)
		w.run()
		require.Len(t, w.inputs, 2)
		require.Equal(t, actor, w.inputs[1].Actor)
	}
}

func TestReplacesVanishedOrEndedReplica(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateSet(3) })
	w.at(10*time.Second, func() { w.Vanish(w.Replica(2)) })
	w.at(20*time.Second, func() {
		require.Equal(t, []int{1, 3, 4}, w.Ordinals())
		w.SetPhaseOf(w.Replica(1), "Succeeded")
	})
	w.at(40*time.Second, func() {
		require.Equal(t, []int{3, 4, 5}, w.Ordinals())
		w.status(3, 3)
	})
	w.deleteSet(50 * time.Second)
	w.run()
	require.Len(t, w.transitions, 3)
	require.Equal(t, "3 replicas are wanted, and there are 2; 1 has ended", w.inputs[2].Why)
	require.Len(t, w.inputs[2].Finished, 1)
}

func TestReplacesEndedReplicaWhileOthersBoot(t *testing.T) {
	w := newWorld(t)
	w.Boots = func(ordinal int) time.Duration {
		if ordinal == 2 {
			return 9 * time.Minute
		}
		return time.Second
	}
	w.at(0, func() { w.CreateSet(3) })
	w.at(10*time.Second, func() {
		w.SetPhaseOf(w.Replica(1), "Failed")
	})
	w.at(20*time.Second, func() { require.Equal(t, []int{2, 3, 4}, w.Ordinals()) })
	w.deleteSet(20 * time.Minute)
	w.run()
	require.Contains(t, w.results[0], "another transition follows")
}

func TestBacksOffFromReplicasThatNeverRun(t *testing.T) {
	w := newWorld(t)
	w.Boots = nil
	for i := range 600 {
		w.at(time.Duration(i)*time.Second+500*time.Millisecond, func() {
			for _, vmi := range w.Replicas() {
				w.SetPhaseOf(vmi.Name, "Failed")
			}
		})
	}
	w.at(0, func() { w.CreateSet(1) })
	w.deleteSet(600 * time.Second)
	w.run()
	require.Greater(t, len(w.transitions), 5)
	require.Less(t, len(w.transitions), 20)
}

func TestAdoptsAndReleases(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() {
		w.CreateReplica("bare")
		w.CreateReplica("other", ownedByAnother)
		w.SetPhaseOf("bare", "Running")
		w.SetPhaseOf("other", "Running")
		w.CreateSet(2)
	})
	w.at(10*time.Second, func() {
		require.Equal(t, w.SetUID(), w.OwnerOf("bare"))
		require.Equal(t, []int{0, 0, 1}, w.Ordinals())
		w.status(2, 2)
		w.EditReplica("bare", func(vmi *kubevirt.VirtualMachineInstance) { vmi.Labels["app"] = "none" })
	})
	w.at(20*time.Second, func() {
		require.Empty(t, w.OwnerOf("bare"))
		require.Equal(t, []int{0, 0, 1, 2}, w.Ordinals())
		w.CreateReplica("late")
	})
	w.at(30*time.Second, func() {
		require.Equal(t, []int{0, 0, 1, 2}, w.Ordinals(), "one too many: the one that does not run yet goes")
		w.status(2, 2)
	})
	w.deleteSet(40 * time.Second)
	w.run()
}

func TestPaused(t *testing.T) {
	w := newWorld(t)
	pause := func(p bool) func() {
		return func() { w.EditSet(func(s *kubevirt.VirtualMachineInstanceReplicaSetSpec) { s.Paused = p }) }
	}
	w.at(0, func() { w.CreateSet(1) })
	w.at(10*time.Second, pause(true))
	w.at(11*time.Second, func() { w.Scale(3) })
	w.at(20*time.Second, func() {
		w.status(1, 1)
		c, ok := conditions.Get(w.SetStatus.Conditions, "ReplicaPaused")
		require.True(t, ok)
		require.Equal(t, "Paused", c.Reason)
		require.Equal(t, "Controller got paused", c.Message)
	})
	w.at(21*time.Second, pause(false))
	w.at(30*time.Second, func() { w.status(3, 3); require.Empty(t, w.SetStatus.Conditions) })
	w.deleteSet(40 * time.Second)
	w.run()
	require.Equal(t, []contract.Event{
		{Type: "Normal", Reason: "SuccessfulPaused", Message: "Paused"},
		{Type: "Normal", Reason: "SuccessfulResumed", Message: "Resumed"},
	}, w.Events)
}

func TestShowsQuotaAndRetries(t *testing.T) {
	w := newWorld(t)
	w.Quota(2)
	w.at(0, func() { w.CreateSet(3) })
	w.at(20*time.Second, func() {
		w.status(2, 2)
		c, ok := conditions.Get(w.SetStatus.Conditions, "ReplicaFailure")
		require.True(t, ok)
		require.Equal(t, "FailedCreate", c.Reason)
		require.Contains(t, c.Message, "exceeded quota")
		v, err := w.env.QueryWorkflow(contract.QueryPlan)
		require.NoError(t, err)
		var p struct{ Waiting string }
		require.NoError(t, v.Get(&p))
		require.Contains(t, p.Waiting, "another attempt to replicate: ")
		require.Contains(t, p.Waiting, "exceeded quota")
	})
	w.at(5*time.Minute, func() {
		require.Less(t, len(w.transitions), 12, "with a growing pause")
		w.Quota(0)
	})
	w.at(10*time.Minute, func() { w.status(3, 3); require.Empty(t, w.SetStatus.Conditions) })
	w.deleteSet(11 * time.Minute)
	w.run()
	require.Equal(t, 3, w.Most)
}

func TestShowsReplicaNotRunningAtDeadline(t *testing.T) {
	w := newWorld(t)
	w.Boots = func(ordinal int) time.Duration {
		if ordinal == 2 {
			return time.Hour
		}
		return time.Second
	}
	w.at(0, func() { w.CreateSet(2) })
	w.at(20*time.Minute, func() {
		w.status(2, 1)
		c, ok := conditions.Get(w.SetStatus.Conditions, "ReplicaFailure")
		require.True(t, ok)
		require.Contains(t, c.Message, "2 of 2 made, 1 running.")
	})
	w.at(61*time.Minute, func() { w.status(2, 2); require.Empty(t, w.SetStatus.Conditions) })
	w.deleteSet(62 * time.Minute)
	w.run()
	require.Len(t, w.transitions, 1)
}

func TestMoreThanOneBurst(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateSet(600) })
	w.at(time.Minute, func() { w.status(600, 600) })
	w.deleteSet(2 * time.Minute)
	w.run()
	require.Equal(t, 600, w.Most)
	require.Len(t, w.inputs, 3)
	for i, n := range []int{250, 250, 100} {
		require.Equal(t, n, w.inputs[i].Make)
	}
}

func TestOutageMakesNoReplicaTwice(t *testing.T) {
	w := newWorld(t)
	out := false
	w.Fail = func(string) error {
		if out {
			return cluster.Unavailable()
		}
		return nil
	}
	w.at(0, func() { w.CreateSet(1) })
	w.at(10*time.Second, func() { out = true; w.Scale(4) })
	w.at(30*time.Minute, func() { require.Len(t, w.Replicas(), 1); out = false })
	w.at(40*time.Minute, func() { w.status(4, 4) })
	w.deleteSet(41 * time.Minute)
	w.run()
	require.Equal(t, 4, w.Most)
}

// TestHistoryLost: an entity without history finds what an earlier one has made.
func TestHistoryLost(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() {
		w.CreateSet(4)
		w.CreateReplicas(5, 3)
	})
	w.at(10*time.Second, func() { require.Equal(t, []int{5, 6, 7, 8}, w.Ordinals()) })
	w.deleteSet(20 * time.Second)
	w.run()
	require.Equal(t, 4, w.Most)
}

func ownedByAnother(vmi *kubevirt.VirtualMachineInstance) {
	yes := true
	vmi.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "another", UID: "another", Controller: &yes}}
}

func ready(status corev1.ConditionStatus) func(*kubevirt.VirtualMachineInstance) {
	return func(vmi *kubevirt.VirtualMachineInstance) {
		vmi.Status.Conditions = []kubevirt.VirtualMachineInstanceCondition{
			{Type: kubevirt.VirtualMachineInstanceReady, Status: status}}
	}
}

func TestSkipsTakenName(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() {
		w.CreateSet(2)
		w.TakeName(2)
	})
	w.at(20*time.Second, func() { w.status(2, 2); require.Equal(t, []int{0, 1, 3}, w.Ordinals()) })
	w.deleteSet(30 * time.Second)
	w.run()
}

func TestGoneWhileReplicating(t *testing.T) {
	w := newWorld(t)
	w.Boots = nil
	w.at(0, func() { w.CreateSet(2) })
	w.deleteSet(10 * time.Second)
	w.run()
	require.Contains(t, w.results[0], "anceled")
}

func TestAnotherObjectOfTheName(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateSet(1) })
	w.at(10*time.Second, func() {
		w.Vanish(w.Replica(1))
		w.DeleteSet()
		w.CreateSet(1)
	})
	w.at(30*time.Second, func() {
		w.status(1, 1)
		require.Equal(t, []int{1}, w.Ordinals())
		require.Equal(t, w.SetUID(), w.OwnerOf(w.Replicas()[0].Name))
	})
	w.deleteSet(40 * time.Second)
	w.run()
	require.Equal(t, "replicate/1", w.transitions[len(w.transitions)-1], "those of another set are counted from 1")
}

func TestCancelControlHoldsSet(t *testing.T) {
	w := newWorld(t)
	w.Boots = nil
	w.at(0, func() { w.CreateSet(2) })
	w.at(10*time.Second, func() {
		w.env.SignalWorkflow(contract.ControlCancelTransition,
			contract.ControlRequest{Actor: "bob", Reason: "storage is slow"})
	})
	w.at(12*time.Second, func() { w.Scale(5) })
	w.at(20*time.Second, func() {
		require.Len(t, w.Replicas(), 2)
		require.True(t, conditions.HasStatus(w.SetStatus.Conditions, contract.ConditionHeld, "True"))
		w.env.SignalWorkflow(contract.ControlRelease, contract.ControlRequest{Actor: "bob"})
	})
	w.at(30*time.Second, func() { require.Len(t, w.Replicas(), 5); require.Empty(t, w.SetStatus.Conditions) })
	w.deleteSet(40 * time.Second)
	w.run()
	require.Contains(t, w.results[0], "anceled")
}

func TestHugeGracePeriod(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() {
		w.CreateSet(2, func(set *kubevirt.VirtualMachineInstanceReplicaSet) {
			set.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(9_300_000_000))
		})
	})
	w.at(time.Minute, func() { w.status(2, 2); w.Scale(0) })
	w.at(2*time.Minute, func() {
		w.status(0, 0)
		for _, in := range w.inputs {
			require.WithinDuration(t, w.env.Now(), in.Deadline, 8*24*time.Hour)
		}
	})
	w.deleteSet(3 * time.Minute)
	w.run()
}

// TestWriteConflictIsReadThenBacksOff: a conflict returns the current object. A write that conflicts with nothing new
// is repeated after a back-off.
func TestWriteConflictIsReadThenBacksOff(t *testing.T) {
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
	w.at(0, func() { w.CreateSet(1) })
	w.at(time.Minute, func() {
		before = writes()
		w.Kube.SetResourceVersion(7)
		w.Unseen(func() {
			w.EditSet(func(s *kubevirt.VirtualMachineInstanceReplicaSetSpec) {
				s.Template.ObjectMeta.Labels["a"] = "b"
			})
		})
		w.Kube.SetResourceVersion(5000)
		w.EditReplica(w.Replica(1), ready("False"))
	})
	w.at(2*time.Minute, func() {
		w.status(1, 0)
		require.Equal(t, 2, writes()-before)
		before = writes()
		w.Conflicts("virtualmachineinstancereplicasets", true)
		w.EditReplica(w.Replica(1), ready("True"))
	})
	w.at(time.Hour, func() {
		require.Less(t, writes()-before, 50, "a pause that doubles up to two minutes")
		w.Conflicts("virtualmachineinstancereplicasets", false)
	})
	w.at(time.Hour+3*time.Minute, func() { w.status(1, 1) })
	w.deleteSet(2 * time.Hour)
	w.run()
}

func TestShowsTooManyReplicas(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateSet(2) })
	w.at(time.Minute, func() {
		w.Scale(1001)
	})
	w.at(2*time.Minute, func() {
		require.Len(t, w.Replicas(), 2)
		c, _ := conditions.Get(w.SetStatus.Conditions, "ReplicaFailure")
		require.Equal(t, "it asks for 1001 replicas, and a set can have 1000 at most", c.Message)
	})
	w.at(3*time.Minute, func() {
		w.Scale(3)
	})
	w.at(4*time.Minute, func() { w.status(3, 3); require.Empty(t, w.SetStatus.Conditions) })
	w.deleteSet(5 * time.Minute)
	w.run()
}
