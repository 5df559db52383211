package entity

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
)

// newIDs is how many IDs are tried for a transition: an entity that has lost its memory counts anew, and earlier ones
// may be open.
const newIDs = 5

// Opening is how a transition is opened.
type Opening struct {
	// Object is whose it is, and Entity the workflow ID of that one's entity, with which its own begins. Count numbers
	// an entity's transitions.
	Object contract.Object
	Entity string
	Count  *int
	// ID is that of the n-th transition; nil: contract.TransitionID.
	ID func(n int) string
	// Type is the workflow's.
	Type  string
	Input any
}

func (o Opening) id(op contract.Operation) string {
	if o.ID != nil {
		return o.ID(*o.Count)
	}
	return contract.TransitionID(o.Entity, o.Object.UID, op, *o.Count)
}

// OnTransitionClosed says what is done when the open transition has closed, whichever run of the entity has opened it:
// o is how it went, as far as that is alike for all. One that is open when a run begins was opened by a run before it.
// open is the one that the entity knows of; nil: none.
func (l *Loop) OnTransitionClosed(
	open func() *Transition, closed func(ctx workflow.Context, c contract.TransitionClosed, o Outcome),
) {
	if t := open(); t != nil { // the run before has reached it just now
		t.Detached, t.Asked, t.Asks = true, workflow.Now(l.ctx), 0
	}
	l.closed = func(ctx workflow.Context, c contract.TransitionClosed) {
		l.Wake()
		if t := open(); t != nil && t.ID == c.ID { // else the entity does not know it any more
			closed(ctx, c, Outcome{Operation: t.Operation, ID: t.ID, Error: c.Error, At: workflow.Now(ctx)})
		}
	}
	OnSignal(l, contract.SignalTransitionClosed, func(c contract.TransitionClosed) { l.closed(l.ctx, c) })
}

// OpenTransition starts a transition as a child workflow and returns once it has begun. As long as this run goes on it
// hears how it closes, from a coroutine of its own; the transition outlives the run. open gets its ID. An error says
// that it was not begun.
func (l *Loop) OpenTransition(ctx workflow.Context, open *Transition, o Opening) error {
	for attempt := 1; ; attempt++ {
		*o.Count++
		id := o.id(open.Operation)
		cctx, cancel := workflow.WithCancel(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID:            id,
			TaskQueue:             contract.TransitionTaskQueue,
			WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_ABANDON,
			WaitForCancellation:   true, // how it compensates is a part of how it closes
			StaticSummary: Summary(fmt.Sprintf("%s %s: %s", open.Operation,
				strings.TrimPrefix(o.Object.Namespace+"/"+o.Object.Name, "/"), open.Why)),
			TypedSearchAttributes:    open.attributes(o.Object),
			WorkflowExecutionTimeout: open.limit(workflow.Now(ctx)),
			Priority: temporal.Priority{
				PriorityKey: contract.PriorityKey(o.Object.Namespace),
				FairnessKey: contract.FairnessKey(o.Object.Namespace, o.Type),
			},
		}))
		child := workflow.ExecuteChildWorkflow(cctx, o.Type, o.Input)
		err := child.GetChildWorkflowExecution().Get(ctx, nil)
		if err == nil {
			open.ID = id
			l.attached, l.cancelAttached = id, cancel
			workflow.Go(ctx, func(ctx workflow.Context) {
				var result json.RawMessage
				err := child.Get(ctx, &result)
				if l.attached == id { // a detached one may have reported before, and another be open
					l.attached, l.cancelAttached = "", nil
				}
				l.closed(ctx, outcome(id, result, err))
			})
			return nil
		}
		cancel()
		if !temporal.IsWorkflowExecutionAlreadyStartedError(err) || attempt == newIDs {
			return err
		}
	}
}

// SignalOpen signals the open transition how far what it waits for is.
func (l *Loop) SignalOpen(ctx workflow.Context, open *Transition, progress any) error {
	if l.attached == open.ID && signalLocally(ctx, open.ID, contract.SignalProgress, progress) == nil {
		return nil // where it has closed meanwhile, the server says how
	}
	there, err := SignalOther(ctx, open.ID, contract.SignalProgress, progress)
	l.missing(ctx, open, there, err)
	return err
}

