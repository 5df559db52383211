package vmi

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/entity"
)

// instance binds the state to one run of the workflow.
type instance struct {
	state       State
	loop        *entity.Loop
	cancelStart workflow.CancelFunc
	// operating means that the node worker does an operation on the guest.
	operating bool
	// pendingCalls is the number of open calls to launchers that do not block the loop.
	pendingCalls int
}

// Workflow is the VMI entity. It ends when the object and everything that belongs to it is gone.
func Workflow(ctx workflow.Context, in contract.EntityInput) error {
	e := &instance{}
	e.state.Object = contract.Object{Namespace: in.Namespace, Name: in.Name}
	if in.Name == "" || in.Namespace == "" {
		return temporal.NewNonRetryableApplicationError("a VirtualMachineInstance entity needs namespace and name",
			contract.ErrorInvalid, nil)
	}
	if err := entity.Decode(in.Carried, &e.state); err != nil {
		return err
	}
	e.loop = entity.NewLoop(ctx, e)
	e.state.Logic = e.loop.Logic()
	entity.OnSignal(e.loop, contract.SignalObserveVMI, func(o contract.VMIObservation) { e.state.observeVMI(o) })
	entity.OnSignal(e.loop, contract.SignalObservePod, func(o contract.PodObservation) { e.state.observePod(o) })
	entity.OnSignal(e.loop, contract.SignalObserveDomain, func(o contract.DomainObservation) {
		e.state.observeDomain(o)
	})
	entity.OnSignal(e.loop, contract.SignalObserveNode, func(o contract.NodeState) { e.state.observeNode(o) })
	entity.OnSignal(e.loop, contract.SignalClaim, func(c contract.MigrationClaim) {
		e.state.observeReservation(c, workflow.Now(ctx))
	})
	if err := e.loop.OnControls(&e.state.Manual, e.controls()...); err != nil {
		return err
	}
	if err := e.onOperations(ctx); err != nil {
		return err
	}
	e.loop.OnReports(&e.state.Manual, func() string { return e.state.Object.UID }, func(contract.RequestReport) {})
	return e.loop.Run(contract.WorkflowVMI, func(carried []byte) any {
		return contract.EntityInput{Namespace: in.Namespace, Name: in.Name, Carried: carried}
	})
}

// State returns the answer to the state query.
func (e *instance) State() any { return e.state }

// Busy reports whether a node worker does something for this entity.
func (e *instance) Busy() bool { return e.state.Starting || e.operating || e.pendingCalls > 0 }

// Refresh updates what is derived from observations.
func (e *instance) Refresh(now time.Time) { e.state.refresh(now) }

// Plan binds the planner's decision to its step.
func (e *instance) Plan(now time.Time) entity.Plan {
	return e.state.decide(now).Plan(e.state.Failure, e.act)
}

// Details returns the summary that the Temporal UI shows first.
func (e *instance) Details(p entity.Plan) string {
	s := &e.state
	var b strings.Builder
	phase := string(s.Phase)
	if phase == "" {
		phase = "new"
	}
	fmt.Fprintf(&b, "**VirtualMachineInstance %s/%s is %s**", s.Object.Namespace, s.Object.Name, phase)
	if s.Pod != nil && s.Pod.NodeName != "" {
		fmt.Fprintf(&b, " on %s", s.Pod.NodeName)
	}
	if p.Finish {
		b.WriteString("\n\nIt is gone, and nothing of it is left.")
		return b.String()
	}
	if where := phaseDurations(s.PhaseTimes); where != "" {
		b.WriteString("\n\n" + where)
	}
	if m := s.Migration; s.isMoving() {
		fmt.Fprintf(&b, "\n\nVirtualMachineInstanceMigration %s moves its guest to %s.", m.Migration.Name,
			m.State.TargetNode)
	}
	if s.Explanation != "" {
		fmt.Fprintf(&b, "\n\nIt ended because %s.", s.Explanation)
	}
	if c, ok := conditions.Get(s.Conditions, contract.ConditionNodeLost); ok {
		fmt.Fprintf(&b, "\n\n**Its node is lost**: %s.", c.Message)
	}
	b.WriteString(p.WaitText())
	if s.Failure != nil {
		b.WriteString("\n\n" + s.Failure.Text(true))
	}
	return b.String()
}

// setSearchAttributes updates the search attributes.
func (e *instance) setSearchAttributes(ctx workflow.Context) {
	s := &e.state
	node := ""
	if s.Pod != nil {
		node = s.Pod.NodeName
	}
	actor := ""
	if s.VMI != nil {
		actor = s.RequestedBy(s.isDeleting(), s.VMI.DeletionTimestamp, s.VMI.Actor)
	}
	e.loop.SetSearchAttributes(ctx, []entity.Attribute{
		{Name: contract.SearchUID, Value: s.Object.UID},
		{Name: contract.SearchPhase, Value: string(s.Phase)},
		{Name: contract.SearchOperation, Value: string(s.operation()), Along: true},
		{Name: contract.SearchNode, Value: node},
		{Name: contract.SearchActor, Value: actor},
	})
}

// operation returns the current operation of the entity.
func (s *State) operation() contract.Operation {
	switch {
	case s.isDeleting():
		return contract.OperationDelete
	case s.isMoving() && s.Phase == PhaseRunning:
		return contract.OperationMigrate
	case s.Phase == PhaseRunning || s.Phase.Final():
		return contract.OperationNone
	default:
		return contract.OperationCreate
	}
}
