package vm

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/entity"
)

// instance binds the state to one run of the workflow.
type instance struct {
	state State
	loop  *entity.Loop
}

// Workflow is the VM entity. It ends when the object is gone.
func Workflow(ctx workflow.Context, in contract.EntityInput) error {
	e := &instance{state: State{Object: contract.Object{Namespace: in.Namespace, Name: in.Name}}}
	if in.Name == "" || in.Namespace == "" {
		return temporal.NewNonRetryableApplicationError("a VirtualMachine entity needs namespace and name",
			contract.ErrorInvalid, nil)
	}
	if err := entity.Decode(in.Carried, &e.state); err != nil {
		return err
	}
	e.loop = entity.NewLoop(ctx, e)
	e.state.Logic = e.loop.Logic()
	e.loop.OnTransitionClosed(e.state.openTransition, e.transitionClosed)
	entity.OnSignal(e.loop, contract.SignalObserveVM, func(o contract.VMObservation) { e.state.observeVM(o) })
	entity.OnSignal(e.loop, contract.SignalObserveVMI, func(o contract.VMIObservation) { e.state.observeVMI(o) })
	if err := e.loop.OnControls(&e.state.Manual, e.controls()...); err != nil {
		return err
	}
	e.loop.OnReports(&e.state.Manual, func() string { return e.state.Object.UID }, func(contract.RequestReport) {})
	return e.loop.Run(contract.WorkflowVM, func(carried []byte) any {
		return contract.EntityInput{Namespace: in.Namespace, Name: in.Name, Carried: carried}
	})
}

// State returns the answer to the state query.
func (e *instance) State() any { return e.state }

// Busy reports whether the run must not end; it is always false: a transition outlives the run that has opened it.
func (e *instance) Busy() bool { return false }

// Refresh updates what is derived from observations.
func (e *instance) Refresh(now time.Time) {
	if e.state.VM != nil {
		e.state.refresh(now)
	}
}

// Plan binds the planner's decision to its step.
func (e *instance) Plan(now time.Time) entity.Plan {
	return e.state.decide(now).Plan(e.state.Failure, e.act)
}

// Details returns the summary that the Temporal UI shows first.
func (e *instance) Details(p entity.Plan) string {
	s := &e.state
	var b strings.Builder
	if s.VM == nil {
		return fmt.Sprintf("VirtualMachine %s/%s has not been observed yet.", s.Object.Namespace, s.Object.Name)
	}
	fmt.Fprintf(&b, "**VirtualMachine %s/%s is %s** (run strategy %s)", s.Object.Namespace, s.Object.Name,
		s.printableStatus(), s.VM.RunStrategy)
	switch {
	case p.Finish:
		b.WriteString("\n\nIt is gone, and nothing of it is left.")
	case s.Open != nil:
		b.WriteString("\n\n" + s.Open.Text())
	case s.Ending != nil:
		b.WriteString("\n\n" + s.Ending.Text())
	default:
		b.WriteString(p.WaitText())
	}
	for _, c := range s.obstacles() {
		fmt.Fprintf(&b, "\n\nIts instance reports %s: %s.", c.Reason, strings.TrimRight(c.Message, ". "))
	}
	if s.StartFailure != nil && s.StartFailure.RetryAfter != nil {
		n, why := s.StartFailure.ConsecutiveFailCount, "in a row ended without running"
		if s.EndedOften {
			n, why = len(s.Ends), "have ended within an hour"
		}
		fmt.Fprintf(&b, "\n\n%d instances %s. Next try not before %s.", n, why,
			s.StartFailure.RetryAfter.UTC().Format(time.RFC3339))
	}
	if s.Failure != nil {
		// An existing instance is not made again.
		b.WriteString("\n\n" + s.Failure.Text(s.situation() != runstrategy.Alive))
	}
	if s.Last != nil {
		b.WriteString("\n\n" + s.Last.Text())
	}
	return b.String()
}

// setSearchAttributes updates the search attributes.
func (e *instance) setSearchAttributes(ctx workflow.Context) {
	s := &e.state
	op := ""
	switch {
	case s.Open != nil:
		op = string(s.Open.Operation)
	case s.Ending != nil:
		op = string(s.Ending.Operation)
	}
	node := ""
	if s.situation() != runstrategy.Absent {
		node = s.VMI.NodeName
	}
	// The last change, when the instance is gone, is not worth an event: the run ends with it.
	e.loop.SetSearchAttributes(ctx, []entity.Attribute{
		{Name: contract.SearchUID, Value: s.Object.UID},
		{Name: contract.SearchPhase, Value: s.printableStatus()},
		{Name: contract.SearchOperation, Value: op, Along: s.isDeleting()},
		{Name: contract.SearchActor, Value: s.requester()},
		{Name: contract.SearchNode, Value: node, Along: s.isDeleting()},
	})
}

// grace returns how long the guest may take to shut down before it is killed.
func (s *State) grace() time.Duration {
	if s.VMI == nil {
		return contract.GraceWait(nil)
	}
	return contract.GraceWait(s.VMI.GracePeriodSeconds)
}
