package replicaset

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
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
	e.loop.OnTransitionClosed(e.state.open, e.closed)
	entity.OnSignal(e.loop, contract.SignalObserveReplicaSet, func(o contract.ReplicaSetObservation) {
		e.state.observeSet(o)
	})
	entity.OnSignal(e.loop, contract.SignalObserveReplicas, func(o contract.ReplicasObservation) {
		e.state.observeReplicas(o)
	})
	if err := e.loop.OnControls(&e.state.Manual, e.controls()...); err != nil {
		return err
	}
	e.loop.OnReports(&e.state.Manual, func() string { return e.state.Object.UID }, e.state.scaling)
	return e.loop.Run(contract.WorkflowReplicaSet, func(carried []byte) any {
		return contract.EntityInput{Namespace: in.Namespace, Name: in.Name, Carried: carried}
	})
}

// State answers the state query.
func (e *set) State() any { return e.state }

// Busy is false: a transition outlives the run that has opened it.
func (e *set) Busy() bool { return false }

// Refresh brings what is derived from observations up to date.
func (e *set) Refresh(now time.Time) {
	if e.state.Set != nil {
		e.state.forgetFailure()
		e.state.setConditions(now)
	}
}

// Plan binds the planner's decision to its step.
func (e *set) Plan(now time.Time) entity.Plan {
	return e.state.decide(now).Plan(e.state.Failure, e.act)
}

// Details are what the Temporal UI shows first.
func (e *set) Details(p entity.Plan) string {
	s := &e.state
	if s.Set == nil {
		return fmt.Sprintf("VirtualMachineInstanceReplicaSet %s/%s has not been seen yet.", s.Object.Namespace,
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
		b.WriteString("\n\n" + s.Open.Doing())
	case p.Waiting != "":
		fmt.Fprintf(&b, "\n\nWaiting for %s.", p.Waiting)
	}
	if s.More > 0 {
		fmt.Fprintf(&b, "\n\nThere are %d more instances that it controls or might adopt: it looks at %d at once, "+
			"and at the others afterwards.", s.More, contract.MaxReplicasSeen)
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

// describe keeps the search attributes current.
func (e *set) describe(ctx workflow.Context) {
	s := &e.state
	if s.Set == nil {
		return
	}
	op := ""
	if s.Open != nil {
		op = string(contract.OperationReplicate)
	}
	e.loop.Describe(ctx, []entity.Attribute{
		{Name: contract.SearchUID, Value: s.Object.UID},
		{Name: contract.SearchPhase, Value: s.phase()},
		{Name: contract.SearchOperation, Value: op},
		{Name: contract.SearchActor, Value: s.actor()},
	})
}
