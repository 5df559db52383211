package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// drains plays the drains of a node: each lasts a minute, and then answers with result.
type drains struct {
	*testsuite.TestWorkflowEnvironment
	began  []contract.DrainInput
	ids    []string
	told   []contract.DrainProgress
	result contract.DrainResult
	fail   int // how many drains fail, of those to come
}

func newDrains(t *testing.T) *drains {
	t.Helper()
	d := &drains{TestWorkflowEnvironment: environment.New(),
		result: contract.DrainResult{Summary: "done", Moved: 1}}
	d.RegisterActivityWithOptions(func(context.Context, contract.PatchNodeInput) error { return nil },
		activity.RegisterOptions{Name: contract.ActivityPatchNode})
	d.RegisterWorkflowWithOptions(d.drain, workflow.RegisterOptions{Name: contract.WorkflowDrain})
	return d
}

func (d *drains) drain(ctx workflow.Context, in contract.DrainInput) (contract.DrainResult, error) {
	d.began = append(d.began, in)
	d.ids = append(d.ids, workflow.GetInfo(ctx).WorkflowExecution.ID)
	progress := workflow.GetSignalChannel(ctx, contract.SignalProgress)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var p contract.DrainProgress
			progress.Receive(ctx, &p)
			d.told = append(d.told, p)
		}
	})
	if err := workflow.Sleep(ctx, time.Minute); err != nil {
		return d.result, err
	}
	if d.fail > 0 {
		d.fail--
		return contract.DrainResult{}, errors.New("terminated")
	}
	return d.result, nil
}

// node sends what crdwatch saw of the node at a time.
func (d *drains) node(at time.Duration, version string, change func(*contract.NodeObservation)) {
	d.RegisterDelayedCallback(func() {
		o := contract.NodeObservation{UID: "u", ResourceVersion: version, Ready: true, Labels: map[string]string{
			contract.LabelSchedulable: "false"}}
		if change != nil {
			change(&o)
		}
		d.SignalWorkflow(contract.SignalObserveNode, o)
	}, at)
}

func (d *drains) marked(at time.Duration, version string, n int) {
	d.RegisterDelayedCallback(func() {
		d.SignalWorkflow(contract.SignalObserveEvacuees,
			contract.EvacueesObservation{ResourceVersion: version, Marked: n})
	}, at)
}

func (d *drains) control(at time.Duration, name string, r contract.ControlRequest) {
	r.Actor = "alice"
	d.RegisterDelayedCallback(func() { d.SignalWorkflow(name, r) }, at)
}

func gone(o *contract.NodeObservation) { o.Gone = true }

func tainted(o *contract.NodeObservation) { o.Drain = true }

func cordoned(o *contract.NodeObservation) { o.Unschedulable = true }

// run runs the entity until the node is gone.
func (d *drains) run(t *testing.T, until time.Duration) {
	t.Helper()
	d.node(until, "999", gone)
	d.ExecuteWorkflow(Workflow, contract.EntityInput{Name: "n"})
	require.True(t, d.IsWorkflowCompleted())
	require.NoError(t, d.GetWorkflowError())
}

func TestMarkedInstancesAreDrained(t *testing.T) {
	d := newDrains(t)
	d.node(0, "1", nil)
	d.marked(time.Second, "10", 2)
	d.marked(10*time.Second, "11", 1)
	d.marked(20*time.Second, "9", 5) // late
	d.marked(50*time.Second, "12", 0)
	d.run(t, time.Hour)
	require.Equal(t, []string{"node/n/drain/1"}, d.ids)
	require.Equal(t, []contract.DrainInput{{Node: "n", UID: "u", Scope: contract.ScopeMarked, Marked: 2,
		Why: "the pods of 2 instances were to be evicted"}}, d.began)
	require.Equal(t, []contract.DrainProgress{{Scope: contract.ScopeMarked, Marked: 1},
		{Scope: contract.ScopeMarked}}, d.told)
}

