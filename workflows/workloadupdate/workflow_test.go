package workloadupdate

import (
	"context"
	"errors"
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

// cluster plays a cluster with outdated launchers, and what becomes of its guests' migrations.
type cluster struct {
	*testsuite.TestWorkflowEnvironment
	guests   []contract.Movable
	strategy contract.UpdateStrategy
	// made and evicted are the names of those that it was done to, in order; most is how many moved at a time.
	made, evicted []string
	most, looks   int
	refuse        string
	image         string // of the control worker
	unmarked      int
}

func newCluster(t *testing.T, u contract.UpdateStrategy, guests ...contract.Movable) *cluster {
	t.Helper()
	c := &cluster{TestWorkflowEnvironment: environment.New(), guests: guests, strategy: u,
		image: "new"}
	for name, f := range map[string]any{
		contract.ActivityFindOutdated: c.find, contract.ActivityMoveOutdated: c.move,
		contract.ActivityEvictOutdated: c.evict,
	} {
		c.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	c.RegisterDelayedCallback(func() { c.observe("new") }, 0)
	return c
}

func (c *cluster) observe(image string) {
	c.SignalWorkflow(contract.SignalObserveOutdated,
		contract.OutdatedObservation{Image: image, Sequence: c.Now().UnixMilli(), Outdated: len(c.guests)})
}

func (c *cluster) find(_ context.Context, in contract.FindOutdatedInput) (contract.FindOutdatedResult, error) {
	c.looks++
	if in.Image != c.image {
		return contract.FindOutdatedResult{}, errors.New("this control worker gives " + c.image)
	}
	out := contract.FindOutdatedResult{Instances: slices.Clone(c.guests), Strategy: c.strategy, Unmarked: c.unmarked}
	c.unmarked = 0
	// Who moves has left by the next look.
	c.guests = slices.DeleteFunc(c.guests, func(m contract.Movable) bool { return m.Migration.UID != "" })
	return out, nil
}

func (c *cluster) move(
	_ context.Context, in contract.UpdateInstancesInput,
) (out contract.UpdateInstancesResult, err error) {
	for _, o := range in.Instances {
		if o.Name == c.refuse {
			out.Refused = append(out.Refused, contract.InstanceRefusal{UID: o.UID, Why: "quota"})
			continue
		}
		c.made = append(c.made, o.Name)
		for i := range c.guests {
			if c.guests[i].VMI == o {
				moving(&c.guests[i])
			}
		}
	}
	under := 0
	for _, m := range c.guests {
		if m.Migration.UID != "" {
			under++
		}
	}
	c.most = max(c.most, under)
	return out, nil
}

func (c *cluster) evict(
	_ context.Context, in contract.UpdateInstancesInput,
) (out contract.UpdateInstancesResult, err error) {
	for _, o := range in.Instances {
		if o.Name == c.refuse {
			out.Refused = append(out.Refused, contract.InstanceRefusal{UID: o.UID, Why: "a budget"})
			continue
		}
		c.evicted = append(c.evicted, o.Name)
		c.guests = slices.DeleteFunc(c.guests, func(m contract.Movable) bool { return m.VMI == o })
	}
	return out, nil
}

func (c *cluster) update(t *testing.T) contract.WorkloadUpdateResult {
	t.Helper()
	c.ExecuteWorkflow(Workflow, contract.EntityInput{Name: contract.WorkloadUpdateID})
	require.True(t, c.IsWorkflowCompleted())
	require.NoError(t, c.GetWorkflowError())
	var r contract.WorkloadUpdateResult
	require.NoError(t, c.GetWorkflowResult(&r))
	return r
}

func (c *cluster) control(name string, at time.Duration) {
	c.RegisterDelayedCallback(func() {
		c.SignalWorkflow(name, contract.ControlRequest{Actor: "alice", Reason: "a test"})
	}, at)
}

func TestMovesWithinLimitAndEvictsInBatches(t *testing.T) {
	c := newCluster(t, both(), guest("a"), guest("b"), guest("c"), guest("d", fixed), guest("e", fixed),
		guest("f", fixed))
	c.RegisterDelayedCallback(func() { require.Empty(t, c.made, "the release settles") }, settleFor-time.Second)
	c.RegisterDelayedCallback(func() { require.Equal(t, []string{"d", "e"}, c.evicted) }, settleFor+30*time.Second)
	r := c.update(t)
	require.Equal(t, []string{"a", "b", "c"}, c.made)
	require.Equal(t, 2, c.most)
	require.Equal(t, []string{"d", "e", "f"}, c.evicted)
	require.Equal(t, contract.WorkloadUpdateResult{Moved: 3, Evicted: 3,
		Summary: "No launcher is outdated any more: 3 moved, 3 evicted."}, r)
}

func TestEmptyUpdateEndsAtOnce(t *testing.T) {
	c := newCluster(t, migrate())
	c.unmarked = 1 // a label that was wrong
	require.Equal(t, "No launcher is outdated any more: 0 moved.", c.update(t).Summary)
	require.Equal(t, 2, c.looks)
}

func TestHeldUpdateBeginsNothing(t *testing.T) {
	c := newCluster(t, migrate(), guest("a"))
	c.control(contract.ControlHold, time.Second)
	c.RegisterDelayedCallback(func() { require.Empty(t, c.made) }, time.Hour)
	c.control(contract.ControlRelease, time.Hour)
	require.Equal(t, 1, c.update(t).Moved)
}

// TestWaitsForStrategy: the update waits for a strategy, and reads seldom meanwhile.
func TestWaitsForStrategy(t *testing.T) {
	c := newCluster(t, none(), guest("a"))
	c.RegisterDelayedCallback(func() {
		require.Empty(t, c.made)
		require.LessOrEqual(t, c.looks, 13)
		c.strategy = migrate()
	}, time.Hour)
	require.Equal(t, 1, c.update(t).Moved)
}

func TestRetriesRefusedSteps(t *testing.T) {
	c := newCluster(t, both(), guest("a"), guest("b", fixed), guest("c"))
	c.refuse = "a"
	c.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"c"}, c.made)
		require.Equal(t, []string{"b"}, c.evicted)
		c.refuse = ""
	}, 10*time.Minute)
	require.Equal(t, 2, c.update(t).Moved)
}

