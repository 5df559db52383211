package vm

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/waits"
)

// actDeleteInstance is a stop without a child workflow, for a VM that is being deleted. Nothing can supersede or
// compensate it, and the entity's own history stays as its record.
const actDeleteInstance = action("delete the instance")

// actInspectInstance reads why an instance still exists after its end was requested.
const actInspectInstance = action("look at the instance")

// Ending is the requested end of an instance whose VM is being deleted.
type Ending struct {
	entity.Transition
	// VMI is the UID of the instance ("": whichever existed).
	VMI string `json:"vmi,omitempty"`
	// RequestedAt is when the API server accepted the deletion. The deadline counts from then. Zero: it has not.
	RequestedAt time.Time `json:"askedAt,omitzero"`
	// OutcomeUnknown means that the result is unknown, or was undone by a restore of etcd.
	OutcomeUnknown bool `json:"lost,omitempty"`
}

// decideEnding deletes the instance, then removes the finalizer.
func (s *State) decideEnding(now time.Time) decision {
	if s.Open != nil && s.Open.Reported.State == contract.ProgressOrphaned {
		return decision{Waiting: waits.For(waits.OrphaningTransition, s.Open.Operation)}
	}
	if s.Open != nil && s.Open.Operation != contract.OperationStop {
		return s.cancelOpen("the VirtualMachine is being deleted", now)
	}
	if s.Open != nil {
		return s.decideStatus(now).Or(waits.For(waits.DeletedInstanceGone))
	}
	// An entity that knows no instance still requests a deletion once: the VM may be older than this workflow, or a
	// failed transition may have made an instance.
	unknown := s.VMI == nil && (s.Last == nil || s.Last.Error != "")
	if !s.VM.Gone && !s.isOrphaningInstance() && (s.situation() != runstrategy.Absent || unknown) {
		switch {
		case s.isEndRequested() && !now.Before(s.Ending.Deadline):
			return decision{Action: actInspectInstance, Why: "the instance is not gone by its deadline"}
		case s.isEndRequested():
			return s.decideStatus(now).Or(waits.For(waits.DeletedInstanceGone)).WakeBy(s.Ending.Deadline)
		}
		return decision{Action: actDeleteInstance, Why: "the VirtualMachine is being deleted"}
	}
	if s.VM.Gone {
		if s.Next != nil {
			return decision{Action: entity.ActNext, Why: "an object of the same name and another UID exists"}
		}
		return decision{Action: entity.ActFinish, Why: "the VirtualMachine is gone"}
	}
	if s.hasFinalizer() {
		return decision{Action: actRemoveFinalizer, Why: "its instance is gone"}
	}
	return s.decideStatus(now).Or(waits.For(waits.OtherFinalizers, "VirtualMachine"))
}

// isEndRequested reports whether the end of the existing instance was requested.
func (s *State) isEndRequested() bool {
	return s.Ending != nil && !s.Ending.RequestedAt.IsZero() &&
		(s.VMI == nil || s.Ending.VMI == "" || s.Ending.VMI == s.VMI.UID)
}

// deleteInstance requests the end of the instance, and records the actor.
func (e *instance) deleteInstance(ctx workflow.Context, d decision) error {
	s := &e.state
	end := Ending{Transition: entity.Transition{
		Operation: contract.OperationStop, Why: d.Why, Actor: s.actor(), Since: workflow.Now(ctx)}}
	if s.situation() != runstrategy.Absent {
		end.VMI = s.VMI.UID
	}
	if s.Ending != nil && s.Ending.VMI == end.VMI { // a repetition
		end.Since = s.Ending.Since
	}
	s.Ending = &end
	s.RecordOpened(&end.Transition)
	in := contract.DeleteVMIInput{VM: s.Object, VMI: contract.Object{
		Namespace: s.Object.Namespace, Name: s.Object.Name, UID: end.VMI}}
	r, err := entity.Call[contract.DeleteVMIResult](ctx, contract.ActivityDeleteVMI, string(d.Action), in)
	switch {
	case err != nil:
		return e.recordResult(ctx, string(d.Action), contract.ReasonFailedDelete, err)
	case r.Refused != "":
		s.closeEnding(&end, workflow.Now(ctx), contract.TransitionClosed{}, r.Refused)
		if !s.adoptRead(contract.TransitionResult{VM: r.VM, VMI: r.VMI}) { // the refusal had nothing new
			return e.recordResult(ctx, string(d.Action), contract.ReasonFailedDelete, errors.New(r.Refused))
		}
		return nil
	}
	s.Failure = s.Failure.AfterSuccess(string(d.Action))
	now := workflow.Now(ctx)
	s.Ending.RequestedAt, s.Ending.Deadline = now, now.Add(deadline(contract.OperationStop, s.grace()))
	if s.Ending.VMI == "" {
		s.Ending.VMI = r.UID
	}
	if r.Absent {
		s.observeVMI(contract.VMIObservation{UID: end.VMI, Gone: true})
		s.closeEnding(s.Ending, now, contract.TransitionClosed{}, "")
		if r.Orphaned {
			s.Last.Summary = summaryReleased
		}
	}
	return nil
}