// TestOneThatIsLeftBehindIsTriedAgain with growing pauses, and at once when another one is marked.
func TestOneThatIsLeftBehindIsTriedAgain(t *testing.T) {
	d := newDrains(t)
	d.result = contract.DrainResult{}
	d.node(0, "1", nil)
	d.marked(0, "10", 1)
	d.marked(15*time.Minute, "11", 2)
	d.RegisterDelayedCallback(func() { require.Len(t, d.began, 4) }, 14*time.Minute) // at 0, 2, 5, 10 min
	d.run(t, 15*time.Minute+30*time.Second)
	require.Len(t, d.began, 5)
}

func TestATaintDrainsOnce(t *testing.T) {
	d := newDrains(t)
	d.node(0, "1", tainted)
	d.node(time.Hour, "2", nil)
	d.RegisterDelayedCallback(func() { require.Len(t, d.began, 1) }, time.Hour)
	d.node(2*time.Hour, "3", tainted)
	d.run(t, 3*time.Hour)
	require.Len(t, d.began, 2)
	require.Equal(t, contract.ScopeAll, d.began[0].Scope)
}

// TestATaintWhoseDrainFailsIsNotDoneWith: others begin, with growing pauses, until one ends as it should.
func TestATaintWhoseDrainFailsIsNotDoneWith(t *testing.T) {
	d := newDrains(t)
	d.fail = 2
	d.node(0, "1", tainted)
	d.RegisterDelayedCallback(func() { require.Len(t, d.ids, 1) }, 110*time.Second)
	d.RegisterDelayedCallback(func() { require.Len(t, d.ids, 2) }, 4*time.Minute)
	d.run(t, time.Hour)
	require.Equal(t, []string{"node/n/drain/1", "node/n/drain/2", "node/n/drain/3"}, d.ids)
	require.Equal(t, contract.ScopeAll, d.began[2].Scope)
}

// TestACancelledDrainHoldsOthers until somebody releases that, or the node is uncordoned and nobody is marked.
func TestACancelledDrainHoldsOthers(t *testing.T) {
	for name, c := range map[string]func(*drains){
		"released": func(d *drains) { d.control(time.Hour, contract.ControlRelease, contract.ControlRequest{}) },
		"drained":  func(d *drains) { d.control(time.Hour, contract.ControlDrain, contract.ControlRequest{}) },
		"uncordoned": func(d *drains) {
			d.marked(30*time.Minute, "20", 0)
			d.node(time.Hour, "2", nil)
			d.marked(61*time.Minute, "21", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrains(t)
			d.result = contract.DrainResult{CancelledBy: "bob"}
			d.node(0, "1", cordoned)
			d.marked(0, "10", 1)
			d.marked(10*time.Minute, "11", 3)
			d.RegisterDelayedCallback(func() {
				require.Len(t, d.began, 1)
				d.result = contract.DrainResult{Moved: 1}
			}, 59*time.Minute)
			c(d)
			d.run(t, time.Hour+90*time.Second)
			require.Len(t, d.began, 2)
		})
	}
}

// TestAHoldThatAPersonAskedForStays until it is released, also on a node that has nothing to be drained for yet.
func TestAHoldThatAPersonAskedForStays(t *testing.T) {
	alice := contract.ControlRequest{Actor: "alice"}
	d := newDrains(t)
	d.node(0, "1", nil)
	d.control(time.Minute, contract.ControlHold, alice)
	d.node(10*time.Minute, "2", tainted)
	d.marked(11*time.Minute, "10", 1)
	d.marked(30*time.Minute, "11", 0)
	d.node(31*time.Minute, "3", nil)
	d.node(40*time.Minute, "4", tainted)
	d.RegisterDelayedCallback(func() { require.Empty(t, d.began) }, 59*time.Minute)
	d.control(time.Hour, contract.ControlRelease, alice)
	d.run(t, time.Hour+90*time.Second)
	require.Len(t, d.began, 1)
}

// TestACancelledDrainLeavesAPersonsHold, which is there already.
func TestACancelledDrainLeavesAPersonsHold(t *testing.T) {
	d := newDrains(t)
	d.result = contract.DrainResult{CancelledBy: "bob"}
	d.node(0, "1", tainted)
	d.control(30*time.Second, contract.ControlHold, contract.ControlRequest{})
	d.node(10*time.Minute, "2", nil)
	d.node(20*time.Minute, "3", tainted)
	d.RegisterDelayedCallback(func() { require.Len(t, d.began, 1) }, 59*time.Minute)
	d.control(time.Hour, contract.ControlRelease, contract.ControlRequest{})
	d.run(t, time.Hour+90*time.Second)
	require.Len(t, d.began, 2)
}

