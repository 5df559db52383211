package vmi

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// refuse says what stands against an operation, in KubeVirt's words and order, or nil. Errors are application errors of
// a type that says which answer they are.
func (s *State) refuse(r contract.InstanceRequest) error {
	state := func(text string) error {
		return temporal.NewNonRetryableApplicationError(text, contract.RefusedState, nil)
	}
	switch {
	case s.VMI == nil:
		return temporal.NewNonRetryableApplicationError("The instance has not been seen yet; try again.",
			contract.RefusedAway, nil)
	case s.Object.UID != r.UID:
		return temporal.NewNonRetryableApplicationError(
			"Another instance of that name is still being dealt with; try again.", contract.RefusedAway, nil)
	case s.VMI.Gone:
		return temporal.NewNonRetryableApplicationError("it is gone", contract.RefusedGone, nil)
	}
	running := s.Phase == PhaseRunning && s.podHeld()
	paused := s.domainIn(contract.DomainPaused)
	switch r.Operation {
	case contract.OperationPause:
		switch {
		case !running:
			return state("VM is not running")
		case r.Probed:
			return temporal.NewNonRetryableApplicationError(
				"Pausing VMIs with a non-GuestAgentPing LivenessProbe is not supported", contract.RefusedProbed, nil)
		case paused:
			return state("VMI is already paused")
		}
	case contract.OperationUnpause:
		switch {
		case !running:
			return state("VMI is not running")
		case !paused:
			return state("VMI is not paused")
		}
	case contract.OperationFreeze:
		if !running {
			return state("VM is not running")
		}
	case contract.OperationUnfreeze:
		if !running {
			return state("VMI is not running")
		}
	case contract.OperationSoftReboot:
		switch {
		case !running:
			return state("VM is not running")
		case paused:
			return state("VMI is paused")
		case !r.ACPI && (s.Domain == nil || !s.Domain.AgentConnected):
			return state("VMI neither have the agent connected nor the ACPI feature enabled")
		}
	case contract.OperationReset:
		switch {
		case running:
		case s.Phase == PhaseScheduled || s.Phase == PhaseRunning:
			return temporal.NewNonRetryableApplicationError("the guest does not run yet, or no longer",
				contract.RefusedPhase, nil)
		default:
			return temporal.NewNonRetryableApplicationError(
				fmt.Sprintf("Unable to connect to VirtualMachineInstance because phase is %s instead of Running or "+
					"Scheduled", s.Phase),
				contract.RefusedPhase, nil)
		}
	default:
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf("%q is no operation", string(r.Operation)),
			contract.RefusedFailed, nil)
	}
	if s.moving() {
		return state("VMI is being migrated by VirtualMachineInstanceMigration " + s.Migration.Migration.Name +
			": try again when that has ended")
	}
	return nil
}

// refuseAt also refuses what comes too late: whoever asked was told long ago that it was not done.
func (s *State) refuseAt(r contract.InstanceRequest, now time.Time) error {
	if !r.NotAfter.IsZero() && now.After(r.NotAfter) {
		return temporal.NewNonRetryableApplicationError("The request comes too late: nobody waits for it any more.",
			contract.RefusedAway, nil)
	}
	return s.refuse(r)
}

// did says that the request of that ID was done before: an answer may get lost, and the request come again in a later
// run. The error says that it may have been done, and is nothing to do twice.
func (s *State) did(id string) (bool, error) {
	for _, r := range s.Records {
		switch {
		case id == "" || r.ID != id || r.Until.IsZero():
		case r.Outcome == entity.OutcomeDone:
			return true, nil
		case r.OutcomeUnknown && !repeatable(r.Operation):
			return true, temporal.NewNonRetryableApplicationError(
				"It was begun before, and whether it was done is not known.", contract.RefusedAway, nil)
		}
	}
	return false, nil
}

// repeatable says that doing it once more changes nothing.
func repeatable(o contract.Operation) bool {
	return o != contract.OperationReset && o != contract.OperationSoftReboot
}

// onOperations offers the operations as Updates.
func (e *instance) onOperations(ctx workflow.Context) error {
	for _, o := range contract.InstanceOperations() {
		options := workflow.UpdateHandlerOptions{
			Description: "Do this to the running guest: " + string(o),
			Validator: func(ctx workflow.Context, r contract.InstanceRequest) error {
				r.Operation = o
				if done, err := e.state.did(workflow.GetCurrentUpdateInfo(ctx).ID); done {
					return err
				}
				return e.state.refuseAt(r, workflow.Now(ctx))
			},
		}
		handler := func(ctx workflow.Context, r contract.InstanceRequest) error {
			r.Operation = o
			return e.operate(ctx, r, workflow.GetCurrentUpdateInfo(ctx).ID)
		}
		if err := workflow.SetUpdateHandlerWithOptions(ctx, string(o), handler, options); err != nil {
			return fmt.Errorf("offering the operation %s: %w", o, err)
		}
	}
	return nil
}

