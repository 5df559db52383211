package vm

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Start makes the instance of a VM and waits until its guest runs. Cancelled, it takes away the instance that it made.
func Start(ctx workflow.Context, in contract.TransitionInput) (contract.TransitionResult, error) {
	r, err := newTransition(ctx, in).start(ctx)
	return entity.Reported(ctx, r, err)
}

func (t *transition) start(ctx workflow.Context) (contract.TransitionResult, error) {
	made, err := t.createInstance(ctx)
	if err != nil {
		return ended(err)
	}
	return t.awaitRunning(ctx, made)
}

// createInstance makes the instance. Cancelled meanwhile, it still learns whether there is one, and takes it away.
func (t *transition) createInstance(ctx workflow.Context) (contract.CreateVMIResult, error) {
	t.say(ctx, "Making the instance.")
	in := contract.CreateVMIInput{
		VM: t.in.VM, Generation: t.in.Generation, Paused: t.in.Paused, Actor: t.in.Actor, Revision: t.in.Revision,
		Transition: maker(ctx),
	}
	r, err := entity.CallThrough[contract.CreateVMIResult](ctx, contract.ActivityCreateVMI, "make the instance", in)
	if err != nil {
		t.say(ctx, "The instance could not be made: %s", entity.Message(err))
	}
	switch cancelled := ctx.Err(); {
	case cancelled != nil: // whatever became of it
		return r, t.compensate(ctx, r.VMI.UID, cancelled)
	case err != nil:
		return r, err
	case r.Refused != "":
		return r, t.refused(ctx, r.Refused, r.VM, nil)
	}
	return r, nil
}

// awaitRunning waits until the guest runs, the instance has ended, or the deadline has passed. An instance that is
// merely late stays: it is what the user asked for, and Kubernetes keeps trying to place it.
func (t *transition) awaitRunning(
	ctx workflow.Context, made contract.CreateVMIResult,
) (contract.TransitionResult, error) {
	uid := made.VMI.UID
	t.begin(ctx, entity.StartTime) // now that there is an instance
	t.say(ctx, "The instance %s is there. Waiting for its guest to run.", contract.ShortUID(uid))
	mine := func() bool {
		return t.Latest.State == contract.ProgressOrphaned || t.Latest.VMIUID == uid &&
			t.Latest.State != contract.ProgressNone
	}
	ok, err := workflow.AwaitWithTimeout(ctx, t.left(ctx), mine)
	if err == nil && !ok {
		t.look(ctx, uid)
		ok = mine()
		err = ctx.Err()
	}
	switch {
	case err != nil:
		return contract.TransitionResult{}, t.compensate(ctx, uid, err)
	case !ok:
		t.say(ctx, "The deadline has passed. The instance stays, and is started as soon as it can be.")
		return contract.TransitionResult{}, temporal.NewNonRetryableApplicationError(
			"the guest does not run yet after "+t.Took(ctx, time.Second).String()+
				"; "+cmp.Or(t.Latest.Obstacle, "see the VirtualMachineInstance's conditions"), contract.ErrorDeadline, nil)
	case t.Latest.State == contract.ProgressOrphaned:
		s := "The VirtualMachine goes without its instance, which stays."
		t.say(ctx, "%s", s)
		return contract.TransitionResult{Summary: s, VMIUID: uid}, nil
	case t.Latest.State == contract.ProgressRunning:
		s := "The guest runs, after " + t.Took(ctx, 10*time.Millisecond).String() + "."
		t.say(ctx, "%s", s)
		return contract.TransitionResult{Summary: s, VMIUID: uid}, nil
	default:
		t.say(ctx, "The instance ended before its guest was seen running.")
		why := strings.Trim(string(t.Latest.State)+" "+t.Latest.Phase+"; "+t.Latest.Obstacle, "; ")
		return contract.TransitionResult{}, temporal.NewNonRetryableApplicationError(
			"the instance ended before its guest was seen running: "+why, contract.ErrorEnded, nil)
	}
}

// look learns at the deadline how far the instance is, and what is in its way, where nobody has said so.
func (t *transition) look(ctx workflow.Context, uid string) {
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

// compensate deletes the instance that a cancelled start has made, unless its guest has run. An empty UID: nobody knows
// whether there is one.
func (t *transition) compensate(ctx workflow.Context, uid string, cause error) error {
	dctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	t.say(dctx, "Cancelled. Taking the instance away again.")
	in := contract.DeleteVMIInput{
		VM: t.in.VM, VMI: contract.Object{Namespace: t.in.VM.Namespace, Name: t.in.VM.Name, UID: uid},
		MadeBy: maker(ctx),
	}
	r, err := entity.Call[contract.DeleteVMIResult](dctx, contract.ActivityDeleteVMI, "delete the instance", in)
	if err != nil {
		return fmt.Errorf("taking the instance away again: %w", err)
	}
	if r.Refused != "" {
		t.say(dctx, "Cancelled. The instance stays: %s.", r.Refused)
	}
	return cause
}
