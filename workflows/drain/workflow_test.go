package drain

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/workflows/entity"
)

// node plays a node, its guests, and what becomes of their migrations.
type node struct {
	*testsuite.TestWorkflowEnvironment
	guests []contract.Movable
	// made, evicted, deleted and cleared are the names of those that it was done to, in order.
	made, evicted, deleted, cleared []string
	most                            int // of migrations at once
	refuse                          string
	stuck                           bool // migrations do not end
}

func newNode(t *testing.T, guests ...contract.Movable) *node {
	t.Helper()
	n := &node{TestWorkflowEnvironment: environment.New(), guests: guests}
	for name, f := range map[string]any{
		contract.ActivityFindEvacuees: n.find, contract.ActivityCreateMigrations: n.create,
		contract.ActivityDeleteMigrations: n.cancel, contract.ActivityEvictPod: n.evict,
		contract.ActivityClearEvacuation: n.clear,
	} {
		n.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	return n
}

func (n *node) find(_ context.Context, in contract.FindEvacueesInput) (contract.FindEvacueesResult, error) {
	out := contract.FindEvacueesResult{Evacuees: slices.Clone(n.guests), Outbound: 2}
	if in.Scope == contract.ScopeMarked {
		out.Evacuees = slices.DeleteFunc(out.Evacuees, func(e contract.Movable) bool { return !e.Marked })
	}
	if !n.stuck { // who moves has left by the next look
		n.guests = slices.DeleteFunc(n.guests, func(e contract.Movable) bool { return e.Migration.UID != "" })
	}
	return out, nil
}

func (n *node) create(
	_ context.Context, in contract.CreateMigrationsInput,
) (contract.CreateMigrationsResult, error) {
	var out contract.CreateMigrationsResult
	for _, e := range in.Instances {
		if e.VMI.Name == n.refuse {
			out.Refused = append(out.Refused, contract.InstanceRefusal{UID: e.VMI.UID, Why: "quota"})
			continue
		}
		n.made = append(n.made, e.VMI.Name)
		out.Made++
		for i := range n.guests {
			if n.guests[i].VMI == e.VMI {
				moving(&n.guests[i])
			}
		}
	}
	under := 0
	for _, g := range n.guests {
		if g.Migration.UID != "" {
			under++
		}
	}
	n.most = max(n.most, under)
	return out, nil
}

func (n *node) cancel(_ context.Context, in contract.DeleteMigrationsInput) error {
	for _, m := range in.Migrations {
		n.deleted = append(n.deleted, m.Name)
	}
	return nil
}

func (n *node) evict(_ context.Context, in contract.EvictPodInput) (contract.EvictPodResult, error) {
	if in.VMI.Name == n.refuse {
		return contract.EvictPodResult{Refused: "a budget"}, nil
	}
	n.evicted = append(n.evicted, in.VMI.Name)
	n.guests = slices.DeleteFunc(n.guests, func(e contract.Movable) bool { return e.VMI == in.VMI })
	return contract.EvictPodResult{}, nil
}

func (n *node) clear(_ context.Context, in contract.ClearEvacuationInput) error {
	for _, o := range in.Instances {
		n.cleared = append(n.cleared, o.Name)
	}
	return nil
}

func (n *node) drain(t *testing.T, scope contract.DrainScope) contract.DrainResult {
	t.Helper()
	n.ExecuteWorkflow(Workflow, contract.DrainInput{Node: "n", Scope: scope, Why: "a test asks"})
	require.True(t, n.IsWorkflowCompleted())
	require.NoError(t, n.GetWorkflowError())
	var r contract.DrainResult
	require.NoError(t, n.GetWorkflowResult(&r))
	return r
}

func (n *node) control(name string, at time.Duration) {
	n.RegisterDelayedCallback(func() {
		n.SignalWorkflow(name, contract.ControlRequest{Actor: "alice", Reason: "a test"})
	}, at)
}

func TestMovesAllAndEvictsTheRest(t *testing.T) {
	n := newNode(t, guest("a"), guest("b"), guest("c"), guest("d", strategy("None")), guest("e", strategy("None")),
		guest("f", strategy("External")))
	r := n.drain(t, contract.ScopeAll)
	require.Equal(t, []string{"a", "b", "c"}, n.made)
	require.Equal(t, []string{"d", "e"}, n.evicted)
	require.Equal(t, 2, n.most)
	require.Equal(t, contract.DrainResult{Scope: contract.ScopeAll, Moved: 3, Evicted: 2,
		Summary: "The guests have left: 3 moved, 2 evicted, 1 left to others."}, r)
}

func TestEmptyDrainEndsAtOnce(t *testing.T) {
	require.Equal(t, "The guests have left: 0 moved.", newNode(t).drain(t, contract.ScopeMarked).Summary)
}

func TestPausedDrainBeginsNothing(t *testing.T) {
	n := newNode(t, guest("a"), guest("b"), guest("c"))
	n.control(contract.ControlPauseDrain, 0)
	n.RegisterDelayedCallback(func() { require.Empty(t, n.made) }, time.Hour)
	n.control(contract.ControlResumeDrain, time.Hour)
	require.Equal(t, 3, n.drain(t, contract.ScopeMarked).Moved)
}

func TestCancelledDrainCleansUp(t *testing.T) {
	n := newNode(t, guest("a"), guest("b"), guest("c"))
	n.stuck = true
	n.control(contract.ControlCancelDrain, 5*time.Second)
	r := n.drain(t, contract.ScopeMarked)
	require.Equal(t, []string{"a", "b"}, n.made)
	require.Equal(t, []string{"m-a", "m-b"}, n.deleted)
	require.Equal(t, []string{"a", "b", "c"}, n.cleared)
	require.Equal(t, "alice", r.CancelledBy)
}

// TestUncordonCleansUp: uncordoning a node ends its drain, and does not count as a person's cancellation: other drains
// may begin.
func TestUncordonCleansUp(t *testing.T) {
	for name, begin := range map[string]func(n *node) contract.DrainInput{
		"while it drains": func(n *node) contract.DrainInput {
			n.RegisterDelayedCallback(func() {
				n.SignalWorkflow(contract.SignalProgress,
					contract.DrainProgress{Scope: contract.ScopeMarked, Marked: 3, Uncordoned: true})
			}, 5*time.Second)
			return contract.DrainInput{Node: "n", Scope: contract.ScopeMarked}
		},
		"before it begins": func(n *node) contract.DrainInput {
			return contract.DrainInput{Node: "n", Scope: contract.ScopeMarked, Uncordoned: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, guest("a"), guest("b"), guest("c"))
			n.stuck = true
			n.ExecuteWorkflow(Workflow, begin(n))
			var r contract.DrainResult
			require.NoError(t, n.GetWorkflowResult(&r))
			require.Len(t, n.deleted, len(n.made))
			require.Equal(t, []string{"a", "b", "c"}, n.cleared)
			require.Empty(t, r.CancelledBy)
			require.Contains(t, r.Summary, "The node was uncordoned, so guests stay")
		})
	}
}

