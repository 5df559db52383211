package vm

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// deadline is how long a transition may take.
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

// workflowOf is the workflow type of a transition.
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
	in    contract.TransitionInput
	limit time.Duration // from the opening to the deadline
	stays bool          // the instance was taken from its VM before it could be deleted
}

func newTransition(ctx workflow.Context, in contract.TransitionInput) *transition {
	r := entity.Record{Why: in.Why, Actor: in.Actor, ApprovedBy: in.ApprovedBy}
	return &transition{Child: entity.NewChild[contract.InstanceProgress](ctx, r, nil), in: in,
		limit: in.Deadline.Sub(workflow.GetInfo(ctx).WorkflowStartTime)}
}

func (t *transition) say(ctx workflow.Context, format string, args ...any) {
	t.Say(ctx, fmt.Sprintf(format, args...))
}

// begin has the time of a transition count from now: what waited in virtflow's own queues until now had not begun.
func (t *transition) begin(ctx workflow.Context, limit time.Duration) {
	if until := workflow.Now(ctx).Add(limit); until.After(t.in.Deadline) {
		t.in.Deadline = until
	}
}

func (t *transition) left(ctx workflow.Context) time.Duration {
	return max(t.in.Deadline.Sub(workflow.Now(ctx)), time.Millisecond)
}

// refusal ends a transition that what is true now does not ask for.
type refusal struct{ contract.TransitionResult }

func (r refusal) Error() string { return r.Refused }

// ended is the outcome of a transition that goes no further. A refusal is a result, which tells the entity what to plan
// from.
func ended(err error) (contract.TransitionResult, error) {
	var r refusal
	if errors.As(err, &r) {
		return r.TransitionResult, nil
	}
	return contract.TransitionResult{}, err
}

func (t *transition) refused(
	ctx workflow.Context, why string, vm *contract.VMObservation, vmi *contract.VMIObservation,
) error {
	t.say(ctx, "Nothing was done: %s.", why)
	return refusal{contract.TransitionResult{Summary: "Nothing was done: " + why + ".", Refused: why, VM: vm, VMI: vmi}}
}

// maker names the transition, which the instance that it makes keeps. Its workflow ID alone may have been another's: an
// entity without memory counts anew.
func maker(ctx workflow.Context) string {
	e := workflow.GetInfo(ctx).WorkflowExecution
	return e.ID + "@" + e.RunID
}
