package vm

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// act does one step.
func (e *instance) act(ctx workflow.Context, d decision) error {
	switch d.Action {
	case entity.ActNext:
		e.state = e.state.next()
		e.describe(ctx)
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
		return e.sync(ctx)
	case actDataVolumes:
		return e.createDataVolumes(ctx)
	case actDeleteInstance:
		return e.deleteInstance(ctx, d)
	case actInspectInstance:
		return e.inspectInstance(ctx)
	case entity.ActOpen:
		return e.open(ctx, d)
	case entity.ActCancel:
		return e.loop.CancelOpen(ctx, e.state.open())
	case actSignal:
		return e.signalProgress(ctx)
	case entity.ActAsk:
		return e.loop.AskOpen(ctx, e.state.open())
	case entity.ActNone, entity.ActFinish:
	}
	return nil
}

// read asks the API server for the VM and its instance.
func (e *instance) read(ctx workflow.Context) error {
	s := &e.state
	in := contract.ReadVMInput{VM: s.Object}
	if s.VM == nil {
		in.VM.UID = s.VMI.OwnerUID
	}
	r, err := entity.Call[contract.ReadVMResult](ctx, contract.ActivityReadVM, string(entity.ActRead), in)
	if err == nil {
		s.read(r)
	}
	return e.settle(ctx, string(entity.ActRead), contract.ReasonFailedUpdate, err)
}

// patch writes to the VM, locked by what was seen last.
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
		s.Unanswered(in.Status)
		s.Stale = s.Stale || entity.ErrorType(err) == contract.ErrorInstanceLeft // which it has forgotten
		return e.settle(ctx, string(a), contract.ReasonFailedUpdate, err)
	}
	if err := e.settle(ctx, string(a), contract.ReasonFailedUpdate, s.patched(in, r)); err != nil {
		s.Failure.Of(string(a)).Conflict = true
		return err
	}
	e.describe(ctx)
	return nil
}

// patched takes in what became of a patch.
func (s *State) patched(in contract.PatchVMInput, r contract.PatchVMResult) error {
	err := entity.Wrote(&s.StatusWrites, entity.Patch[contract.VMStatus, contract.VMObservation]{
		Kind: "VirtualMachine", UID: s.Object.UID, Version: in.ResourceVersion, Status: in.Status,
		Seen: &s.VM, Believe: s.believe, Observe: s.observeVM,
		Written: func() {
			if in.Status != nil {
				s.Terminating = s.deleting()
				s.VM.StateChangeRequests = in.Status.StateChangeRequests
			}
			if in.Finalizers != nil {
				s.VM.Finalizers = *in.Finalizers
			}
		},
	}, r)
	if f := s.Failure.Conflicting(); r.Written && f != nil {
		s.Failure = s.Failure.Succeeded(f.Step)
	}
	return err
}

// sync lets the instance follow its VM as far as it can while it runs.
func (e *instance) sync(ctx workflow.Context) error {
	s := &e.state
	in := contract.SyncInstanceInput{VM: s.Object, Generation: s.VM.Generation}
	in.VMI = contract.Object{Namespace: s.Object.Namespace, Name: s.Object.Name, UID: s.VMI.UID}
	r, err := entity.Call[contract.SyncInstanceResult](ctx, contract.ActivitySyncInstance, string(actSync), in)
	if err != nil && entity.ErrorType(err) != contract.ErrorGone {
		return e.settle(ctx, string(actSync), contract.ReasonFailedUpdate, err)
	}
	_ = e.settle(ctx, string(actSync), "", nil)
	s.Checked = &Check{VMI: in.VMI.UID, Generation: max(r.Generation, in.Generation),
		RestartRequired: r.RestartRequired}
	if r.VMI != nil {
		s.observeVMI(*r.VMI)
	}
	return nil
}

// settle notes how a step went.
func (e *instance) settle(ctx workflow.Context, step, reason string, err error) error {
	s := &e.state
	err = entity.Settle(ctx, &s.Failure, step, reason, err)
	if err != nil {
		s.pauseLateStop(workflow.Now(ctx), step)
	}
	return err
}

// pauseLateStop has an instance that did not go in time waited for before its end is asked for once more.
func (s *State) pauseLateStop(now time.Time, step string) {
	if s.Failure.Late && (step == string(contract.OperationStop) || step == string(actDeleteInstance)) {
		s.Failure.RetryAt = now.Add(lateStopPause)
	}
}