// TestTemporalCancellationCleansUp: cancelling the drain in Temporal has the effect of the control cancel-drain.
func TestTemporalCancellationCleansUp(t *testing.T) {
	n := newNode(t, guest("a"))
	n.stuck = true
	n.RegisterDelayedCallback(n.CancelWorkflow, 5*time.Second)
	r := n.drain(t, contract.ScopeMarked)
	require.Equal(t, []string{"m-a"}, n.deleted)
	require.Equal(t, "Temporal", r.CancelledBy)
}

// TestBlockedGuestWaitsForPerson: a blocked guest waits for a person, and does not block others.
func TestBlockedGuestWaitsForPerson(t *testing.T) {
	n := newNode(t, guest("a", fixed), guest("b"), guest("c", strategy("None")))
	n.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"b"}, n.made)
		require.Equal(t, []string{"c"}, n.evicted)
		n.guests[0].Migratable = true
	}, time.Hour)
	require.Equal(t, 2, n.drain(t, contract.ScopeAll).Moved)
	require.Equal(t, []string{"b", "a"}, n.made)
}

// TestDrainEndsWithTaint: a blocked guest does not keep it open, and one that comes later stays.
func TestDrainEndsWithTaint(t *testing.T) {
	unmarked := func(e *contract.Movable) { e.Marked = false }
	n := newNode(t, guest("a", fixed, unmarked))
	n.RegisterDelayedCallback(func() {
		n.guests = append(n.guests, guest("b", strategy("None"), unmarked), guest("c", unmarked))
		n.SignalWorkflow(contract.SignalProgress, contract.DrainProgress{Scope: contract.ScopeMarked})
	}, time.Hour+10*time.Second)
	require.Zero(t, n.drain(t, contract.ScopeAll).Left)
	require.Empty(t, append(n.made, n.evicted...))
}

func TestRetriesRefusedSteps(t *testing.T) {
	n := newNode(t, guest("a"), guest("b"), guest("c", strategy("None")))
	n.refuse = "a"
	n.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"b"}, n.made)
		n.refuse = ""
	}, time.Minute)
	require.Equal(t, 2, n.drain(t, contract.ScopeAll).Moved)
	n = newNode(t, guest("c", strategy("None")))
	n.refuse = "c"
	n.RegisterDelayedCallback(func() { n.refuse = "" }, time.Minute)
	require.Equal(t, 1, n.drain(t, contract.ScopeAll).Evicted)
}

// The transition continues in another run with its whole state, and reports its outcome to the entity that opened it.
func TestContinuesInAnotherRun(t *testing.T) {
	n := newNode(t, guest("a", fixed), guest("b"))
	n.control(contract.ControlPauseDrain, 0)
	n.RegisterDelayedCallback(func() { n.SignalWorkflow(contract.SignalDetached, nil) }, time.Minute)
	n.RegisterDelayedCallback(func() { n.SignalWorkflow(contract.SignalContinueAsNew, nil) }, 2*time.Minute)
	n.ExecuteWorkflow(Workflow, contract.DrainInput{Node: "n", Scope: contract.ScopeMarked, Why: "a test asks"})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, n.GetWorkflowError(), &again)
	var in contract.DrainInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	require.Equal(t, "a test asks", in.Why)
	var s State
	require.NoError(t, entity.Decode(in.Carried, &s))
	require.True(t, s.Detached)
	require.Equal(t, "alice", s.Paused.Actor)
	require.Len(t, s.Guests, 2)

	next := newNode(t, n.guests...)
	next.stuck = true
	next.control(contract.ControlCancelDrain, time.Minute)
	next.ExecuteWorkflow(Workflow, in)
	require.NoError(t, next.GetWorkflowError())
	require.Empty(t, next.made)
	require.Equal(t, []string{"a", "b"}, next.cleared)
}
