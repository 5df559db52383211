package migration

import (
	"errors"
	"fmt"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// controls returns the controls that a person may send to a migration.
func (e *migration) controls() []entity.Control {
	s := &e.state
	return append(entity.Holdable{
		Manual: &s.Manual, Name: "migration", Check: s.checkHold,
		Hold:     "Make the target's pod, but do not begin to move the guest.",
		Held:     "The guest is not moved until the migration is released.",
		Release:  "Continue the migration.",
		Released: "The migration continues.",
		// A new offer is requested: during a long hold the source's node worker, and with it the key of the old offer,
		// may have been replaced.
		OnRelease: func() {
			if !s.isHandedOff() {
				s.Offer = nil
			}
		},
	}.Controls(), []entity.Control{
		{
			Name: contract.ControlCancel, Does: "The guest stays where it is, unless it has left already.",
			Check: func(contract.ControlRequest) error { return s.checkOpen() },
			Apply: func(_ time.Time, r contract.ControlRequest) (string, error) {
				s.Cancelled = "by " + r.Actor + " (claimed)"
				return "The migration is cancelled.", nil
			},
		},
		{
			Name: contract.ControlPreferNode, Does: "Prefer that node for the guest, if it can run there.",
			Check: s.checkPrefer,
			Apply: func(_ time.Time, r contract.ControlRequest) (string, error) {
				s.Prefer = r.Node
				return "The target's pod is made with a preference for node " + r.Node + ".", nil
			},
		},
		{
			Name: contract.ControlForceComplete, Does: "Pause the guest, so that the copy completes.",
			Check: s.checkForce,
			Apply: func(time.Time, contract.ControlRequest) (string, error) {
				s.Pause = true
				return "The guest is paused until it resumes at its target.", nil
			},
		},
		entity.RetryNow(&s.Failure, s.isWaiting, s.endWaits),
		entity.Repair(e.loop, s, validate),
	}...)
}

// checkOpen refuses a control that comes too late.
func (s *State) checkOpen() error {
	switch {
	case s.VMIM == nil:
		return errors.New("the VirtualMachineInstanceMigration has not been seen yet")
	case s.Result != ResultNone || s.Over:
		return errors.New("the migration has ended")
	case s.isDeleting(), s.Cancelled != "":
		return errors.New("the migration is being cancelled already")
	}
	return nil
}

func (s *State) checkHold() error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	if s.isHandedOff() || s.MoveUnknown != "" {
		return errors.New("the guest is being moved already; the control cancel ends that")
	}
	return nil
}

func (s *State) checkPrefer(r contract.ControlRequest) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	switch {
	case r.Node == "":
		return errors.New("node: required")
	case s.Target.Pod != nil:
		return fmt.Errorf("the target has a pod already, %s", s.Target.podName())
	}
	return nil
}

func (s *State) checkForce(contract.ControlRequest) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	switch {
	case !s.isOpen(actMigrate):
		return errors.New("the guest is not being moved now")
	case s.Pause:
		return errors.New("pausing the guest has already been requested")
	case s.Cause != "":
		return fmt.Errorf("the migration is being aborted: %s", s.Cause)
	}
	return nil
}

// isWaiting reports whether a back-off lasts, or another's answer is awaited.
func (s *State) isWaiting() bool {
	return s.VMIM != nil && s.Result == ResultNone && (s.isGranted() && !s.Admission.Admitted ||
		s.Claim.State == contract.ClaimRefused || s.MoveUnknown != "")
}

// endWaits ends the back-off, and sends again whatever has no answer.
func (s *State) endWaits(now time.Time) {
	s.NotBefore, s.QuotaUntil = time.Time{}, time.Time{}
	s.Admission.AskAt, s.Claim.AskAt = now, now
	if s.MoveUnknown != "" {
		s.Inspection.Count = 0
	}
}

// validate refuses a corrected state that is about another object than the one it corrects, or that makes up what only
// libvirt can report.
func validate(was, now *State) error {
	switch {
	case len(now.Open) > 0:
		return errors.New("open: a call cannot be made up; only an empty list is possible")
	case !entity.Same(was.Proof, now.Proof) && now.Proof != nil:
		return errors.New("proof: only the source can give it")
	case now.Result != was.Result && now.Result != ResultNone:
		return errors.New("result: only the state of both ends decides it; set moveUnknown to have both inspected")
	case !entity.Same(was.Outcome, now.Outcome) && now.Outcome != nil:
		return errors.New("outcome: only the source can report it; set moveUnknown to have both ends inspected")
	case was.Begun && !now.Begun:
		return errors.New("begun: cannot be undone; set moveUnknown to have both ends inspected")
	case !samePod(was.Source.Pod, now.Source.Pod), !samePod(was.Target.Pod, now.Target.Pod):
		return errors.New("pod: a repair cannot replace a pod by another; set stale to have both read")
	}
	return entity.SameObject(was.identity(), now.identity())
}

func samePod(was, now *contract.PodObservation) bool {
	return entity.Same(was, now)
}

func (s *State) identity() entity.Identity[contract.MigrationObservation] {
	return entity.Identity[contract.MigrationObservation]{Field: "vmim", Kind: "VirtualMachineInstanceMigration",
		Object: s.Object, Seen: s.VMIM, Next: s.Next}
}
