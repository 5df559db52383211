package vm

import (
	"errors"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/entity"
)

// openTransition opens a transition.
func (e *instance) openTransition(ctx workflow.Context, d decision) error {
	s := &e.state
	now := workflow.Now(ctx)
	t := Transition{Reported: s.progress()}
	t.Operation, t.Why, t.Actor, t.Since, t.Deadline = d.Operation, d.Why, s.actor(), now,
		now.Add(deadline(d.Operation, s.grace()))
	in := contract.TransitionInput{
		VM: s.Object, Generation: s.VM.Generation, Why: t.Why, Actor: t.Actor, Deadline: t.Deadline,
		Paused: d.Operation != contract.OperationStop && s.isStartPaused(), Revision: s.Revision,
	}
	if s.Approved != nil && s.Approved.Operation == d.Operation {
		t.ApprovedBy, in.ApprovedBy = s.Approved.Actor, s.Approved.Actor
	}
	if s.situation() != runstrategy.Absent {
		t.VMI = s.VMI.UID
		in.VMI = contract.Object{Namespace: s.Object.Namespace, Name: s.Object.Name, UID: t.VMI}
	}
	err := e.loop.OpenTransition(ctx, &t.Transition, entity.Opening{
		Object: s.Object, Entity: contract.VMID(s.Object.Namespace, s.Object.Name), Count: &s.Count,
		Type: workflowOf(d.Operation), Input: in,
	})
	if err != nil {
		return e.recordResult(ctx, string(d.Operation), contract.ReasonFailedCreate, err)
	}
	s.Open, s.Approved = &t, nil
	s.RecordOpened(&t.Transition)
	return nil
}

// transitionClosed records the outcome of the open transition.
func (e *instance) transitionClosed(ctx workflow.Context, c contract.TransitionClosed, o entity.Outcome) {
	s := &e.state
	t := *s.Open
	s.Open = nil
	if t.Operation != contract.OperationStop && s.situation() == runstrategy.Absent &&
		(!isRefusal(c.ErrorType) || !s.HasChange(contract.ChangeAfterFirst)) {
		s.ReadAgain() // it may have made an instance that was not observed yet
	}
	switch {
	case c.Canceled:
		o.Error = t.SupersededText()
	case c.Error == "":
		o.Error = e.applyResult(ctx, t, c.Result)
	case c.ErrorType != contract.ErrorEnded:
		// An instance that has ended shows the reason in its own status, and leads to a back-off. Only a transition
		// that could not be done is a failure.
		_ = e.recordResult(ctx, string(t.Operation), failureReason(t.Operation, c.ErrorType), entity.ClosedError(c))
	}
	s.Last = &o
	s.RecordClosed(&t.Transition, c, o)
}

// isRefusal reports whether a transition with an error of that type has certainly made no instance: the API server
// refused it.
func isRefusal(errorType string) bool {
	return errorType == contract.ErrorForbidden || errorType == contract.ErrorInvalid
}

// applyResult folds in the result of a completed transition. It returns the reason if the transition was refused and
// did nothing.
func (e *instance) applyResult(ctx workflow.Context, t Transition, result []byte) (refused string) {
	var r contract.TransitionResult
	if err := entity.Unmarshal(result, &r); err != nil {
		workflow.GetLogger(ctx).Error("failed to decode the result of a transition", "transition", t.ID, "error", err)
	}
	if r.Refused != "" {
		if !e.state.adoptRead(r) { // nothing newer was read, so a repetition would be refused again
			_ = e.recordResult(ctx, string(t.Operation), failureReason(t.Operation, ""), errors.New(r.Refused))
		}
		return r.Refused
	}
	_ = e.recordResult(ctx, string(t.Operation), "", nil)
	if t.Operation == contract.OperationStop {
		// The API server has reported it. The observation may be late or get lost.
		e.state.observeVMI(contract.VMIObservation{UID: t.VMI, Gone: true})
	}
	return ""
}

// adoptRead folds in the objects that an activity has read when it refused a step, and reports whether they were newer
// than the known ones.
func (s *State) adoptRead(r contract.TransitionResult) bool {
	changed := false
	if r.VM != nil && r.VM.UID == s.Object.UID && !s.VM.Gone && r.VM.ResourceVersion != s.VM.ResourceVersion {
		s.setVM(r.VM)
		changed = true
	}
	if r.VMI != nil && (s.VMI == nil || s.VMI.UID != r.VMI.UID || s.VMI.ResourceVersion != r.VMI.ResourceVersion) {
		s.setReadVMI(r.VMI)
		changed = true
	}
	return changed
}

// reasonDeadline is the reason of condition Failure after a transition whose deadline has passed.
const reasonDeadline = "TransitionDeadlineExceeded"

// lateStopPause is how long to wait before the end of an instance is requested again, after it was not gone by its
// deadline. Its end is observed meanwhile.
const lateStopPause = 10 * time.Minute

func failureReason(op contract.Operation, errorType string) string {
	switch {
	case errorType == contract.ErrorDeadline:
		return reasonDeadline
	case op == contract.OperationStop:
		return contract.ReasonFailedDelete
	default:
		return contract.ReasonFailedCreate
	}
}

// signalProgress signals the instance's progress to the open transition.
func (e *instance) signalProgress(ctx workflow.Context) error {
	t := e.state.Open
	t.Reported = e.state.progress()
	progress := t.Reported
	if progress.State == contract.ProgressEnded {
		progress.Obstacle = obstacleOf(e.state.VMI)
	}
	return e.loop.SignalOpen(ctx, &t.Transition, progress)
}
