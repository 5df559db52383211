package vm

import (
	"errors"
	"maps"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// act does one step.
func (e *instance) act(ctx workflow.Context, d decision) error {
	switch d.Action {
	case actNext:
		e.state = e.state.next()
		e.describe(ctx)
		return nil
	case actFinalizer:
		with := append(append([]string{}, e.state.VM.Finalizers...), contract.FinalizerVM)
		return e.patch(ctx, d.Action, contract.PatchVMInput{Finalizers: &with})
	case actRemoveFinalizer:
		without := entity.Without(e.state.VM.Finalizers, contract.FinalizerVM)
		return e.patch(ctx, d.Action, contract.PatchVMInput{Finalizers: &without})
	case actSetAlways:
		return e.patch(ctx, d.Action, contract.PatchVMInput{
			RunStrategy: string(runstrategy.Always), LegacyRunning: e.state.VM.LegacyRunning, Actor: e.state.actor(),
		})
	case actWrite:
		status := e.state.status()
		return e.patch(ctx, d.Action, contract.PatchVMInput{Status: &status})
	case actRerun:
		status := e.state.status()
		status.StateChangeRequests = append(slices.Clone(status.StateChangeRequests), contract.StateChangeRequest{Action: "Start"})
		return e.patch(ctx, d.Action, contract.PatchVMInput{Status: &status})
	case actSync:
		return e.sync(ctx)
	case actOpen:
		return e.open(ctx, d)
	case actCancel:
		e.state.Open.Cancelled = true
		e.cancelOpen()
		return nil
	case actSignal:
		return e.signalProgress(ctx)
	case actNone, actFinish:
	}
	return nil
}

// patch writes to the VM, locked by what was seen last.
func (e *instance) patch(ctx workflow.Context, a action, in contract.PatchVMInput) error {
	s := &e.state
	in.VM, in.ResourceVersion = s.Object, s.VM.ResourceVersion
	if in.Status != nil {
		in.KeepRequests = slices.EqualFunc(in.Status.StateChangeRequests, s.VM.StateChangeRequests, sameRequest)
		in.MoreRequests = s.VM.MoreRequests
	}
	what := string(a)
	if in.Status != nil {
		what += ": " + in.Status.PrintableStatus
	}
	r, err := entity.Call[contract.PatchVMResult](ctx, contract.ActivityPatchVM, what, in)
	if err != nil {
		s.OutcomeUnknown = s.OutcomeUnknown || in.Status != nil
		return e.failed(ctx, string(a), "FailedUpdateError", err)
	}
	if r.Gone {
		s.VM = entity.Gone(s.VM)
	}
	if r.Written {
		if in.Status != nil {
			s.Written, s.OutcomeUnknown = in.Status, false
			s.Terminating = s.deleting()
			s.VM.StateChangeRequests = in.Status.StateChangeRequests
		}
		if in.Finalizers != nil {
			s.VM.Finalizers = *in.Finalizers
		}
	}
	if r.Conflict && in.Status != nil {
		s.OutcomeUnknown = true // what it met may be its own first attempt, whose answer was lost
	}
	if r.Conflict {
		if err := s.met(r.Current); err != nil {
			err = e.failed(ctx, string(a), "FailedUpdateError", err)
			s.Failure.Conflict = true
			return err
		}
	} else if r.Current != nil {
		s.observeVM(*r.Current)
	}
	if r.Written {
		s.Conflicts = 0
		if s.Failure != nil && s.Failure.Conflict {
			s.Failure = nil
		}
	}
	e.succeeded(string(a))
	e.describe(ctx)
	return nil
}

// met takes in what a write met instead of the version that it was made for: the VM as it is now, whatever its version. An error says
// that there was nothing new in it once more: the same write would meet the same.
func (s *State) met(now *contract.VMObservation) error {
	was := s.VM.ResourceVersion
	if now != nil && now.UID == s.Object.UID && !s.VM.Gone {
		s.believe(now)
	} else if now != nil {
		s.observeVM(*now)
	}
	return s.Conflicts.Met(s.VM.Gone || s.VM.ResourceVersion != was, "VirtualMachine", was)
}

// open starts a transition as a child workflow and follows it from a coroutine of its own.
func (e *instance) open(ctx workflow.Context, d decision) error {
	s := &e.state
	s.Count++
	now := workflow.Now(ctx)
	t := Transition{
		Operation: d.Operation, Why: d.Why, Actor: s.actor(), Since: now, Reported: s.progress(),
		ID: contract.TransitionID(contract.VMID(s.Object.Namespace, s.Object.Name), s.Object.UID, d.Operation, s.Count),
	}
	in := contract.TransitionInput{
		VM: s.Object, Generation: s.VM.Generation, Why: t.Why, Actor: t.Actor, Deadline: now.Add(deadline(d.Operation, s.grace())),
		Paused: d.Operation != contract.OperationStop && s.startPaused(), Revision: s.Revision,
	}
	if s.Approved != nil && s.Approved.Operation == d.Operation {
		t.ApprovedBy, in.ApprovedBy = s.Approved.Actor, s.Approved.Actor
	}
	if s.situation() != runstrategy.Absent {
		t.VMI = s.VMI.UID
		in.VMI = contract.Object{Namespace: s.Object.Namespace, Name: s.Object.Name, UID: t.VMI}
	}
	cctx, cancel := workflow.WithCancel(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:               t.ID,
		TaskQueue:                contract.ControlTaskQueue,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		ParentClosePolicy:        enums.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		WaitForCancellation:      true,
		StaticSummary:            entity.Summary(string(d.Operation) + " " + s.Object.Namespace + "/" + s.Object.Name + ": " + d.Why),
		TypedSearchAttributes:    e.transitionAttributes(t),
		WorkflowExecutionTimeout: deadline(d.Operation, s.grace()) + 10*time.Minute,
	}))
	child := workflow.ExecuteChildWorkflow(cctx, workflowOf(d.Operation), in)
	if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
		cancel()
		return e.failed(ctx, string(d.Operation), "FailedCreate", err)
	}
	s.Open, s.Approved = &t, nil
	s.Record(t.record(s.Attempts(t.Operation)))
	e.cancelOpen = cancel
	e.child = child
	workflow.Go(ctx, func(ctx workflow.Context) {
		var r contract.TransitionResult
		err := child.Get(ctx, &r)
		e.closed(ctx, t, r, err)
	})
	return nil
}

