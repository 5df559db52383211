package vm

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// How long a transition may take. A start waits for a node, an image and a boot; a stop for the guest's grace period, the kubelet's
// half minute on top of it, and clean-up.
const (
	startDeadline = 10 * time.Minute
	stopSlack     = 3 * time.Minute
)

func deadline(op contract.Operation, grace time.Duration) time.Duration {
	switch op {
	case contract.OperationStop:
		return grace + stopSlack
	case contract.OperationRestart:
		return grace + stopSlack + startDeadline
	default:
		return startDeadline
	}
}

// workflowOf is the workflow type of a transition.
func workflowOf(op contract.Operation) string {
	switch op {
	case contract.OperationStop:
		return contract.WorkflowStopVM
	case contract.OperationRestart:
		return contract.WorkflowRestartVM
	default:
		return contract.WorkflowStartVM
	}
}

// Start makes the instance of a VM and waits until its guest runs. Cancelled, it takes away the instance that it made.
func Start(ctx workflow.Context, in contract.TransitionInput) (contract.TransitionResult, error) {
	t := newTransition(ctx, in)
	made, err := t.create(ctx)
	if err != nil {
		return contract.TransitionResult{}, err
	}
	return t.awaitRunning(ctx, made)
}

// Stop deletes the instance of a VM and waits until it is gone: the guest is asked to shut down, and killed at the end of its grace period.
func Stop(ctx workflow.Context, in contract.TransitionInput) (contract.TransitionResult, error) {
	t := newTransition(ctx, in)
	if err := t.takeAway(ctx); err != nil {
		return contract.TransitionResult{}, err
	}
	s := "The instance is gone."
	if t.stays {
		s = "The instance is the VirtualMachine's no more, and stays."
	}
	return contract.TransitionResult{Summary: s, VMIUID: in.VMI.UID}, nil
}

// Restart is Stop, then Start.
func Restart(ctx workflow.Context, in contract.TransitionInput) (contract.TransitionResult, error) {
	t := newTransition(ctx, in)
	if err := t.takeAway(ctx); err != nil {
		return contract.TransitionResult{}, err
	}
	made, err := t.create(ctx)
	if err != nil {
		return contract.TransitionResult{}, err
	}
	return t.awaitRunning(ctx, made)
}

// transition is one run of Start, Stop or Restart.
type transition struct {
	in      contract.TransitionInput
	started time.Time
	latest  contract.InstanceProgress
	stays   bool // the instance was taken from its VM before it could be deleted
}

func newTransition(ctx workflow.Context, in contract.TransitionInput) *transition {
	t := &transition{in: in, started: workflow.Now(ctx)}
	ch := workflow.GetSignalChannel(ctx, contract.SignalProgress)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var m contract.InstanceProgress
			if ch.Receive(ctx, &m); ctx.Err() != nil {
				return
			}
			t.latest = m
		}
	})
	return t
}

func (t *transition) say(ctx workflow.Context, format string, args ...any) {
	who := ""
	if t.in.Actor != "" {
		who = "Asked for by " + t.in.Actor + ". "
	}
	if t.in.ApprovedBy != "" {
		who += "Approved by " + t.in.ApprovedBy + " (claimed). "
	}
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("%sBecause %s.\n\n%s", who, t.in.Why, fmt.Sprintf(format, args...)))
}

// create makes the instance. Cancelled meanwhile, it still learns whether there is one, and takes it away.
func (t *transition) create(ctx workflow.Context) (contract.CreateVMIResult, error) {
	t.say(ctx, "Making the instance.")
	in := contract.CreateVMIInput{VM: t.in.VM, Generation: t.in.Generation, Paused: t.in.Paused, Actor: t.in.Actor, Revision: t.in.Revision}
	r, err := entity.CallThrough[contract.CreateVMIResult](ctx, contract.ActivityCreateVMI, "make the instance", in)
	if err != nil {
		t.say(ctx, "The instance could not be made: %s", entity.Message(err))
		return r, err
	}
	if err := ctx.Err(); err != nil {
		return r, t.compensate(ctx, r.VMI.UID, err)
	}
	return r, nil
}

