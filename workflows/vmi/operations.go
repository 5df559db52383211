package vmi

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// onOperations registers the operations as Updates.
func (e *instance) onOperations(ctx workflow.Context) error {
	for _, o := range contract.InstanceOperations() {
		options := workflow.UpdateHandlerOptions{
			Description: "Operation on the running guest: " + string(o),
			Validator: func(ctx workflow.Context, r contract.InstanceRequest) error {
				r.Operation = o
				if done, err := wasDone(e.state.Records, workflow.GetCurrentUpdateInfo(ctx).ID); done {
					return err
				}
				return e.state.guestState().checkAt(r, workflow.Now(ctx))
			},
		}
		handler := func(ctx workflow.Context, r contract.InstanceRequest) error {
			r.Operation = o
			return e.operate(ctx, r, workflow.GetCurrentUpdateInfo(ctx).ID)
		}
		if err := workflow.SetUpdateHandlerWithOptions(ctx, string(o), handler, options); err != nil {
			return fmt.Errorf("registering the operation %s: %w", o, err)
		}
	}
	return nil
}

// operate has the node worker do an operation, and returns when it is done. Operations on one guest run one at a time.
func (e *instance) operate(ctx workflow.Context, r contract.InstanceRequest, id string) error {
	defer e.loop.Wake() // in any case the history has grown
	if err := workflow.Await(ctx, func() bool { return !e.operating }); err != nil {
		return err
	}
	if done, err := wasDone(e.state.Records, id); done {
		return err
	}
	// The state may have changed since the validator accepted the request.
	if err := e.state.guestState().checkAt(r, workflow.Now(ctx)); err != nil || r.DryRun {
		return err
	}
	e.operating = true
	defer func() { e.operating = false }()
	s := &e.state
	record := contract.OperationRecord{Operation: r.Operation, ID: id, Actor: r.Actor, Since: workflow.Now(ctx),
		Attempts: 1}
	s.Record(record)
	s.delayWrites(record.Since)
	pod := *s.Pod
	in := contract.OperateDomainInput{VMI: s.Object, Pod: e.podObject(), Operation: r.Operation, ThawAfter: r.ThawAfter}
	var out contract.OperateDomainResult
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, operationOptions(r, pod)),
		contract.ActivityOperateDomain, in).Get(ctx, &out)
	record.Until, record.Outcome = workflow.Now(ctx), entity.OutcomeDone
	if record.Until.After(s.WritesDelayedUntil) {
		s.delayWrites(record.Until) // the operation took longer than writeDelay
	}
	if err == nil {
		if out.Domain.PodUID == pod.UID {
			s.observeDomain(out.Domain)
		}
	} else {
		err, record.OutcomeUnknown = explainFailure(err, pod.NodeName)
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
	if isRepeatable(r.Operation) {
		// If the node worker dies during the operation, there is time for another attempt.
		o.StartToCloseTimeout = contract.OperationOnNode + time.Second
	} else {
		retry.MaximumAttempts = 1 // a second attempt could be a second reboot
	}
	o.RetryPolicy = &retry
	return o
}

// isNotBegun reports whether no worker has picked up the activity.
func isNotBegun(t *temporal.TimeoutError) bool {
	return t.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START && t.Unwrap() == nil
}

// explainTimeout replaces the timeout of a node worker's activity by an error that names who did not answer. Other
// errors are returned unchanged.
func explainTimeout(err error, node string) error {
	var late *temporal.TimeoutError
	if !errors.As(err, &late) {
		return err
	}
	text := "Node " + node + " did not report in time that it is done: its node worker, or the guest's launcher, " +
		"does not answer"
	if isNotBegun(late) {
		text = "Node " + node + " did not begin it in time: its node worker does not answer"
	}
	return temporal.NewApplicationError(text, entity.ErrorType(err))
}

// explainFailure returns the error of an accepted operation for the user, and whether its outcome is unknown.
func explainFailure(err error, node string) (_ error, unknown bool) {
	refusedAway := func(format string, args ...any) error {
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), contract.RefusedAway, nil)
	}
	var app *temporal.ApplicationError
	var late *temporal.TimeoutError
	switch {
	case errors.As(err, &late) && isNotBegun(late):
		return refusedAway("%s.", entity.Message(explainTimeout(err, node))), false
	case errors.As(err, &late):
		return refusedAway("%s. It may have been done.", entity.Message(explainTimeout(err, node))), true
	case errors.As(err, &app) && app.Type() == contract.ErrorNotBegun:
		return refusedAway("The node worker on node %s has not begun it: %s. Try again.", node,
			entity.Message(err)), false
	case errors.As(err, &app) && app.Type() == contract.RefusedFailed:
		return temporal.NewNonRetryableApplicationError(app.Message(), contract.RefusedFailed, nil), false
	default:
		return refusedAway("The outcome of the operation on node %s is unknown: %s.", node, entity.Message(err)), true
	}
}