// closed notes how the open transition went.
func (e *instance) closed(ctx workflow.Context, t Transition, result contract.TransitionResult, err error) {
	s := &e.state
	o := Outcome{Operation: t.Operation, ID: t.ID, At: workflow.Now(ctx)}
	person := ""
	if s.Open != nil {
		person = s.Open.CancelReason
	}
	s.Open, e.child, e.cancelOpen = nil, nil, nil
	switch {
	case err == nil && result.Refused != "":
		o.Error = result.Refused
		if !s.correct(result) { // it was decided from the same
			_ = e.failed(ctx, string(t.Operation), failureReason(t.Operation, nil), errors.New(result.Refused))
		}
	case err == nil:
		e.succeeded(string(t.Operation))
		if t.Operation == contract.OperationStop {
			// The API server has said so; the observation may be late, or never come.
			s.observeVMI(contract.VMIObservation{UID: t.VMI, Gone: true})
		}
	case temporal.IsCanceledError(err):
		o.Error = "superseded by a newer desired state"
		if person != "" {
			o.Error = person
		}
	default:
		o.Error = entity.Message(err)
		if entity.ErrorType(err) != contract.ErrorEnded {
			// How an instance ended shows in its own status and in the back-off; only what kept the transition from being done is a failure.
			_ = e.failed(ctx, string(t.Operation), failureReason(t.Operation, err), err)
		}
	}
	s.Last = &o
	r := t.record(s.Attempts(t.Operation))
	r.Until, r.Outcome = o.At, entity.OutcomeDone
	if o.Error != "" {
		r.Outcome = o.Error
	}
	s.Record(r)
	e.loop.Wake()
}

// correct takes in what an activity read when it refused to do what it was asked for: that is true, whatever was remembered. It says whether there
// was anything new in it.
func (s *State) correct(r contract.TransitionResult) bool {
	changed := false
	if r.VM != nil && r.VM.UID == s.Object.UID && !s.VM.Gone && r.VM.ResourceVersion != s.VM.ResourceVersion {
		s.believe(r.VM)
		changed = true
	}
	if r.VMI != nil && (s.VMI == nil || s.VMI.UID != r.VMI.UID || s.VMI.ResourceVersion != r.VMI.ResourceVersion) {
		s.VMI = r.VMI
		changed = true
	}
	return changed
}

// record is a transition as the history query answers it while it is open.
func (t Transition) record(attempts int) contract.OperationRecord {
	return contract.OperationRecord{Operation: t.Operation, ID: t.ID, Why: t.Why, Actor: t.Actor, ApprovedBy: t.ApprovedBy, Since: t.Since, Attempts: attempts}
}

// reasonDeadline is that of the Failure condition after a transition whose deadline has passed.
const reasonDeadline = "TransitionDeadlineExceeded"

// lateStopPause is how long an instance that did not go within its deadline is waited for before its end is asked for again. (Its end
// is observed all the same.)
const lateStopPause = 10 * time.Minute

func failureReason(op contract.Operation, err error) string {
	switch {
	case entity.ErrorType(err) == contract.ErrorDeadline:
		return reasonDeadline
	case op == contract.OperationStop:
		return "FailedDelete"
	default:
		return "FailedCreate"
	}
}

// sync lets the instance follow its VM as far as it can while it runs.
func (e *instance) sync(ctx workflow.Context) error {
	s := &e.state
	in := contract.SyncInstanceInput{VM: s.Object, Generation: s.VM.Generation}
	in.VMI = contract.Object{Namespace: s.Object.Namespace, Name: s.Object.Name, UID: s.VMI.UID}
	r, err := entity.Call[contract.SyncInstanceResult](ctx, contract.ActivitySyncInstance, string(actSync), in)
	if err != nil && entity.ErrorType(err) != contract.ErrorGone {
		return e.failed(ctx, string(actSync), "FailedUpdateError", err)
	}
	e.succeeded(string(actSync))
	s.Checked = &Check{VMI: in.VMI.UID, Generation: max(r.Generation, in.Generation), RestartRequired: r.RestartRequired}
	if r.VMI != nil {
		s.observeVMI(*r.VMI)
	}
	return nil
}

func sameRequest(a, b contract.StateChangeRequest) bool {
	return a.Action == b.Action && a.UID == b.UID && maps.Equal(a.Data, b.Data)
}

// signalProgress tells the open transition how far the instance is.
func (e *instance) signalProgress(ctx workflow.Context) error {
	m := e.state.progress()
	e.state.Open.Reported = m
	if e.child == nil {
		return nil
	}
	return e.child.SignalChildWorkflow(ctx, contract.SignalProgress, m).Get(ctx, nil)
}

func (e *instance) failed(ctx workflow.Context, step, reason string, err error) error {
	s := &e.state
	now := workflow.Now(ctx)
	s.Failure = s.Failure.Failed(now, step, reason, err)
	if s.Failure.Late && step == string(contract.OperationStop) {
		s.Failure.RetryAt = now.Add(lateStopPause)
	}
	return err
}

func (e *instance) succeeded(step string) { e.state.Failure = e.state.Failure.Succeeded(step) }
