package vm

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/entity"
)

// act does one step.
func (e *instance) act(ctx workflow.Context, d decision) error {
	switch d.Action {
	case entity.ActNext:
		e.state = e.state.successor()
		e.setSearchAttributes(ctx)
		return nil
	case entity.ActRead:
		return e.read(ctx)
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
	case entity.ActWrite:
		status := e.state.status()
		return e.patch(ctx, d.Action, contract.PatchVMInput{Status: &status})
	case actRerun:
		status := e.state.status()
		status.StateChangeRequests = append(slices.Clone(status.StateChangeRequests),
			contract.StateChangeRequest{Action: "Start"})
		return e.patch(ctx, d.Action, contract.PatchVMInput{Status: &status})
	case actSync:
		return e.syncInstance(ctx)
	case actDataVolumes:
		return e.createDataVolumes(ctx)
	case actDeleteInstance:
		return e.deleteInstance(ctx, d)
	case actInspectInstance:
		return e.inspectInstance(ctx)
	case entity.ActOpen:
		return e.openTransition(ctx, d)
	case entity.ActCancel:
		return e.loop.CancelOpen(ctx, e.state.openTransition())
	case actSignal:
		return e.signalProgress(ctx)
	case entity.ActAsk:
		return e.loop.AskOpen(ctx, e.state.openTransition())
	case entity.ActNone, entity.ActFinish:
	}
	return nil
}

// read reads the VM and its instance from the API server.
func (e *instance) read(ctx workflow.Context) error {
	s := &e.state
	in := contract.ReadVMInput{VM: s.Object}
	if s.VM == nil {
		in.VM.UID = s.VMI.OwnerUID
	}
	r, err := entity.Call[contract.ReadVMResult](ctx, contract.ActivityReadVM, string(entity.ActRead), in)
	if err == nil {
		s.applyRead(r)
	}
	return e.recordResult(ctx, string(entity.ActRead), contract.ReasonFailedUpdate, err)
}

// patch writes to the VM, with the last observed resourceVersion as its lock.
func (e *instance) patch(ctx workflow.Context, a action, in contract.PatchVMInput) error {
	s := &e.state
	in.VM, in.ResourceVersion = s.Object, s.VM.ResourceVersion
	if in.Status != nil {
		in.KeepRequests = slices.EqualFunc(in.Status.StateChangeRequests, s.VM.StateChangeRequests,
			contract.StateChangeRequest.Same)
		in.MoreRequests = s.VM.MoreRequests
	}
	what := string(a)
	if in.Status != nil {
		what += ": " + in.Status.PrintableStatus
	}
	r, err := entity.Call[contract.PatchVMResult](ctx, contract.ActivityPatchVM, what, in)
	if err != nil {
		s.MarkWriteUnknown(in.Status)
		// This state does not know the instance that the VM still has.
		s.ReadAgainIf(entity.ErrorType(err) == contract.ErrorInstanceLeft)
		return e.recordResult(ctx, string(a), contract.ReasonFailedUpdate, err)
	}
	if err := e.recordResult(ctx, string(a), contract.ReasonFailedUpdate, s.applyPatch(in, r)); err != nil {
		s.Failure.OfStep(string(a)).Conflict = true
		return err
	}
	e.setSearchAttributes(ctx)
	return nil
}

// applyPatch folds in the result of a patch.
func (s *State) applyPatch(in contract.PatchVMInput, r contract.PatchVMResult) error {
	err := entity.FoldAnswer(&s.StatusWrites, entity.Patch[contract.VMStatus, contract.VMObservation]{
		Kind: "VirtualMachine", UID: s.Object.UID, Version: in.ResourceVersion, Status: in.Status,
		Seen: &s.VM, Replace: s.setVM, Observe: s.observeVM,
		Written: func() {
			if in.Status != nil {
				s.Terminating = s.isDeleting()
				s.VM.StateChangeRequests = in.Status.StateChangeRequests
			}
			if in.Finalizers != nil {
				s.VM.Finalizers = *in.Finalizers
			}
		},
	}, r)
	if f := s.Failure.OfConflict(); r.Written && f != nil {
		s.Failure = s.Failure.AfterSuccess(f.Step)
	}
	return err
}

// syncInstance applies to the running instance what can be changed while it runs.
func (e *instance) syncInstance(ctx workflow.Context) error {
	s := &e.state
	in := contract.SyncInstanceInput{VM: s.Object, Generation: s.VM.Generation}
	in.VMI = contract.Object{Namespace: s.Object.Namespace, Name: s.Object.Name, UID: s.VMI.UID}
	r, err := entity.Call[contract.SyncInstanceResult](ctx, contract.ActivitySyncInstance, string(actSync), in)
	if err != nil && entity.ErrorType(err) != contract.ErrorGone {
		return e.recordResult(ctx, string(actSync), contract.ReasonFailedUpdate, err)
	}
	_ = e.recordResult(ctx, string(actSync), "", nil)
	s.Checked = &Check{VMI: in.VMI.UID, Generation: max(r.Generation, in.Generation),
		RestartRequired: r.RestartRequired}
	if r.VMI != nil {
		s.observeVMI(*r.VMI)
	}
	return nil
}

// recordResult records the result of a step.
func (e *instance) recordResult(ctx workflow.Context, step, reason string, err error) error {
	s := &e.state
	err = entity.RecordResult(ctx, &s.Failure, step, reason, err)
	if err != nil {
		s.pauseLateStop(workflow.Now(ctx), step)
	}
	return err
}

// pauseLateStop delays the next request to end an instance that was not gone in time.
func (s *State) pauseLateStop(now time.Time, step string) {
	if s.Failure.Late && (step == string(contract.OperationStop) || step == string(actDeleteInstance)) {
		s.Failure.RetryAt = now.Add(lateStopPause)
	}
}
