package replicaset

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// set binds the state to one run of the workflow.
type set struct {
	state State
	loop  *entity.Loop
}

// Workflow is the replica set's entity. It ends when the object is gone.
func Workflow(ctx workflow.Context, in contract.EntityInput) error {
	e := &set{state: State{Object: contract.Object{Namespace: in.Namespace, Name: in.Name}}}
	if in.Name == "" || in.Namespace == "" {
		return temporal.NewNonRetryableApplicationError("a replica set's entity needs namespace and name",
			contract.ErrorInvalid, nil)
	}
	if err := entity.Decode(in.Carried, &e.state); err != nil {
		return err
	}
	e.loop = entity.NewLoop(ctx, e)
	e.loop.OnTransitionClosed(e.state.openTransition, e.transitionClosed)
	entity.OnSignal(e.loop, contract.SignalObserveReplicaSet, func(o contract.ReplicaSetObservation) {
		e.state.observeSet(o)
	})
	entity.OnSignal(e.loop, contract.SignalObserveReplicas, func(o contract.ReplicasObservation) {
		e.state.observeReplicas(o)
	})
	if err := e.loop.OnControls(&e.state.Manual, e.controls()...); err != nil {
		return err
	}
	e.loop.OnReports(&e.state.Manual, func() string { return e.state.Object.UID }, e.state.noteScaleReport)
	return e.loop.Run(contract.WorkflowReplicaSet, func(carried []byte) any {
		return contract.EntityInput{Namespace: in.Namespace, Name: in.Name, Carried: carried}
	})
}

// State returns the answer to the state query.
func (e *set) State() any { return e.state }

// Busy reports whether the run must not end; it is always false: a transition outlives the run that has opened it.
func (e *set) Busy() bool { return false }

// Refresh updates what is derived from observations.
func (e *set) Refresh(now time.Time) {
	if e.state.Set != nil {
		e.state.dropObsoleteFailure()
		e.state.setConditions(now)
	}
}

// Plan binds the planner's decision to its step.
func (e *set) Plan(now time.Time) entity.Plan {
	return e.state.decide(now).Plan(e.state.Failure, e.act)
}

// Details returns the summary that the Temporal UI shows first.
func (e *set) Details(p entity.Plan) string {
	s := &e.state
	if s.Set == nil {
		return fmt.Sprintf("VirtualMachineInstanceReplicaSet %s/%s has not been observed yet.", s.Object.Namespace,
			s.Object.Name)
	}
	var b strings.Builder
	st := s.status()
	fmt.Fprintf(&b, "**VirtualMachineInstanceReplicaSet %s/%s: %d wanted, %d there, %d ready**", s.Object.Namespace,
		s.Object.Name, s.Set.Replicas, st.Replicas, st.ReadyReplicas)
	switch {
	case p.Finish:
		b.WriteString("\n\nIt is gone.")
	case s.Open != nil:
		b.WriteString("\n\n" + s.Open.Text())
	default:
		b.WriteString(p.WaitText())
	}
	if s.More > 0 {
		fmt.Fprintf(&b, "\n\nThere are %d more instances that it controls or might adopt: it handles %d at once, "+
			"and the others afterwards.", s.More, contract.MaxReplicasSeen)
	}
	if s.CrashLoop > 0 {
		fmt.Fprintf(&b, "\n\n%d times in a row replicas ended without having run. The next are not made before %s.",
			s.CrashLoop, s.CrashLoopUntil.UTC().Format(time.RFC3339))
	}
	if f := s.Failure; f != nil {
		b.WriteString("\n\n" + f.Text(!f.Late))
	}
	if s.Last != nil {
		b.WriteString("\n\n" + s.Last.Text())
	}
	return b.String()
}

// setSearchAttributes updates the search attributes.
func (e *set) setSearchAttributes(ctx workflow.Context) {
	s := &e.state
	if s.Set == nil {
		return
	}
	op := ""
	if s.Open != nil {
		op = string(contract.OperationReplicate)
	}
	e.loop.SetSearchAttributes(ctx, []entity.Attribute{
		{Name: contract.SearchUID, Value: s.Object.UID},
		{Name: contract.SearchPhase, Value: s.phase()},
		{Name: contract.SearchOperation, Value: op},
		{Name: contract.SearchActor, Value: s.actor()},
	})
}