// operate has the node's worker do it, and answers when it is done. Operations on one guest follow each other.
func (e *instance) operate(ctx workflow.Context, r contract.InstanceRequest, id string) error {
	defer e.loop.Wake() // whatever comes of it, it has made the history longer
	if err := workflow.Await(ctx, func() bool { return !e.operating }); err != nil {
		return err
	}
	if done, err := e.state.did(id); done {
		return err
	}
	// Much may have happened since it was let in.
	if err := e.state.refuseAt(r, workflow.Now(ctx)); err != nil || r.DryRun {
		return err
	}
	e.operating = true
	defer func() { e.operating = false }()
	s := &e.state
	record := contract.OperationRecord{Operation: r.Operation, ID: id, Actor: r.Actor, Since: workflow.Now(ctx),
		Attempts: 1}
	s.Record(record)
	s.holdOff(record.Since)
	pod := *s.Pod
	in := contract.OperateDomainInput{VMI: s.Object, Pod: e.pod(), Operation: r.Operation, ThawAfter: r.ThawAfter}
	var out contract.OperateDomainResult
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, operationOptions(r, pod)),
		contract.ActivityOperateDomain, in).Get(ctx, &out)
	record.Until, record.Outcome = workflow.Now(ctx), entity.OutcomeDone
	if record.Until.After(s.HoldOffUntil) {
		s.holdOff(record.Until) // it has taken long
	}
	if err == nil {
		if out.Domain.PodUID == pod.UID {
			s.observeDomain(out.Domain)
		}
	} else {
		err, record.OutcomeUnknown = failed(err, pod.NodeName)
		record.Outcome = entity.Message(err)
	}
	s.Record(record)
	return err
}

func operationOptions(r contract.InstanceRequest, pod contract.PodObservation) workflow.ActivityOptions {
	o := entity.NodeOptions(pod.NodeName)
	o.ScheduleToStartTimeout, o.StartToCloseTimeout, o.ScheduleToCloseTimeout = contract.OperationQueued,
		contract.OperationLimit, contract.OperationLimit
	o.Summary = entity.Summary(
		fmt.Sprintf("%s the guest in %s on %s, for %s", r.Operation, pod.Name, pod.NodeName, r.Actor))
	retry := *o.RetryPolicy
	if repeatable(r.Operation) {
		// when the node's worker dies over it, there is time for another attempt
		o.StartToCloseTimeout = contract.OperationOnNode + time.Second
	} else {
		retry.MaximumAttempts = 1 // once too many would be a reboot too many
	}
	o.RetryPolicy = &retry
	return o
}

// notBegun says that no worker has taken an activity.
func notBegun(t *temporal.TimeoutError) bool {
	return t.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START && t.Unwrap() == nil
}

// unanswered says of an activity of a node's worker whose time was over who did not answer. Other errors stay.
func unanswered(err error, node string) error {
	var late *temporal.TimeoutError
	if !errors.As(err, &late) {
		return err
	}
	text := "Nobody on node " + node + " has said in time that it is done: its node worker, or the guest's launcher, " +
		"does not answer"
	if notBegun(late) {
		text = "Nobody on node " + node + " has begun it in time: its node worker does not answer"
	}
	return temporal.NewApplicationError(text, entity.ErrorType(err))
}

// failed words why an operation that was let in is not known to be done. OutcomeUnknown says that it may have been done
// all the same.
func failed(err error, node string) (_ error, unknown bool) {
	away := func(format string, args ...any) error {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), contract.RefusedAway, nil)
	}
	var app *temporal.ApplicationError
	var late *temporal.TimeoutError
	switch {
	case errors.As(err, &late) && notBegun(late):
		return away("%s.", entity.Message(unanswered(err, node))), false
	case errors.As(err, &late):
		return away("%s. It may be done.", entity.Message(unanswered(err, node))), true
	case errors.As(err, &app) && app.Type() == contract.ErrorNotBegun:
		return away("The node worker on node %s has not begun it: %s. Try again.", node, entity.Message(err)), false
	case errors.As(err, &app) && app.Type() == contract.RefusedFailed:
		return temporal.NewNonRetryableApplicationError(app.Message(), contract.RefusedFailed, nil), false
	default:
		return away("It is not known to be done on node %s: %s.", node, entity.Message(err)), true
	}
}
