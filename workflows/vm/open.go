package vm

import (
	"errors"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// open starts a transition.
func (e *instance) open(ctx workflow.Context, d decision) error {
	s := &e.state
	now := workflow.Now(ctx)
	t := Transition{Reported: s.progress()}
	t.Operation, t.Why, t.Actor, t.Since, t.Deadline = d.Operation, d.Why, s.actor(), now,
		now.Add(deadline(d.Operation, s.grace()))
	in := contract.TransitionInput{
		VM: s.Object, Generation: s.VM.Generation, Why: t.Why, Actor: t.Actor, Deadline: t.Deadline,
		Paused: d.Operation != contract.OperationStop && s.startPaused(), Revision: s.Revision,
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
		return e.settle(ctx, string(d.Operation), contract.ReasonFailedCreate, err)
	}
	s.Open, s.Approved = &t, nil
	s.Opened(&t.Transition)
	return nil
}

// closed notes how the open transition went.
func (e *instance) closed(ctx workflow.Context, c contract.TransitionClosed, o entity.Outcome) {
	s := &e.state
	t := *s.Open
	s.Open = nil
	if t.Operation != contract.OperationStop && s.situation() == runstrategy.Absent {
		s.Stale = true // it may have made an instance that nobody has spoken of yet
	}
	switch {
	case c.Canceled:
		o.Error = t.Superseded()
	case c.Error == "":
		o.Error = e.done(ctx, t, c.Result)
	case c.ErrorType != contract.ErrorEnded:
		// How an instance ended shows in its own status and in the back-off; only what kept the transition from being
		// done is a failure.
		_ = e.settle(ctx, string(t.Operation), failureReason(t.Operation, c.ErrorType), entity.ClosedError(c))
	}
	s.Last = &o
	s.Closed(&t.Transition, c, o)
}

// done believes what a transition that ended well has found, and says why it has done nothing, where it was refused.
func (e *instance) done(ctx workflow.Context, t Transition, result []byte) (refused string) {
	var r contract.TransitionResult
	if err := entity.Unmarshal(result, &r); err != nil {
		workflow.GetLogger(ctx).Error("the result of a transition cannot be read", "transition", t.ID, "error", err)
	}
	if r.Refused != "" {
		if !e.state.correct(r) { // it was decided from the same
			_ = e.settle(ctx, string(t.Operation), failureReason(t.Operation, ""), errors.New(r.Refused))
		}
		return r.Refused
	}
	_ = e.settle(ctx, string(t.Operation), "", nil)
	if t.Operation == contract.OperationStop {
		// The API server has said so; the observation may be late, or never come.
		e.state.observeVMI(contract.VMIObservation{UID: t.VMI, Gone: true})
	}
	return ""
}

// correct takes in what an activity read when it refused to do what it was asked for: that is true, whatever was
// remembered. It says whether there was anything new in it.
func (s *State) correct(r contract.TransitionResult) bool {
	changed := false
	if r.VM != nil && r.VM.UID == s.Object.UID && !s.VM.Gone && r.VM.ResourceVersion != s.VM.ResourceVersion {
		s.believe(r.VM)
		changed = true
	}
	if r.VMI != nil && (s.VMI == nil || s.VMI.UID != r.VMI.UID || s.VMI.ResourceVersion != r.VMI.ResourceVersion) {
		s.readVMI(r.VMI)
		changed = true
	}
	return changed
}

// reasonDeadline is that of the Failure condition after a transition whose deadline has passed.
const reasonDeadline = "TransitionDeadlineExceeded"

// lateStopPause is how long an instance that did not go within its deadline is waited for before its end is asked for
// again. (Its end is observed all the same.)
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

// signalProgress signals the open transition how far the instance is.
func (e *instance) signalProgress(ctx workflow.Context) error {
	t := e.state.Open
	t.Reported = e.state.progress()
	progress := t.Reported
	if progress.State == contract.ProgressEnded {
		progress.Obstacle = obstacleOf(e.state.VMI)
	}
	return e.loop.SignalOpen(ctx, &t.Transition, progress)
}
