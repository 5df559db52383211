package vm

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// actDeleteInstance is a stop without a child workflow: that of a VM which is being deleted. There is nothing that
// could supersede it or be compensated, and the entity's own history ends with it and stays, so that is its record.
const actDeleteInstance = action("delete the instance")

// actInspectInstance looks why an instance whose end was asked for is still there.
const actInspectInstance = action("look at the instance")

// Ending is the end of an instance that was asked for because its VM is being deleted.
type Ending struct {
	entity.Transition
	// VMI is the UID of the instance ("": whichever there was).
	VMI string `json:"vmi,omitempty"`
	// Asked is when the API server was asked, from when the deadline counts; zero: it was not.
	Asked time.Time `json:"askedAt,omitzero"`
	// Lost says that nobody knows how it went, or that it is undone.
	Lost bool `json:"lost,omitempty"`
}

// decideEnding deletes the instance, then removes the finalizer.
func (s *State) decideEnding(now time.Time) decision {
	if s.Open != nil && s.Open.Reported.State == contract.ProgressOrphaned {
		return decision{Waiting: "the " + string(s.Open.Operation) + " transition to end: its instance is orphaned"}
	}
	if s.Open != nil && s.Open.Operation != contract.OperationStop {
		return s.cancel("the VirtualMachine is being deleted", now)
	}
	if s.Open != nil {
		return s.decideStatus(now).Or("the instance to be gone")
	}
	// An entity that knows of no instance yet still asks once: the object may be older than this workflow, or have been
	// made by a transition that failed.
	unknown := s.VMI == nil && (s.Last == nil || s.Last.Error != "")
	if !s.VM.Gone && !s.orphaned() && (s.situation() != runstrategy.Absent || unknown) {
		switch {
		case s.asked() && !now.Before(s.Ending.Deadline):
			return decision{Action: actInspectInstance, Why: "the instance is not gone by its deadline"}
		case s.asked():
			return s.decideStatus(now).Or("the instance to be gone").By(s.Ending.Deadline)
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
	return s.decideStatus(now).Or("other finalizers of the VirtualMachine")
}

// asked says that the end of the instance that there is has been asked for.
func (s *State) asked() bool {
	return s.Ending != nil && !s.Ending.Asked.IsZero() &&
		(s.VMI == nil || s.Ending.VMI == "" || s.Ending.VMI == s.VMI.UID)
}

// deleteInstance asks for the end of the instance, and notes who is behind that.
func (e *instance) deleteInstance(ctx workflow.Context, d decision) error {
	s := &e.state
	end := Ending{Transition: entity.Transition{
		Operation: contract.OperationStop, Why: d.Why, Actor: s.actor(), Since: workflow.Now(ctx)}}
	if s.situation() != runstrategy.Absent {
		end.VMI = s.VMI.UID
	}
	if s.Ending != nil && s.Ending.VMI == end.VMI { // it is tried again
		end.Since = s.Ending.Since
	}
	s.Ending = &end
	s.Opened(&end.Transition)
	in := contract.DeleteVMIInput{VM: s.Object, VMI: contract.Object{
		Namespace: s.Object.Namespace, Name: s.Object.Name, UID: end.VMI}}
	r, err := entity.Call[contract.DeleteVMIResult](ctx, contract.ActivityDeleteVMI, string(d.Action), in)
	switch {
	case err != nil:
		return e.settle(ctx, string(d.Action), contract.ReasonFailedDelete, err)
	case r.Refused != "":
		s.ended(&end, workflow.Now(ctx), contract.TransitionClosed{}, r.Refused)
		if !s.correct(contract.TransitionResult{VM: r.VM, VMI: r.VMI}) { // it was decided from the same
			return e.settle(ctx, string(d.Action), contract.ReasonFailedDelete, errors.New(r.Refused))
		}
		return nil
	}
	s.Failure = s.Failure.Succeeded(string(d.Action))
	now := workflow.Now(ctx)
	s.Ending.Asked, s.Ending.Deadline = now, now.Add(deadline(contract.OperationStop, s.grace()))
	if s.Ending.VMI == "" {
		s.Ending.VMI = r.UID
	}
	if r.Absent {
		s.observeVMI(contract.VMIObservation{UID: end.VMI, Gone: true})
		s.ended(s.Ending, now, contract.TransitionClosed{}, "")
		if r.Orphaned {
			s.Last.Summary = stays
		}
	}
	return nil
}

// inspectInstance finds that an instance whose time is up is gone, gives it what it may still take, or notes that it is
// late.
func (e *instance) inspectInstance(ctx workflow.Context) error {
	s, end := &e.state, e.state.Ending
	vmi := contract.Object{Namespace: s.Object.Namespace, Name: s.Object.Name, UID: end.VMI}
	if vmi.UID == "" && s.VMI != nil {
		vmi.UID = s.VMI.UID
	}
	now := workflow.Now(ctx)
	if vmi.UID == "" {
		s.late(now)
		return nil
	}
	r, err := inspect(ctx, vmi)
	if err = e.settle(ctx, string(actInspectInstance), contract.ReasonFailedDelete, err); err != nil {
		return err
	}
	if r.VMI == nil {
		s.observeVMI(contract.VMIObservation{UID: vmi.UID, Gone: true})
		return nil
	}
	now = workflow.Now(ctx)
	end.Deadline = due(now, end.Asked, deadline(contract.OperationStop, s.grace()), r)
	if !now.Before(end.Deadline) {
		s.late(now)
	}
	return nil
}

// late notes that the instance whose end was asked for has taken too long.
func (s *State) late(now time.Time) {
	late := fmt.Sprintf("the instance is not gone after %s", now.Sub(s.Ending.Since).Round(time.Second))
	s.Failure = s.Failure.Failed(now, string(actDeleteInstance), reasonDeadline,
		temporal.NewNonRetryableApplicationError(late, contract.ErrorDeadline, nil))
	s.pauseLateStop(now, string(actDeleteInstance))
	s.ended(s.Ending, now, contract.TransitionClosed{Error: late, ErrorType: contract.ErrorDeadline}, late)
}

// followEnding notes that the instance whose end is asked for is gone, also where the answer was lost; and who asked
// for that, of which the report may come later than the deletion.
func (s *State) followEnding(now time.Time) {
	end := s.Ending
	if end == nil {
		return
	}
	if by := s.Behind(true, s.VM.DeletionTimestamp, end.Actor); by != end.Actor {
		end.Actor = by
		s.Opened(&end.Transition)
	}
	switch {
	case end.Lost:
		lost := "it is not known how it went, or it is undone"
		s.ended(end, now, contract.TransitionClosed{Error: lost, ErrorType: contract.ErrorOutcomeUnknown}, lost)
	case s.VMI != nil && s.situation() == runstrategy.Absent:
		s.ended(end, now, contract.TransitionClosed{}, "")
	case s.VM.Gone:
		before := "the VirtualMachine was gone before its instance"
		s.ended(end, now, contract.TransitionClosed{Error: before, ErrorType: contract.ErrorGone}, before)
	}
}

// ended records how the end of an instance closed, and forgets it.
func (s *State) ended(end *Ending, now time.Time, c contract.TransitionClosed, problem string) {
	o := entity.Outcome{Operation: end.Operation, At: now, Error: problem}
	if problem == "" {
		o.Summary = "The instance is gone."
	}
	s.Ending, s.Last = nil, &o
	s.Closed(&end.Transition, c, o)
}
