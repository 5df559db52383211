package vm

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// instance binds the state to one run of the workflow.
type instance struct {
	state     State
	loop      *entity.Loop
	described string
}

// Workflow is the VM entity. It ends when the object is gone.
func Workflow(ctx workflow.Context, in contract.EntityInput) error {
	e := &instance{state: State{Object: contract.Object{Namespace: in.Namespace, Name: in.Name}}}
	if in.Name == "" || in.Namespace == "" {
		return temporal.NewNonRetryableApplicationError("a VirtualMachine entity needs namespace and name", contract.ErrorInvalid, nil)
	}
	if err := entity.Decode(in.Carried, &e.state); err != nil {
		return err
	}
	if e.state.Open != nil {
		e.state.Open.Detached = true
	}
	e.loop = entity.NewLoop(ctx, e)
	e.loop.OnTransitionClosed(e.closed)
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

// State answers the state query.
func (e *instance) State() any { return e.state }

// Busy is false: a transition outlives the run that has opened it.
func (e *instance) Busy() bool { return false }

// Refresh brings what is derived from observations up to date.
func (e *instance) Refresh(now time.Time) {
	if e.state.VM != nil {
		e.state.refresh(now)
	}
}

// Plan binds the planner's decision to its step.
func (e *instance) Plan(now time.Time) entity.Plan {
	s := &e.state
	d := s.decide(now)
	p := entity.Plan{WakeAt: d.WakeAt, Waiting: d.Waiting}
	if f := s.Failure; f != nil {
		p.Trouble = f.Message
	}
	switch d.Action {
	case actNone:
	case actFinish:
		p.Finish = true
	default:
		name := string(d.Action)
		if d.Action == actOpen {
			name += ": " + string(d.Operation)
		}
		p.Step = &entity.Step{Name: name, Why: d.Why, Do: func(ctx workflow.Context) error { return e.act(ctx, d) }}
	}
	return p
}

// Details are what the Temporal UI shows first.
func (e *instance) Details(p entity.Plan) string {
	s := &e.state
	var b strings.Builder
	if s.VM == nil {
		return fmt.Sprintf("VirtualMachine %s/%s has not been seen yet.", s.Object.Namespace, s.Object.Name)
	}
	fmt.Fprintf(&b, "**VirtualMachine %s/%s is %s** (run strategy %s)", s.Object.Namespace, s.Object.Name, s.printable(), s.VM.RunStrategy)
	switch {
	case p.Finish:
		b.WriteString("\n\nIt is gone, and nothing of it is left.")
	case s.Open != nil:
		fmt.Fprintf(&b, "\n\nDoing: %s since %s because %s", s.Open.Operation, s.Open.Since.UTC().Format(time.RFC3339), s.Open.Why)
		if s.Open.Actor != "" {
			fmt.Fprintf(&b, ", asked for by %s", s.Open.Actor)
		}
		if s.Open.ApprovedBy != "" {
			fmt.Fprintf(&b, ", approved by %s (claimed)", s.Open.ApprovedBy)
		}
		fmt.Fprintf(&b, " (`%s`).", s.Open.ID)
	case p.Waiting != "":
		fmt.Fprintf(&b, "\n\nWaiting for %s.", strings.TrimRight(p.Waiting, ". "))
	}
	for _, c := range s.obstacles() {
		fmt.Fprintf(&b, "\n\nIts instance reports %s: %s.", c.Reason, strings.TrimRight(c.Message, ". "))
	}
	if s.StartFailure != nil && s.StartFailure.RetryAfter != nil {
		fmt.Fprintf(&b, "\n\n%d instances in a row ended without running. Next try not before %s.", s.StartFailure.ConsecutiveFailCount, s.StartFailure.RetryAfter.UTC().Format(time.RFC3339))
	}
	if s.Failure != nil {
		fmt.Fprintf(&b, "\n\nLast failure: %s (%d times): %s.", s.Failure.Step, s.Failure.Count, s.Failure.Message)
		if s.situation() != runstrategy.Alive { // else it is not repeated: the instance is there
			fmt.Fprintf(&b, " Next try %s.", s.Failure.RetryAt.UTC().Format(time.RFC3339))
		}
	}
	if s.Last != nil {
		fmt.Fprintf(&b, "\n\nLast transition: %s at %s", s.Last.Operation, s.Last.At.UTC().Format(time.RFC3339))
		if s.Last.Error != "" {
			fmt.Fprintf(&b, ", %s", s.Last.Error)
		}
		b.WriteString(".")
	}
	return b.String()
}

// describe keeps the search attributes current, in one event and only when something changed.
func (e *instance) describe(ctx workflow.Context) {
	s := &e.state
	op := ""
	if s.Open != nil {
		op = string(s.Open.Operation)
	}
	phase, actor := s.printable(), s.requester()
	node := ""
	if s.situation() != runstrategy.Absent {
		node = s.VMI.NodeName
	}
	now := strings.Join([]string{s.Object.UID, phase, op, actor, node}, "|")
	if now == e.described {
		return
	}
	e.described = now
	updates := []temporal.SearchAttributeUpdate{
		temporal.NewSearchAttributeKeyKeyword(contract.SearchUID).ValueSet(s.Object.UID),
		temporal.NewSearchAttributeKeyKeyword(contract.SearchPhase).ValueSet(phase),
	}
	updates = append(updates, entity.Keyword(contract.SearchOperation, op), entity.Keyword(contract.SearchActor, actor), entity.Keyword(contract.SearchNode, node))
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		workflow.GetLogger(ctx).Warn("search attributes not written", "error", err)
	}
}

func (e *instance) transitionAttributes(t Transition) temporal.SearchAttributes {
	s := &e.state
	set := []temporal.SearchAttributeUpdate{
		temporal.NewSearchAttributeKeyKeyword(contract.SearchNamespace).ValueSet(s.Object.Namespace),
		temporal.NewSearchAttributeKeyKeyword(contract.SearchName).ValueSet(s.Object.Name),
		temporal.NewSearchAttributeKeyKeyword(contract.SearchUID).ValueSet(s.Object.UID),
		temporal.NewSearchAttributeKeyKeyword(contract.SearchOperation).ValueSet(string(t.Operation)),
	}
	if t.Actor != "" {
		set = append(set, entity.Keyword(contract.SearchActor, t.Actor))
	}
	return temporal.NewSearchAttributes(set...)
}

// grace is how long the guest's end is waited for, before it is killed.
func (s *State) grace() time.Duration {
	if s.VMI == nil {
		return contract.GraceWait(nil)
	}
	return contract.GraceWait(s.VMI.GracePeriodSeconds)
}
