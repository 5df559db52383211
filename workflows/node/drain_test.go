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

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/environment"
	"github.com/virtflow/virtflow/workflows/entity"
)

// drains plays the drains of a node: each takes a minute and returns result.
type drains struct {
	*testsuite.TestWorkflowEnvironment
	began  []contract.DrainInput
	ids    []string
	sent   []contract.DrainProgress
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
			d.sent = append(d.sent, p)
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

// node sends crdwatch's observation of the node at a time.
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

func TestDrainsMarkedInstances(t *testing.T) {
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
		{Scope: contract.ScopeMarked}}, d.sent)
}

// TestDrainsAgainWhenGuestsStay: another drain begins with growing pauses, and at once when another guest is marked.
func TestDrainsAgainWhenGuestsStay(t *testing.T) {
	d := newDrains(t)
	d.result = contract.DrainResult{}
	d.node(0, "1", nil)
	d.marked(0, "10", 1)
	d.marked(15*time.Minute, "11", 2)
	d.RegisterDelayedCallback(func() { require.Len(t, d.began, 4) }, 14*time.Minute) // at 0, 2, 5, 10 min
	d.run(t, 15*time.Minute+30*time.Second)
	require.Len(t, d.began, 5)
}

func TestTaintDrainsOnce(t *testing.T) {
	d := newDrains(t)
	d.node(0, "1", tainted)
	d.node(time.Hour, "2", nil)
	d.RegisterDelayedCallback(func() { require.Len(t, d.began, 1) }, time.Hour)
	d.node(2*time.Hour, "3", tainted)
	d.run(t, 3*time.Hour)
	require.Len(t, d.began, 2)
	require.Equal(t, contract.ScopeAll, d.began[0].Scope)
}

// TestDrainsAgainWhenTaintsDrainFails: another drain begins with growing pauses, until one completes.
func TestDrainsAgainWhenTaintsDrainFails(t *testing.T) {
	d := newDrains(t)
	d.fail = 2
	d.node(0, "1", tainted)
	d.RegisterDelayedCallback(func() { require.Len(t, d.ids, 1) }, 110*time.Second)
	d.RegisterDelayedCallback(func() { require.Len(t, d.ids, 2) }, 4*time.Minute)
	d.run(t, time.Hour)
	require.Equal(t, []string{"node/n/drain/1", "node/n/drain/2", "node/n/drain/3"}, d.ids)
	require.Equal(t, contract.ScopeAll, d.began[2].Scope)
}