// inspectInstance reads an instance whose deadline has passed. If it is gone, that is recorded. Otherwise the deadline
// is extended by what the pod may still take, or the instance is late.
func (e *instance) inspectInstance(ctx workflow.Context) error {
	s, end := &e.state, e.state.Ending
	vmi := contract.Object{Namespace: s.Object.Namespace, Name: s.Object.Name, UID: end.VMI}
	if vmi.UID == "" && s.VMI != nil {
		vmi.UID = s.VMI.UID
	}
	now := workflow.Now(ctx)
	if vmi.UID == "" {
		s.noteLateEnd(now)
		return nil
	}
	r, err := inspect(ctx, vmi)
	if err = e.recordResult(ctx, string(actInspectInstance), contract.ReasonFailedDelete, err); err != nil {
		return err
	}
	if r.VMI == nil {
		s.observeVMI(contract.VMIObservation{UID: vmi.UID, Gone: true})
		return nil
	}
	now = workflow.Now(ctx)
	end.Deadline = endDeadline(now, end.RequestedAt, deadline(contract.OperationStop, s.grace()), r)
	if !now.Before(end.Deadline) {
		s.noteLateEnd(now)
	}
	return nil
}

// noteLateEnd records that the instance was not gone by its deadline.
func (s *State) noteLateEnd(now time.Time) {
	late := fmt.Sprintf("the instance is not gone after %s", now.Sub(s.Ending.Since).Round(time.Second))
	s.Failure = s.Failure.AfterFailure(now, string(actDeleteInstance), reasonDeadline,
		temporal.NewNonRetryableApplicationError(late, contract.ErrorDeadline, nil))
	s.pauseLateStop(now, string(actDeleteInstance))
	s.closeEnding(s.Ending, now, contract.TransitionClosed{Error: late, ErrorType: contract.ErrorDeadline}, late)
}

// followEnding closes the ending when the instance is gone or the outcome is unknown. It also updates the actor: the
// report of who deletes the VM may arrive after the deletion.
func (s *State) followEnding(now time.Time) {
	end := s.Ending
	if end == nil {
		return
	}
	if by := s.RequestedBy(true, s.VM.DeletionTimestamp, end.Actor); by != end.Actor {
		end.Actor = by
		s.RecordOpened(&end.Transition)
	}
	switch {
	case end.OutcomeUnknown:
		lost := "its outcome is unknown, or it was undone"
		s.closeEnding(end, now, contract.TransitionClosed{Error: lost, ErrorType: contract.ErrorOutcomeUnknown}, lost)
	case s.VMI != nil && s.situation() == runstrategy.Absent:
		s.closeEnding(end, now, contract.TransitionClosed{}, "")
	case s.VM.Gone:
		before := "the VirtualMachine was gone before its instance"
		s.closeEnding(end, now, contract.TransitionClosed{Error: before, ErrorType: contract.ErrorGone}, before)
	}
}

// closeEnding records the outcome of an ending.
func (s *State) closeEnding(end *Ending, now time.Time, c contract.TransitionClosed, problem string) {
	o := entity.Outcome{Operation: end.Operation, At: now, Error: problem}
	if problem == "" {
		o.Summary = "The instance is gone."
	}
	s.Ending, s.Last = nil, &o
	s.RecordClosed(&end.Transition, c, o)
}