// awaitRunning waits until the guest runs, the instance has ended, or the deadline has passed. An instance that is merely late stays: it
// is what the user asked for, and Kubernetes keeps trying to place it.
func (t *transition) awaitRunning(ctx workflow.Context, made contract.CreateVMIResult) (contract.TransitionResult, error) {
	uid := made.VMI.UID
	// A start has its time from when there is an instance: what waits in our own queues until then has not begun.
	if until := workflow.Now(ctx).Add(startDeadline); until.After(t.in.Deadline) {
		t.in.Deadline = until
	}
	t.say(ctx, "The instance %s is there. Waiting for its guest to run.", contract.ShortUID(uid))
	mine := func() bool {
		return t.latest.State == contract.ProgressOrphaned || t.latest.VMIUID == uid && t.latest.State != contract.ProgressNone
	}
	ok, err := workflow.AwaitWithTimeout(ctx, t.left(ctx), mine)
	switch {
	case err != nil:
		return contract.TransitionResult{}, t.compensate(ctx, uid, err)
	case !ok:
		t.say(ctx, "The deadline has passed. The instance stays, and is started as soon as it can be.")
		return contract.TransitionResult{}, temporal.NewNonRetryableApplicationError(
			"the guest does not run yet after "+workflow.Now(ctx).Sub(t.started).Round(time.Second).String()+"; see the VirtualMachineInstance's conditions", contract.ErrorDeadline, nil)
	case t.latest.State == contract.ProgressOrphaned:
		s := "The VirtualMachine goes without its instance, which stays."
		t.say(ctx, "%s", s)
		return contract.TransitionResult{Summary: s, VMIUID: uid}, nil
	case t.latest.State == contract.ProgressRunning:
		s := "The guest runs, after " + workflow.Now(ctx).Sub(t.started).Round(10*time.Millisecond).String() + "."
		t.say(ctx, "%s", s)
		return contract.TransitionResult{Summary: s, VMIUID: uid}, nil
	default:
		t.say(ctx, "The instance ended before its guest was seen running.")
		return contract.TransitionResult{}, temporal.NewNonRetryableApplicationError("the instance ended before its guest was seen running: "+string(t.latest.State)+" "+t.latest.Phase, contract.ErrorEnded, nil)
	}
}

// compensate deletes the instance that a cancelled start has made.
func (t *transition) compensate(ctx workflow.Context, uid string, cause error) error {
	dctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	t.say(dctx, "Cancelled. Taking the instance away again.")
	in := contract.DeleteVMIInput{VM: t.in.VM, VMI: contract.Object{Namespace: t.in.VM.Namespace, Name: t.in.VM.Name, UID: uid}}
	if _, err := entity.Call[contract.DeleteResult](dctx, contract.ActivityDeleteVMI, "delete the instance", in); err != nil {
		return fmt.Errorf("taking the instance away again: %w", err)
	}
	return cause
}

// takeAway deletes the instance and waits until its object is gone.
func (t *transition) takeAway(ctx workflow.Context) error {
	t.say(ctx, "Deleting the instance.")
	in := contract.DeleteVMIInput{VM: t.in.VM, VMI: t.in.VMI}
	in.VMI.Namespace, in.VMI.Name = t.in.VM.Namespace, t.in.VM.Name
	r, err := entity.Call[contract.DeleteResult](ctx, contract.ActivityDeleteVMI, "delete the instance", in)
	if err != nil {
		t.say(ctx, "The instance could not be deleted: %s", entity.Message(err))
		return err
	}
	if t.stays = r.Left; r.Absent {
		return nil
	}
	t.say(ctx, "Waiting for the guest to shut down and for everything of it to be gone.")
	gone := func() bool { return t.latest.State == contract.ProgressAbsent || t.hasSuccessor() }
	ok, err := workflow.AwaitWithTimeout(ctx, t.left(ctx), gone)
	if err != nil {
		return err
	}
	if !ok {
		t.say(ctx, "The deadline has passed, and the instance is still there.")
		return temporal.NewNonRetryableApplicationError("the instance is not gone after "+workflow.Now(ctx).Sub(t.started).Round(time.Second).String(), contract.ErrorDeadline, nil)
	}
	return nil
}

// hasSuccessor says that the instance to stop has a successor: two of one name never exist at once.
func (t *transition) hasSuccessor() bool {
	known := t.in.VMI.UID != "" && t.latest.VMIUID != ""
	return known && t.latest.VMIUID != t.in.VMI.UID
}

func (t *transition) left(ctx workflow.Context) time.Duration {
	return max(t.in.Deadline.Sub(workflow.Now(ctx)), time.Millisecond)
}