// A cancelled drain holds others until a person releases the hold, or the node is uncordoned and no instance is marked.
func TestCancelledDrainHoldsOthers(t *testing.T) {
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

// A person's hold stays until it is released, also on a node that has nothing to be drained for yet.
func TestPersonsHoldStays(t *testing.T) {
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

// TestCancelledDrainKeepsPersonsHold: a hold that a person has set stays when a drain is cancelled.
func TestCancelledDrainKeepsPersonsHold(t *testing.T) {
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

// TestDrainOfAllEndsWithTaintAndCordon: a drain of all guests ends when the node is neither tainted nor cordoned, and a
// later cordon alone begins none.
func TestDrainOfAllEndsWithTaintAndCordon(t *testing.T) {
	d := newDrains(t)
	d.node(0, "1", tainted)
	d.node(10*time.Second, "2", cordoned)
	d.node(20*time.Second, "3", nil)
	d.node(30*time.Second, "4", cordoned)
	d.node(40*time.Second, "5", tainted)
	d.run(t, 50*time.Second)
	require.Len(t, d.began, 1)
	require.Equal(t, []contract.DrainProgress{{Scope: contract.ScopeMarked, Uncordoned: true},
		{Scope: contract.ScopeAll, Uncordoned: true}, {Scope: contract.ScopeAll, Uncordoned: true, Gone: true}}, d.sent)
}

// TestUncordonEndsDrain: the open drain, or one that is opened for it, clears the evacuations that kubectl drain has
// requested. Later evictions begin another drain, and on a node that was never cordoned they are not cleared.
func TestUncordonEndsDrain(t *testing.T) {
	d := newDrains(t)
	d.result = contract.DrainResult{Scope: contract.ScopeMarked}
	d.node(0, "1", cordoned)
	d.marked(time.Second, "10", 2)
	d.node(30*time.Second, "2", nil)
	d.marked(50*time.Second, "11", 0)
	d.marked(5*time.Minute, "12", 1)
	d.node(6*time.Minute+5*time.Second, "3", cordoned)
	d.node(6*time.Minute+10*time.Second, "4", nil)
	d.marked(7*time.Minute, "13", 0)
	d.run(t, time.Hour)
	require.Equal(t, []contract.DrainProgress{{Scope: contract.ScopeMarked, Marked: 2, Uncordoned: true},
		{Scope: contract.ScopeMarked, Uncordoned: true}, {Scope: contract.ScopeMarked, Uncordoned: true}}, d.sent)
	var uncordoned []bool
	for _, in := range d.began {
		uncordoned = append(uncordoned, in.Uncordoned)
	}
	require.Equal(t, []bool{false, false, true}, uncordoned)
}

// An uncordon is forgotten when the node is cordoned again, or nothing is left to take back: the next drain moves
// guests.
func TestForgetsUncordon(t *testing.T) {
	for name, c := range map[string]struct {
		unschedulable bool
		marked        int
		open          bool
		want          bool
	}{
		"instances are marked":             {marked: 1, want: true},
		"a drain is open":                  {open: true, want: true},
		"nothing is left":                  {},
		"cordoned again":                   {unschedulable: true, marked: 1},
		"cordoned again, and a drain open": {unschedulable: true, open: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := State{Node: &contract.NodeObservation{Unschedulable: c.unschedulable}}
			s.Evacuees, s.Uncordoned = &contract.EvacueesObservation{Marked: c.marked}, true
			if c.open {
				s.OpenDrain = &Drain{Sent: contract.DrainProgress{Uncordoned: true}}
			}
			s.endFinishedCordon()
			require.Equal(t, c.want, s.Uncordoned)
			if c.open {
				require.True(t, s.progress().Uncordoned, "it has been signalled so")
			}
		})
	}
}

// A taint after the cordon opens a drain, although it comes while the earlier drain is still ending.
func TestTaintAfterCordonDrains(t *testing.T) {
	d := newDrains(t)
	d.result = contract.DrainResult{Scope: contract.ScopeAll}
	d.node(0, "1", cordoned)
	d.marked(time.Second, "10", 1)
	d.node(30*time.Second, "2", nil)
	d.node(40*time.Second, "3", tainted)
	d.marked(50*time.Second, "11", 0)
	d.run(t, time.Hour)
	require.Len(t, d.began, 2)
	require.Equal(t, contract.ScopeAll, d.began[1].Scope)
	require.False(t, d.began[1].Uncordoned)
}

// A late taint begins another drain when the open one is of marked instances.
func TestLateTaintBeginsAnotherDrain(t *testing.T) {
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

func TestDrainControlNeedsCordonOrTaint(t *testing.T) {
	check := func(change func(*contract.NodeObservation)) error {
		s := State{Name: "n", Node: &contract.NodeObservation{}}
		if change != nil {
			change(s.Node)
		}
		return s.drainControl().Check(contract.ControlRequest{})
	}
	require.ErrorContains(t, check(nil), "not cordoned and has no taint kubevirt.io/drain:NoSchedule")
	require.ErrorContains(t, check(func(o *contract.NodeObservation) { o.DrainTaint = "a.b/empty" }),
		"has no taint a.b/empty:NoSchedule")
	require.NoError(t, check(cordoned))
	require.NoError(t, check(tainted))
}

func TestDrainControlDrains(t *testing.T) {
	d := newDrains(t)
	d.node(0, "1", cordoned)
	d.control(time.Second, contract.ControlDrain, contract.ControlRequest{Parallelism: 3, Reason: "a new kernel"})
	d.control(2*time.Second, contract.ControlDrain, contract.ControlRequest{Parallelism: 5})
	d.run(t, 30*time.Second)
	require.Equal(t, []contract.DrainInput{{Node: "n", UID: "u", Scope: contract.ScopeAll, Parallelism: 3,
		Why: "a new kernel", Actor: "alice"}}, d.began)
	require.Equal(t, []contract.DrainProgress{{Scope: contract.ScopeAll, Parallelism: 5},
		{Scope: contract.ScopeAll, Parallelism: 5, Gone: true}}, d.sent, "the node is gone before the drain ends")
}

func TestRepairRefusesInventedDrain(t *testing.T) {
	was := State{Name: "node1"}
	now := was
	now.OpenDrain = &Drain{}
	require.Error(t, validate(&was, &now))
	require.Error(t, validate(&now, &was))
}

// In a new epoch the open drain is asked whether it is still open: the state may be that of an older copy of Temporal's
// database.
func TestAsksOpenDrainInNewEpoch(t *testing.T) {
	now := time.Unix(1000, 0)
	s := State{Name: "n"}
	s.observe(contract.NodeObservation{UID: "u", ResourceVersion: "1", Epoch: 1})
	s.OpenDrain = &Drain{Transition: entity.Transition{Detached: true, Asked: now, Asks: 3}}
	s.OpenDrain.Sent = s.progress()
	s.observe(contract.NodeObservation{UID: "u", ResourceVersion: "2", Epoch: 1})
	require.NotEqual(t, entity.ActAsk, s.decideDrain(now).Action)
	s.observe(contract.NodeObservation{UID: "u", ResourceVersion: "2", Epoch: 2})
	require.Equal(t, entity.ActAsk, s.decideDrain(now).Action)
}