// TestWaitsForOlderControlWorker: the update waits until the older control worker is replaced, since that would use
// another image.
func TestWaitsForOlderControlWorker(t *testing.T) {
	c := newCluster(t, migrate(), guest("a"))
	c.image = "old"
	c.RegisterDelayedCallback(func() {
		require.Empty(t, c.made)
		c.image = "new"
	}, 10*time.Minute)
	require.Equal(t, 1, c.update(t).Moved)
}

// The transition continues in another run with its whole state.
func TestContinuesInAnotherRun(t *testing.T) {
	c := newCluster(t, migrate(), guest("a"), guest("b", fixed))
	c.control(contract.ControlHold, 2*time.Minute)
	c.RegisterDelayedCallback(func() { c.SignalWorkflow(contract.SignalContinueAsNew, nil) }, 3*time.Minute)
	c.ExecuteWorkflow(Workflow, contract.EntityInput{Name: contract.WorkloadUpdateID})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, c.GetWorkflowError(), &again)
	var in contract.EntityInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	var s State
	require.NoError(t, entity.Decode(in.Carried, &s))
	require.Equal(t, "alice", s.Hold.Actor)
	require.Equal(t, 1, s.Moved)
	require.Equal(t, "new", s.Observed.Image)
	require.Len(t, s.Guests, 1)

	next := newCluster(t, migrate(), guest("b"))
	next.control(contract.ControlRelease, time.Minute)
	next.ExecuteWorkflow(Workflow, in)
	require.NoError(t, next.GetWorkflowError())
	require.Equal(t, []string{"b"}, next.made)
}
