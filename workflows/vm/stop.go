package vm

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Stop deletes the instance of a VM and waits until it is gone: the guest is asked to shut down, and killed at the end
// of its grace period.
func Stop(ctx workflow.Context, in contract.TransitionInput) (contract.TransitionResult, error) {
	r, err := newTransition(ctx, in).stop(ctx)
	return entity.ReportOutcome(ctx, r, err)
}

// summaryReleased is the summary for an instance that was released from its VM before it could be deleted.
const summaryReleased = "The VirtualMachine has released the instance, which stays."

func (t *transition) stop(ctx workflow.Context) (contract.TransitionResult, error) {
	if err := t.deleteInstance(ctx); err != nil {
		return resultOf(err)
	}
	s := "The instance is gone."
	if t.released {
		s = summaryReleased
	}
	return contract.TransitionResult{Summary: s, VMIUID: t.in.VMI.UID}, nil
}

// deleteInstance deletes the instance and waits until its object is gone.
func (t *transition) deleteInstance(ctx workflow.Context) error {
	t.setDetails(ctx, "Deleting the instance.")
	in := contract.DeleteVMIInput{VM: t.in.VM, VMI: t.in.VMI}
	in.VMI.Namespace, in.VMI.Name = t.in.VM.Namespace, t.in.VM.Name
	r, err := entity.Call[contract.DeleteVMIResult](ctx, contract.ActivityDeleteVMI, "delete the instance", in)
	if err != nil {
		t.setDetails(ctx, "The instance could not be deleted: %s", entity.Message(err))
		return err
	}
	if r.Refused != "" {
		return t.refuse(ctx, r.Refused, r.VM, r.VMI)
	}
	if t.released = r.Orphaned; r.Absent {
		return nil
	}
	if in.VMI.UID == "" {
		in.VMI.UID = r.UID
	}
	t.extendDeadline(ctx, t.limit)
	t.setDetails(ctx, "Waiting for the guest to shut down and for the instance to be gone.")
	gone := func() bool { return t.Latest.State == contract.ProgressAbsent || t.hasSuccessor() }
	asked := workflow.Now(ctx)
	for {
		ok, err := workflow.AwaitWithTimeout(ctx, t.remaining(ctx), gone)
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
				t.Elapsed(ctx, time.Second).String()+": "+entity.Message(err), contract.ErrorDeadline, nil)
		}
		t.in.Deadline = entity.Sooner(endDeadline(now, asked, t.limit, r), entity.SelfCloseBy(ctx))
		if !now.Before(t.in.Deadline) {
			t.setDetails(ctx, "The deadline has passed, and the instance still exists.")
			return temporal.NewNonRetryableApplicationError("the instance is not gone after "+
				t.Elapsed(ctx, time.Second).String(), contract.ErrorDeadline, nil)
		}
	}
}

// hasSuccessor reports whether another instance of the same name was reported: two of one name never exist at once.
func (t *transition) hasSuccessor() bool {
	known := t.in.VMI.UID != "" && t.Latest.VMIUID != ""
	return known && t.Latest.VMIUID != t.in.VMI.UID
}