// signalLocally signals a workflow within this workflow task. As a command, the signal would take effect with the end
// of the task, and cost another one.
func signalLocally(ctx workflow.Context, id, signal string, payload any) error {
	data, err := json.Marshal(payload) //workflowcheck:ignore it sorts the keys of maps
	if err != nil {
		return err
	}
	_, err = callLocally[any](ctx, contract.ActivitySignal, "signal "+signal+" to "+id,
		contract.SignalInput{ID: id, Signal: signal, Payload: data})
	return err
}

// CancelOpen asks the open transition to end, and to compensate what it did.
func (l *Loop) CancelOpen(ctx workflow.Context, open *Transition) error {
	open.Cancelled = true
	if l.attached == open.ID {
		l.cancelAttached()
		return nil
	}
	there, err := Reached(workflow.RequestCancelExternalWorkflow(ctx, open.ID, "").Get(ctx, nil))
	l.missing(ctx, open, there, err)
	return err
}

// AskOpen finds out whether a detached transition is still open, by a signal that it ignores.
func (l *Loop) AskOpen(ctx workflow.Context, open *Transition) error {
	open.Asked, open.Asks = workflow.Now(ctx), open.Asks+1
	there, err := SignalOther(ctx, open.ID, contract.SignalDetached, nil)
	l.missing(ctx, open, there, err)
	return err
}

// missing closes a detached transition that is not there: somebody has terminated it. How an attached one closed the
// server says.
func (l *Loop) missing(ctx workflow.Context, open *Transition, there bool, err error) {
	if err != nil || there || !open.Detached {
		return
	}
	l.drain() // what it reported before it closed has arrived
	l.closed(ctx, contract.TransitionClosed{
		ID: open.ID, ErrorType: contract.ErrorOutcomeUnknown,
		Error: "the transition is not open any more, and has not reported: it was terminated, and its outcome is " +
			"not known",
	})
}

// SignalOther signals the workflow of that ID: a transition, or another entity. It is false when none of that ID is
// open.
func SignalOther(ctx workflow.Context, id, signal string, payload any) (open bool, err error) {
	return Reached(workflow.SignalExternalWorkflow(ctx, id, "", signal, payload).Get(ctx, nil))
}

// Reached says, by the error of a signal or a cancellation, whether there is an open workflow that got it.
func Reached(err error) (bool, error) {
	var unknown *temporal.UnknownExternalWorkflowExecutionError
	if errors.As(err, &unknown) {
		return false, nil
	}
	return err == nil, err
}

// detach makes the transition that this run has opened report to the next one how it closes. It is false when the
// transition has closed meanwhile: then this run hears of it in a moment.
func (l *Loop) detach() bool {
	if l.attached == "" {
		return true
	}
	open, err := SignalOther(l.ctx, l.attached, contract.SignalDetached, nil)
	return open && err == nil
}

// Reported is what the workflow of a transition returns: its result and error, which it also reports by signal when it
// was detached.
func Reported[R any](ctx workflow.Context, r R, err error) (R, error) {
	detached := false
	for channel := workflow.GetSignalChannel(ctx, contract.SignalDetached); channel.ReceiveAsync(nil); {
		detached = true
	}
	return ReportedTo(ctx, detached, r, err)
}

// ReportedTo is Reported for a transition of several runs, which has kept in its state whether it was detached.
func ReportedTo[R any](ctx workflow.Context, detached bool, r R, err error) (R, error) {
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
	_, reporting := SignalOther(dctx, info.ParentWorkflowExecution.ID, contract.SignalTransitionClosed,
		outcome(info.WorkflowExecution.ID, result, err))
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

// ClosedError is why a transition failed.
func ClosedError(c contract.TransitionClosed) error {
	return temporal.NewNonRetryableApplicationError(c.Error, c.ErrorType, nil)
}
