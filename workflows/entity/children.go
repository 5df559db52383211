package entity

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
)

// newIDs is how many IDs are tried for a transition: an entity without memory counts from one, and earlier transitions
// may be open.
const newIDs = 5

// Opening has what is needed to open a transition.
type Opening struct {
	// Object is the entity's, and Entity the entity's workflow ID, with which the transition's begins. Count numbers an
	// entity's transitions.
	Object contract.Object
	Entity string
	Count  *int
	// ID returns the ID of the n-th transition; nil: contract.TransitionID does.
	ID func(n int) string
	// Type is the workflow type.
	Type  string
	Input any
}

func (o Opening) id(op contract.Operation) string {
	if o.ID != nil {
		return o.ID(*o.Count)
	}
	return contract.TransitionID(o.Entity, o.Object.UID, op, *o.Count)
}

// OnTransitionClosed sets what is called when the open transition has closed, whichever run of the entity opened it,
// with the part of the outcome that all transitions have. One that is open when a run begins was opened by an earlier
// run. open returns the transition that the entity knows of; nil: none.
func (l *Loop) OnTransitionClosed(
	open func() *Transition, closed func(ctx workflow.Context, c contract.TransitionClosed, o Outcome),
) {
	if t := open(); t != nil { // the run before it has opened it
		t.Detached, t.Asked, t.Asks = true, workflow.Now(l.ctx), 0
	}
	l.onClosed = func(ctx workflow.Context, c contract.TransitionClosed) {
		l.Wake()
		if t := open(); t != nil && t.ID == c.ID { // otherwise the entity has dropped it
			closed(ctx, c, Outcome{Operation: t.Operation, ID: t.ID, Error: c.Error, At: workflow.Now(ctx)})
		}
	}
	OnSignal(l, contract.SignalTransitionClosed, func(c contract.TransitionClosed) { l.onClosed(l.ctx, c) })
}

// OpenTransition starts a transition as a child workflow and returns once it has started. A coroutine of this run waits
// for its end; the transition outlives the run. OpenTransition sets the ID of open. After an error it was not started.
func (l *Loop) OpenTransition(ctx workflow.Context, open *Transition, o Opening) error {
	for attempt := 1; ; attempt++ {
		*o.Count++
		id := o.id(open.Operation)
		cctx, cancel := workflow.WithCancel(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID:            id,
			TaskQueue:             contract.TransitionTaskQueue,
			WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_ABANDON,
			WaitForCancellation:   true, // its compensation is part of its outcome
			StaticSummary: Summary(fmt.Sprintf("%s %s: %s", open.Operation,
				strings.TrimPrefix(o.Object.Namespace+"/"+o.Object.Name, "/"), open.Why)),
			TypedSearchAttributes:    open.attributes(o.Object),
			WorkflowExecutionTimeout: open.executionTimeout(workflow.Now(ctx)),
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
				if l.attached == id { // a detached one may have closed before, and another may be open
					l.attached, l.cancelAttached = "", nil
				}
				l.onClosed(ctx, newTransitionClosed(id, result, err))
			})
			return nil
		}
		cancel()
		if !temporal.IsWorkflowExecutionAlreadyStartedError(err) || attempt == newIDs {
			return err
		}
	}
}

// SignalOpen signals progress to the open transition.
func (l *Loop) SignalOpen(ctx workflow.Context, open *Transition, progress any) error {
	if l.attached == open.ID && signalLocally(ctx, open.ID, contract.SignalProgress, progress) == nil {
		return nil // where it has closed meanwhile, the server reports its outcome
	}
	there, err := SignalOther(ctx, open.ID, contract.SignalProgress, progress)
	l.closeMissing(ctx, open, there, err)
	return err
}

// signalLocally signals a workflow within this workflow task. As a command, the signal would take effect at the task's
// end, and cost another task.
func signalLocally(ctx workflow.Context, id, signal string, payload any) error {
	data, err := json.Marshal(payload) //workflowcheck:ignore it sorts the keys of maps
	if err != nil {
		return err
	}
	_, err = callLocally[any](ctx, contract.ActivitySignal, "signal "+signal+" to "+id,
		contract.SignalInput{ID: id, Signal: signal, Payload: data})
	return err
}

