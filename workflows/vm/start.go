package vm

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Start creates the instance of a VM and waits until its guest runs. When cancelled, it deletes the instance that it
// made.
func Start(ctx workflow.Context, in contract.TransitionInput) (contract.TransitionResult, error) {
	r, err := newTransition(ctx, in).start(ctx)
	return entity.ReportOutcome(ctx, r, err)
}

func (t *transition) start(ctx workflow.Context) (contract.TransitionResult, error) {
	made, err := t.createInstance(ctx)
	if err != nil {
		return resultOf(err)
	}
	return t.awaitRunning(ctx, made)
}

// createInstance creates the instance. When cancelled meanwhile, it waits for the result and deletes the instance.
func (t *transition) createInstance(ctx workflow.Context) (contract.CreateVMIResult, error) {
	t.setDetails(ctx, "Creating the instance.")
	in := contract.CreateVMIInput{
		VM: t.in.VM, Generation: t.in.Generation, Paused: t.in.Paused, Actor: t.in.Actor, Revision: t.in.Revision,
		Transition: transitionRef(ctx),
	}
	r, err := entity.CallThrough[contract.CreateVMIResult](ctx, contract.ActivityCreateVMI, "create the instance", in)
	if err != nil {
		t.setDetails(ctx, "The instance could not be created: %s", entity.Message(err))
	}
	switch cancelled := ctx.Err(); {
	case cancelled != nil: // also where the call failed
		return r, t.compensate(ctx, r.VMI.UID, cancelled)
	case err != nil:
		return r, err
	case r.Refused != "":
		return r, t.refuse(ctx, r.Refused, r.VM, nil)
	}
	return r, nil
}

// awaitRunning waits until the guest runs, the instance has ended, or the deadline has passed. An instance that is
// merely late stays: the user asked for it, and Kubernetes keeps trying to place it.
func (t *transition) awaitRunning(
	ctx workflow.Context, made contract.CreateVMIResult,
) (contract.TransitionResult, error) {
	uid := made.VMI.UID
	t.extendDeadline(ctx, entity.StartTime) // now that there is an instance
	t.setDetails(ctx, "The instance %s exists. Waiting for its guest to run.", contract.ShortUID(uid))
	mine := func() bool {
		return t.Latest.State == contract.ProgressOrphaned || t.Latest.VMIUID == uid &&
			t.Latest.State != contract.ProgressNone
	}
	ok, err := workflow.AwaitWithTimeout(ctx, t.remaining(ctx), mine)
	if err == nil && !ok {
		t.readProgress(ctx, uid)
		ok = mine()
		err = ctx.Err()
	}
	switch {
	case err != nil:
		return contract.TransitionResult{}, t.compensate(ctx, uid, err)
	case !ok:
		t.setDetails(ctx, "The deadline has passed. The instance stays, and is started as soon as it can be.")
		return contract.TransitionResult{}, temporal.NewNonRetryableApplicationError(
			"the guest does not run yet after "+t.Elapsed(ctx, time.Second).String()+
				"; "+cmp.Or(t.Latest.Obstacle, "see the VirtualMachineInstance's conditions"), contract.ErrorDeadline, nil)
	case t.Latest.State == contract.ProgressOrphaned:
		s := "The VirtualMachine is deleted without its instance, which stays."
		t.setDetails(ctx, "%s", s)
		return contract.TransitionResult{Summary: s, VMIUID: uid}, nil
	case t.Latest.State == contract.ProgressRunning:
		s := "The guest runs, after " + t.Elapsed(ctx, 10*time.Millisecond).String() + "."
		t.setDetails(ctx, "%s", s)
		return contract.TransitionResult{Summary: s, VMIUID: uid}, nil
	default:
		t.setDetails(ctx, "The instance ended before its guest was seen running.")
		why := strings.Trim(string(t.Latest.State)+" "+t.Latest.Phase+"; "+t.Latest.Obstacle, "; ")
		return contract.TransitionResult{}, temporal.NewNonRetryableApplicationError(
			"the instance ended before its guest was seen running: "+why, contract.ErrorEnded, nil)
	}
}

// readProgress reads the instance's progress and obstacle at the deadline, since a signal may be late.
func (t *transition) readProgress(ctx workflow.Context, uid string) {
	r, err := inspect(ctx, contract.Object{Namespace: t.in.VM.Namespace, Name: t.in.VM.Name, UID: uid})
	if err != nil {
		return
	}
	if r.VMI == nil {
		r.VMI = &contract.VMIObservation{UID: uid, Gone: true}
	}
	t.Latest = progressOf(r.VMI)
	t.Latest.Obstacle = obstacleOf(r.VMI)
}

// compensate deletes the instance that a cancelled start has made, unless its guest has run. UID is empty where it is
// unknown whether there is an instance.
func (t *transition) compensate(ctx workflow.Context, uid string, cause error) error {
	dctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	t.setDetails(dctx, "Cancelled. Deleting the instance.")
	in := contract.DeleteVMIInput{
		VM: t.in.VM, VMI: contract.Object{Namespace: t.in.VM.Namespace, Name: t.in.VM.Name, UID: uid},
		MadeBy: transitionRef(ctx),
	}
	r, err := entity.Call[contract.DeleteVMIResult](dctx, contract.ActivityDeleteVMI, "delete the instance", in)
	if err != nil {
		return fmt.Errorf("deleting the instance of the cancelled start: %w", err)
	}
	if r.Refused != "" {
		t.setDetails(dctx, "Cancelled. The instance stays: %s.", r.Refused)
	}
	return cause
}
