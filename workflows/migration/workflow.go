package migration

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

// migration binds the state to one run of the workflow.
type migration struct {
	state State
	loop  *entity.Loop
}

// Workflow runs a migration's entity. It ends when the migration has, and only the object itself is left.
func Workflow(ctx workflow.Context, in contract.EntityInput) (contract.MigrationSummary, error) {
	var none contract.MigrationSummary
	e := &migration{state: State{Object: contract.Object{Namespace: in.Namespace, Name: in.Name}}}
	if in.Name == "" || in.Namespace == "" {
		return none, temporal.NewNonRetryableApplicationError("a migration's entity needs namespace and name",
			contract.ErrorInvalid, nil)
	}
	if err := entity.Decode(in.Carried, &e.state); err != nil {
		return none, err
	}
	e.loop = entity.NewLoop(ctx, e)
	e.state.Logic = e.loop.Logic()
	entity.OnSignal(e.loop, contract.SignalObserveMigration, func(o contract.MigrationObservation) {
		e.state.observeMigration(o, workflow.Now(ctx))
	})
	entity.OnSignal(e.loop, contract.SignalObservePod, func(o contract.PodObservation) { e.state.observePod(o) })
	entity.OnSignal(e.loop, contract.SignalObserveNode, func(o contract.NodeState) { e.state.observeNode(o) })
	entity.OnSignal(e.loop, contract.SignalObserveClaim, func(o contract.ClaimObservation) { e.state.observeClaim(o) })
	entity.OnSignal(e.loop, contract.SignalObserveAdmission, func(o contract.AdmissionObservation) {
		e.state.observeAdmission(o)
	})
	if err := e.loop.OnControls(&e.state.Manual, e.controls()...); err != nil {
		return none, err
	}
	e.loop.OnReports(&e.state.Manual, func() string { return e.state.Object.UID }, func(contract.RequestReport) {})
	err := e.loop.Run(contract.WorkflowMigration, func(carried []byte) any {
		return contract.EntityInput{Namespace: in.Namespace, Name: in.Name, Carried: carried}
	})
	if err != nil {
		return none, err
	}
	return e.state.summary(), nil
}

// State returns the state, for the query.
func (e *migration) State() any { return e.state }

// Busy reports whether a step runs on a node.
func (e *migration) Busy() bool { return len(e.state.Open) > 0 }

// Refresh brings what is derived from observations up to date.
func (e *migration) Refresh(now time.Time) { e.state.refresh(now) }

// Plan binds the planner's decision to its step.
func (e *migration) Plan(now time.Time) entity.Plan {
	return e.state.decide(now).Plan(e.state.Failure, e.act)
}

// Details returns what the Temporal UI shows first.
func (e *migration) Details(p entity.Plan) string {
	s := &e.state
	if s.VMIM == nil {
		return fmt.Sprintf("VirtualMachineInstanceMigration %s/%s has not been seen yet.", s.Object.Namespace,
			s.Object.Name)
	}
	var b strings.Builder
	phase := string(s.Phase)
	if phase == "" {
		phase = "new"
	}
	fmt.Fprintf(&b, "**VirtualMachineInstanceMigration %s/%s of instance %s is %s**", s.Object.Namespace, s.Object.Name,
		s.VMI.Name, phase)
	if s.Source.nodeName() != "" {
		fmt.Fprintf(&b, "\n\nFrom %s", s.Source.nodeName())
		if s.Target.nodeName() != "" {
			fmt.Fprintf(&b, " to %s", s.Target.nodeName())
		}
		b.WriteString(".")
	}
	for _, kind := range []string{
		ConditionOutcomeUnknown, contract.ConditionNodeLost, ConditionQueued, ConditionQuota,
	} {
		if c, ok := conditions.Get(s.Conditions, kind); ok {
			fmt.Fprintf(&b, "\n\n**%s**: %s.", c.Type, strings.TrimRight(c.Message, ". "))
		}
	}
	if s.Phase == PhaseRunning && s.Progress.Total > 0 {
		fmt.Fprintf(&b, "\n\n%s.", s.Progress.Text())
	}
	if s.Phase == PhaseFailed {
		fmt.Fprintf(&b, "\n\nIt failed: %s.", strings.TrimRight(s.reason(), ". "))
	}
	if o := s.Outcome; s.Phase == PhaseSucceeded && o != nil && o.Stats.TotalMs > 0 {
		fmt.Fprintf(&b, "\n\nIt took %d ms, of which the guest was paused for %d ms.", o.Stats.TotalMs,
			o.Stats.DowntimeMs)
	}
	b.WriteString(p.WaitText())
	if s.Failure != nil {
		b.WriteString("\n\n" + s.Failure.Text(true))
	}
	return b.String()
}

// setSearchAttributes keeps the search attributes current.
func (e *migration) setSearchAttributes(ctx workflow.Context) {
	s := &e.state
	if s.VMIM == nil {
		return
	}
	op := contract.OperationMigrate
	if s.Phase.Final() {
		op = contract.OperationNone
	}
	actor := s.RequestedBy(s.isDeleting(), s.VMIM.DeletionTimestamp, s.VMIM.Actor)
	e.loop.SetSearchAttributes(ctx, []entity.Attribute{
		{Name: contract.SearchUID, Value: s.Object.UID},
		{Name: contract.SearchPhase, Value: string(s.Phase)},
		{Name: contract.SearchOperation, Value: string(op), Along: true},
		{Name: contract.SearchNode, Value: s.Source.nodeName(), Along: true},
		{Name: contract.SearchActor, Value: actor},
	})
}