// CancelOpen asks the open transition to end and to compensate.
func (l *Loop) CancelOpen(ctx workflow.Context, open *Transition) error {
	open.Cancelled = true
	if l.attached == open.ID {
		l.cancelAttached()
		return nil
	}
	there, err := WasReceived(workflow.RequestCancelExternalWorkflow(ctx, open.ID, "").Get(ctx, nil))
	l.closeMissing(ctx, open, there, err)
	return err
}

// AskOpen finds out whether a detached transition is still open, by a signal that the transition ignores.
func (l *Loop) AskOpen(ctx workflow.Context, open *Transition) error {
	open.Asked, open.Asks = workflow.Now(ctx), open.Asks+1
	there, err := SignalOther(ctx, open.ID, contract.SignalDetached, nil)
	l.closeMissing(ctx, open, there, err)
	return err
}

// closeMissing closes a detached transition that does not exist because it was terminated. The server reports the end
// of an attached one.
func (l *Loop) closeMissing(ctx workflow.Context, open *Transition, there bool, err error) {
	if err != nil || there || !open.Detached {
		return
	}
	l.foldSignals() // its report, if it sent one before it closed, has arrived
	l.onClosed(ctx, contract.TransitionClosed{
		ID: open.ID, ErrorType: contract.ErrorOutcomeUnknown,
		Error: "the transition is not open any more, and has not reported: it was terminated, and its outcome is " +
			"not known",
	})
}

// SignalOther signals the workflow of that ID: a transition, or another entity. open is false when no open workflow has
// the ID.
func SignalOther(ctx workflow.Context, id, signal string, payload any) (open bool, err error) {
	return WasReceived(workflow.SignalExternalWorkflow(ctx, id, "", signal, payload).Get(ctx, nil))
}

// WasReceived returns, for the error of a signal or a cancellation, whether an open workflow has received it.
func WasReceived(err error) (bool, error) {
	var unknown *temporal.UnknownExternalWorkflowExecutionError
	if errors.As(err, &unknown) {
		return false, nil
	}
	return err == nil, err
}

// detachTransition makes the transition that this run has opened report its outcome to the next run, and reports
// whether it is still open: the outcome of one that has closed reaches this run in a moment.
func (l *Loop) detachTransition() bool {
	if l.attached == "" {
		return true
	}
	open, err := SignalOther(l.ctx, l.attached, contract.SignalDetached, nil)
	return open && err == nil
}

// ReportOutcome returns what a transition's workflow returns, its result and error, and sends it to the entity by
// signal if the transition is detached.
func ReportOutcome[R any](ctx workflow.Context, r R, err error) (R, error) {
	detached := false
	for channel := workflow.GetSignalChannel(ctx, contract.SignalDetached); channel.ReceiveAsync(nil); {
		detached = true
	}
	return ReportOutcomeIf(ctx, detached, r, err)
}

// ReportOutcomeIf is ReportOutcome for a transition of several runs, which keeps in its state whether it is detached.
func ReportOutcomeIf[R any](ctx workflow.Context, detached bool, r R, err error) (R, error) {
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
	// An entity that is gone needs no report.
	_, reporting := SignalOther(dctx, info.ParentWorkflowExecution.ID, contract.SignalTransitionClosed,
		newTransitionClosed(info.WorkflowExecution.ID, result, err))
	if reporting != nil {
		workflow.GetLogger(ctx).Warn("failed to report the outcome", "error", reporting)
	}
	return r, err
}

// newTransitionClosed returns the report of a transition with that workflow ID, from what its workflow returns.
func newTransitionClosed(id string, result json.RawMessage, err error) contract.TransitionClosed {
	switch {
	case err == nil:
		return contract.TransitionClosed{ID: id, Result: result}
	case temporal.IsCanceledError(err):
		return contract.TransitionClosed{ID: id, Canceled: true, Error: "cancelled"}
	default:
		return contract.TransitionClosed{ID: id, Error: Message(err), ErrorType: ErrorType(err)}
	}
}

// ClosedError returns why a transition failed.
func ClosedError(c contract.TransitionClosed) error {
	return temporal.NewNonRetryableApplicationError(c.Error, c.ErrorType, nil)
}
