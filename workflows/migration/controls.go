package migration

import (
	"errors"
	"fmt"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// controls are what a person may ask of a migration's entity.
func (e *migration) controls() []entity.Control {
	s := &e.state
	return append(entity.Holdable{
		Manual: &s.Manual, Name: "migration", Check: s.checkHold,
		Hold:     "Make the target's pod, but do not begin to move the guest.",
		Held:     "The guest is not moved until the migration is released.",
		Release:  "Go on.",
		Released: "The migration goes on.",
		// A hold may last: the source's worker that made the offer may have been replaced, and another one has no key.
		OnRelease: func() {
			if !s.handedOff() {
				s.Offer = nil
			}
		},
	}.Controls(), []entity.Control{
		{
			Name: contract.ControlCancel, Does: "The guest stays where it is, unless it has left already.",
			Check: func(contract.ControlRequest) error { return s.unended() },
			Apply: func(_ time.Time, r contract.ControlRequest) (string, error) {
				s.Cancelled = "by " + r.Actor + " (claimed)"
				return "The migration is cancelled.", nil
			},
		},
		{
			Name: contract.ControlPreferNode, Does: "Rather move the guest to that node, if it can run there.",
			Check: s.checkPrefer,
			Apply: func(_ time.Time, r contract.ControlRequest) (string, error) {
				s.Prefer = r.Node
				return "The target's pod is made with a preference for node " + r.Node + ".", nil
			},
		},
		{
			Name: contract.ControlForceComplete, Does: "Pause the guest, so that the rest is copied without it changing.",
			Check: s.checkForce,
			Apply: func(time.Time, contract.ControlRequest) (string, error) {
				s.Pause = true
				return "The guest is paused until it goes on at its target.", nil
			},
		},
		entity.RetryNow(&s.Failure, s.waits, s.hurry),
		entity.Repair(e.loop, s, sound),
	}...)
}

// unended refuses what comes too late.
func (s *State) unended() error {
	switch {
	case s.VMIM == nil:
		return errors.New("the VirtualMachineInstanceMigration has not been seen yet")
	case s.Result != ResultNone || s.Over:
		return errors.New("the migration has ended")
	case s.deleting(), s.Cancelled != "":
		return errors.New("the migration is being cancelled already")
	}
	return nil
}

func (s *State) checkHold() error {
	if err := s.unended(); err != nil {
		return err
	}
	if s.handedOff() || s.MoveUnknown != "" {
		return errors.New("the guest is being moved already; the control cancel ends that")
	}
	return nil
}

func (s *State) checkPrefer(r contract.ControlRequest) error {
	if err := s.unended(); err != nil {
		return err
	}
	switch {
	case r.Node == "":
		return errors.New("node: required")
	case s.Target.Pod != nil:
		return fmt.Errorf("the target has a pod already, %s", s.Target.name())
	}
	return nil
}

func (s *State) checkForce(contract.ControlRequest) error {
	if err := s.unended(); err != nil {
		return err
	}
	switch {
	case !s.open(actMigrate):
		return errors.New("the guest is not being moved now")
	case s.Pause:
		return errors.New("it was asked for already")
	case s.Cause != "":
		return fmt.Errorf("the migration is being aborted: %s", s.Cause)
	}
	return nil
}

// waits says that a back-off lasts, or that a place is waited for.
func (s *State) waits() bool {
	return s.VMIM != nil && s.Result == ResultNone && (s.given() && !s.Admission.Admitted ||
		s.Claim.State == contract.ClaimRefused || s.MoveUnknown != "")
}

// hurry ends the back-off, and asks whoever is waited for once more.
func (s *State) hurry(now time.Time) {
	s.NotBefore, s.QuotaUntil = time.Time{}, time.Time{}
	s.Admission.AskAt, s.Claim.AskAt = now, now
	if s.MoveUnknown != "" {
		s.Look.Count = 0
	}
}

// sound refuses a corrected state that is about something else than the one it corrects, or that makes up what libvirt
// has to say.
func sound(was, now *State) error {
	switch {
	case len(now.Open) > 0:
		return errors.New("open: a call cannot be made up; only an empty list is possible")
	case !entity.Same(was.Proof, now.Proof) && now.Proof != nil:
		return errors.New("proof: is for the source to give")
	case now.Result != was.Result && now.Result != ResultNone:
		return errors.New("result: is for both ends to say; set moveUnknown to have them looked at")
	case !entity.Same(was.Outcome, now.Outcome) && now.Outcome != nil:
		return errors.New("outcome: is for the source to say; set moveUnknown to have both ends looked at")
	case was.Begun && !now.Begun:
		return errors.New("begun: cannot be undone; set moveUnknown to have both ends looked at")
	case !samePod(was.Source.Pod, now.Source.Pod), !samePod(was.Target.Pod, now.Target.Pod):
		return errors.New("a repair cannot make a pod another one; set stale to have them looked for")
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
