package vm

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// deadline returns how long a transition may take.
func deadline(op contract.Operation, grace time.Duration) time.Duration {
	switch op {
	case contract.OperationStop:
		return grace + entity.StopSlack
	case contract.OperationRestart:
		return grace + entity.StopSlack + entity.StartTime
	default:
		return entity.StartTime
	}
}

// workflowOf returns the workflow type of a transition.
func workflowOf(op contract.Operation) string {
	switch op {
	case contract.OperationStop:
		return contract.WorkflowStopVM
	case contract.OperationRestart:
		return contract.WorkflowRestartVM
	default:
		return contract.WorkflowStartVM
	}
}

// transition is one run of Start, Stop or Restart.
type transition struct {
	*entity.Child[contract.InstanceProgress]
	in       contract.TransitionInput
	limit    time.Duration // from the opening to the deadline
	released bool          // the instance was released from its VM before it could be deleted
}

func newTransition(ctx workflow.Context, in contract.TransitionInput) *transition {
	r := entity.Record{Why: in.Why, Actor: in.Actor, ApprovedBy: in.ApprovedBy}
	return &transition{Child: entity.NewChild[contract.InstanceProgress](ctx, r, nil), in: in,
		limit: in.Deadline.Sub(workflow.GetInfo(ctx).WorkflowStartTime)}
}

func (t *transition) setDetails(ctx workflow.Context, format string, args ...any) {
	t.SetDetails(ctx, fmt.Sprintf(format, args...))
}

// extendDeadline makes the transition's time count from now: waiting in virtflow's own queues does not use it up.
func (t *transition) extendDeadline(ctx workflow.Context, limit time.Duration) {
	if until := workflow.Now(ctx).Add(limit); until.After(t.in.Deadline) {
		t.in.Deadline = until
	}
}

func (t *transition) remaining(ctx workflow.Context) time.Duration {
	return max(t.in.Deadline.Sub(workflow.Now(ctx)), time.Millisecond)
}

// refusal is the error of a transition that the current state does not ask for.
type refusal struct{ contract.TransitionResult }

func (r refusal) Error() string { return r.Refused }

// resultOf returns the result of a transition that ends with an error. A refusal is a result: the entity decides from
// it.
func resultOf(err error) (contract.TransitionResult, error) {
	var r refusal
	if errors.As(err, &r) {
		return r.TransitionResult, nil
	}
	return contract.TransitionResult{}, err
}

func (t *transition) refuse(
	ctx workflow.Context, why string, vm *contract.VMObservation, vmi *contract.VMIObservation,
) error {
	t.setDetails(ctx, "Nothing was done: %s.", why)
	return refusal{contract.TransitionResult{Summary: "Nothing was done: " + why + ".", Refused: why, VM: vm, VMI: vmi}}
}

// transitionRef returns the ID of this run, which the instance that it makes keeps. The workflow ID alone is not
// unique: an entity that has lost its history counts from the start again.
func transitionRef(ctx workflow.Context) string {
	e := workflow.GetInfo(ctx).WorkflowExecution
	return e.ID + "@" + e.RunID
}
