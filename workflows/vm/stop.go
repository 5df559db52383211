package vm

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Stop deletes the instance of a VM and waits until it is gone: the guest is asked to shut down, and killed at the end
// of its grace period.
func Stop(ctx workflow.Context, in contract.TransitionInput) (contract.TransitionResult, error) {
	r, err := newTransition(ctx, in).stop(ctx)
	return entity.Reported(ctx, r, err)
}

// stays is how the end of an instance went that was taken from its VM before it could be deleted.
const stays = "The instance is the VirtualMachine's no more, and stays."

func (t *transition) stop(ctx workflow.Context) (contract.TransitionResult, error) {
	if err := t.deleteInstance(ctx); err != nil {
		return ended(err)
	}
	s := "The instance is gone."
	if t.stays {
		s = stays
	}
	return contract.TransitionResult{Summary: s, VMIUID: t.in.VMI.UID}, nil
}

// deleteInstance deletes the instance and waits until its object is gone.
func (t *transition) deleteInstance(ctx workflow.Context) error {
	t.say(ctx, "Deleting the instance.")
	in := contract.DeleteVMIInput{VM: t.in.VM, VMI: t.in.VMI}
	in.VMI.Namespace, in.VMI.Name = t.in.VM.Namespace, t.in.VM.Name
	r, err := entity.Call[contract.DeleteVMIResult](ctx, contract.ActivityDeleteVMI, "delete the instance", in)
	if err != nil {
		t.say(ctx, "The instance could not be deleted: %s", entity.Message(err))
		return err
	}
	if r.Refused != "" {
		return t.refused(ctx, r.Refused, r.VM, r.VMI)
	}
	if t.stays = r.Orphaned; r.Absent {
		return nil
	}
	if in.VMI.UID == "" {
		in.VMI.UID = r.UID
	}
	t.begin(ctx, t.limit)
	t.say(ctx, "Waiting for the guest to shut down and for everything of it to be gone.")
	gone := func() bool { return t.Latest.State == contract.ProgressAbsent || t.hasSuccessor() }
	asked := workflow.Now(ctx)
	for {
		ok, err := workflow.AwaitWithTimeout(ctx, t.left(ctx), gone)
		if ok || err != nil {
			return err
		}
		r, err := inspect(ctx, in.VMI)
		now := workflow.Now(ctx)
		switch {
		case gone() || err == nil && r.VMI == nil || ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return temporal.NewNonRetryableApplicationError("the instance is not known to be gone after "+
				t.Took(ctx, time.Second).String()+": "+entity.Message(err), contract.ErrorDeadline, nil)
		}
		t.in.Deadline = entity.Sooner(due(now, asked, t.limit, r), entity.LastWord(ctx))
		if !now.Before(t.in.Deadline) {
			t.say(ctx, "The deadline has passed, and the instance is still there.")
			return temporal.NewNonRetryableApplicationError("the instance is not gone after "+
				t.Took(ctx, time.Second).String(), contract.ErrorDeadline, nil)
		}
	}
}

// hasSuccessor says that the instance to stop has a successor: two of one name never exist at once.
func (t *transition) hasSuccessor() bool {
	known := t.in.VMI.UID != "" && t.Latest.VMIUID != ""
	return known && t.Latest.VMIUID != t.in.VMI.UID
}
