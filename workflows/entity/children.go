package entity

import (
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
)

// closeSlack is what a transition may take beyond its deadline to compensate, before the server ends it.
const closeSlack = 10 * time.Minute

// Opening is a transition to be opened.
type Opening struct {
	// ID is the workflow ID, unique among the open ones, and Type the workflow's.
	ID, Type string
	Input    any
	// Deadline is when the transition ends by itself, whatever it waits for.
	Deadline time.Time
	// Summary and Attributes are what people find it by.
	Summary    string
	Attributes temporal.SearchAttributes
}

// OpenTransition starts a transition as a child workflow and returns once it has begun. How it closes is told to closed, from a coroutine of
// its own, as long as this run goes on; the transition outlives the run (see OnTransitionClosed). An error says that it was not begun: of
// AlreadyOpen, that one of that ID is open which this entity does not know.
func (l *Loop) OpenTransition(ctx workflow.Context, o Opening, closed func(workflow.Context, contract.TransitionClosed)) error {
	cctx := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:               o.ID,
		TaskQueue:                contract.ControlTaskQueue,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		ParentClosePolicy:        enums.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:            Summary(o.Summary),
		TypedSearchAttributes:    o.Attributes,
		WorkflowExecutionTimeout: max(o.Deadline.Sub(workflow.Now(ctx)), 0) + closeSlack,
	})
	child := workflow.ExecuteChildWorkflow(cctx, o.Type, o.Input)
	if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
		return err
	}
	l.attached = o.ID
	workflow.Go(ctx, func(ctx workflow.Context) {
		var result json.RawMessage
		err := child.Get(ctx, &result)
		if l.attached == o.ID {
			l.attached = ""
		}
		closed(ctx, outcome(o.ID, result, err))
		l.Wake()
	})
	return nil
}

// AlreadyOpen says that a transition could not be opened because one of that ID is open: the entity has lost its memory of it.
func AlreadyOpen(err error) bool { return temporal.IsWorkflowExecutionAlreadyStartedError(err) }

// OnTransitionClosed hears of transitions that runs before this one have opened.
func (l *Loop) OnTransitionClosed(closed func(workflow.Context, contract.TransitionClosed)) {
	OnSignal(l, contract.SignalTransitionClosed, func(c contract.TransitionClosed) { closed(l.ctx, c) })
}

// SignalTransition tells a transition how far what it waits for is. It is false when no transition of that ID is open any more.
func SignalTransition(ctx workflow.Context, id, signal string, payload any) (open bool, err error) {
	return reached(workflow.SignalExternalWorkflow(ctx, id, "", signal, payload).Get(ctx, nil))
}

// CancelTransition asks a transition to end, and to compensate what it did. It is false when no transition of that ID is open any more.
func CancelTransition(ctx workflow.Context, id string) (open bool, err error) {
	return reached(workflow.RequestCancelExternalWorkflow(ctx, id, "").Get(ctx, nil))
}

func reached(err error) (bool, error) {
	var unknown *temporal.UnknownExternalWorkflowExecutionError
	if errors.As(err, &unknown) {
		return false, nil
	}
	return err == nil, err
}

// detach makes the transition that this run has opened report to the next one how it closes. It is false when the transition has closed
// meanwhile: then this run hears of it in a moment.
func (l *Loop) detach() bool {
	if l.attached == "" {
		return true
	}
	open, err := SignalTransition(l.ctx, l.attached, contract.SignalDetached, nil)
	return open && err == nil
}

// Reported is what the workflow of a transition returns: its result and error, which it also reports by signal when it was detached.
func Reported[R any](ctx workflow.Context, r R, err error) (R, error) {
	detached := false
	for channel := workflow.GetSignalChannel(ctx, contract.SignalDetached); channel.ReceiveAsync(nil); {
		detached = true
	}
	info := workflow.GetInfo(ctx)
	if !detached || info.ParentWorkflowExecution == nil {
		return r, err
	}
	result, failed := json.Marshal(r) //workflowcheck:ignore it sorts the keys of maps
	if failed != nil {
		return r, failed
	}
	dctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	// An entity that is gone has nothing to be told.
	_, reporting := SignalTransition(dctx, info.ParentWorkflowExecution.ID, contract.SignalTransitionClosed, outcome(info.WorkflowExecution.ID, result, err))
	if reporting != nil {
		workflow.GetLogger(ctx).Warn("the outcome was not reported", "error", reporting)
	}
	return r, err
}

func outcome(id string, result json.RawMessage, err error) contract.TransitionClosed {
	switch {
	case err == nil:
		return contract.TransitionClosed{ID: id, Result: result}
	case temporal.IsCanceledError(err):
		return contract.TransitionClosed{ID: id, Canceled: true, Error: "cancelled"}
	default:
		return contract.TransitionClosed{ID: id, Error: Message(err), ErrorType: ErrorType(err)}
	}
}

// Unknown is the outcome of a transition of which nothing was heard until long after its deadline.
func Unknown(id string) contract.TransitionClosed {
	return contract.TransitionClosed{
		ID: id, ErrorType: contract.ErrorOutcomeUnknown, Error: "nothing was heard of the transition until after its deadline: its outcome is not known",
	}
}

// UnknownAt is when the outcome of a transition with that deadline counts as unknown.
func UnknownAt(deadline time.Time) time.Time { return deadline.Add(closeSlack + time.Minute) }