// TestADrainOfAllEndsWithTaintAndCordon, and a later cordon alone does not bring it back.
func TestADrainOfAllEndsWithTaintAndCordon(t *testing.T) {
	d := newDrains(t)
	d.node(0, "1", tainted)
	d.node(10*time.Second, "2", cordoned)
	d.node(20*time.Second, "3", nil)
	d.node(30*time.Second, "4", cordoned)
	d.node(40*time.Second, "5", tainted)
	d.run(t, 50*time.Second)
	require.Len(t, d.began, 1)
	require.Equal(t, []contract.DrainProgress{{Scope: contract.ScopeMarked}, {Scope: contract.ScopeAll},
		{Scope: contract.ScopeAll, Gone: true}}, d.told)
}

// TestATaintThatComesTooLateForADrain of marked instances begins another one.
func TestATaintThatComesTooLateForADrain(t *testing.T) {
	d := newDrains(t)
	d.result.Scope = contract.ScopeMarked
	d.node(0, "1", nil)
	d.marked(0, "10", 1)
	d.node(50*time.Second, "2", tainted)
	d.marked(55*time.Second, "11", 0)
	d.RegisterDelayedCallback(func() { d.result.Scope = contract.ScopeAll }, 90*time.Second)
	d.run(t, time.Hour)
	require.Len(t, d.began, 2)
	require.Equal(t, contract.ScopeAll, d.began[1].Scope)
}

func TestTheControlNeedsACordonOrTaint(t *testing.T) {
	check := func(change func(*contract.NodeObservation)) error {
		s := State{Name: "n", Node: &contract.NodeObservation{}}
		if change != nil {
			change(s.Node)
		}
		return s.drainControl().Check(contract.ControlRequest{})
	}
	require.ErrorContains(t, check(nil), "neither cordoned nor tainted kubevirt.io/drain")
	require.NoError(t, check(cordoned))
	require.NoError(t, check(tainted))
}

func TestTheControlDrains(t *testing.T) {
	d := newDrains(t)
	d.node(0, "1", cordoned)
	d.control(time.Second, contract.ControlDrain, contract.ControlRequest{Parallelism: 3, Reason: "a new kernel"})
	d.control(2*time.Second, contract.ControlDrain, contract.ControlRequest{Parallelism: 5})
	d.run(t, 30*time.Second)
	require.Equal(t, []contract.DrainInput{{Node: "n", UID: "u", Scope: contract.ScopeAll, Parallelism: 3,
		Why: "a new kernel", Actor: "alice"}}, d.began)
	require.Equal(t, []contract.DrainProgress{{Scope: contract.ScopeAll, Parallelism: 5},
		{Scope: contract.ScopeAll, Parallelism: 5, Gone: true}}, d.told, "the node is gone before the drain ends")
}

func TestARepairCannotMakeUpADrain(t *testing.T) {
	was := State{Name: "node1"}
	now := was
	now.Open = &Drain{}
	require.Error(t, sound(&was, &now))
	require.Error(t, sound(&now, &was))
}

// TestAnOpenDrainIsAskedInANewEpoch whether it still is: the memory of it may be that of an older copy of Temporal's
// database.
func TestAnOpenDrainIsAskedInANewEpoch(t *testing.T) {
	now := time.Unix(1000, 0)
	s := State{Name: "n"}
	s.observe(contract.NodeObservation{UID: "u", ResourceVersion: "1", Epoch: 1})
	s.Open = &Drain{Transition: entity.Transition{Detached: true, Asked: now, Asks: 3}}
	s.Open.Sent = s.progress()
	s.observe(contract.NodeObservation{UID: "u", ResourceVersion: "2", Epoch: 1})
	require.NotEqual(t, entity.ActAsk, s.draining(now).Action)
	s.observe(contract.NodeObservation{UID: "u", ResourceVersion: "2", Epoch: 2})
	require.Equal(t, entity.ActAsk, s.draining(now).Action)
}
