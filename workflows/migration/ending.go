package migration

import (
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/waits"
)

// endFirst is when the end of a pod is looked for that no observation reports, doubled each time. For as long the
// source's pod may end by itself after its guest has left: deleting one that has ended takes two requests instead of
// five.
const endFirst = 2 * time.Second

// leftOver returns the end whose pod is to be deleted: the target's after a failure, the source's after a success.
func (s *State) leftOver() *End {
	if s.Result == ResultMoved {
		return &s.Source
	}
	return &s.Target
}

// isCleanedUp reports whether no pod of the migration is left.
func (s *State) isCleanedUp() bool {
	e := s.leftOver()
	return !e.hasPod() || e.Deleted && e.Released
}

// hasReturnedAdmission reports whether the migration queue knows of the end, if it ever got a request.
func (s *State) hasReturnedAdmission() bool {
	return !s.Admission.Asked && !s.Admission.Returns || s.Admission.Done
}

// canWithdraw reports whether the target was prepared and is still to be withdrawn.
func (s *State) canWithdraw() bool {
	return s.PrepareSent && !s.Withdrawn && s.Target.isReachable() && s.Target.Pod.ComputeRunning
}

// decideEnd leads from the result to an object that has nothing left to clean up.
func (s *State) decideEnd(now time.Time) decision {
	if s.Result == ResultStayed && s.canWithdraw() {
		if s.isOpen(actWithdraw) {
			return s.decideStatus(now)
		}
		return decision{Action: actWithdraw, Why: s.failure()}
	}
	if d, ok := s.decideClaim(now); ok {
		return d
	}
	if d, ok := s.decideLeftOver(now); ok {
		return d
	}
	ended := s.isAnswered() && s.isCleanedUp() && s.hasReturnedAdmission() && len(s.Open) == 0
	switch {
	case !s.hasReturnedAdmission() && s.Phase.Final():
		return decision{Action: actGiveBack, Why: "it has ended"}
	case s.VMIGone && !s.Deleted && !s.isDeleting() && s.isCleanedUp():
		return decision{Action: actDelete, Why: "its instance is gone"}
	case ended && s.VMIM.Gone && s.Next != nil:
		return decision{Action: entity.ActNext, Why: "an object of the same name and another UID exists"}
	case ended && s.VMIM.Gone:
		return decision{Action: entity.ActFinish, Why: "the VirtualMachineInstanceMigration is gone"}
	case ended && s.Phase.Final() && len(s.ownFinalizers()) > 0:
		return decision{Action: actRemoveFinalizer, Why: "it has ended, and nothing of it is left"}
	case ended && s.Phase.Final() && !s.differs():
		return decision{Action: entity.ActFinish, Why: "it has ended, and nothing of it is left"}
	default:
		return s.decideStatus(now)
	}
}

// decideLeftOver returns the step that deletes the pod that is left over, or removes its finalizer once it has ended or
// should have. After a move it waits until the instance has confirmed the result, and lets the pod end by itself for a
// while.
func (s *State) decideLeftOver(now time.Time) (decision, bool) {
	e := s.leftOver()
	switch {
	case s.Result == ResultMoved && !s.isAnswered(), !e.hasPod():
	case !e.Deleted && now.Before(s.endsBy()):
	case !e.Deleted && e.Pod.DeletionTimestamp == nil:
		return decision{Action: actDeletePod, Object: e.Pod.UID, Why: "the guest is not there"}, true
	case e.Released:
	case e.Pod.Ended(), !e.LookAt.IsZero() && !now.Before(e.LookAt):
		return decision{Action: actReleasePod, Object: e.Pod.UID, Why: "it should have ended"}, true
	}
	return decision{}, false
}

// endsBy returns the time until which the source's pod may end by itself; zero: the workflow does not wait for that.
func (s *State) endsBy() time.Time {
	e := &s.Source
	if s.Result != ResultMoved || !e.hasPod() || e.Deleted || e.Pod.DeletionTimestamp != nil || e.Pod.Ended() {
		return time.Time{}
	}
	return s.End.Add(endFirst)
}

func (s *State) waitingForEnd() waits.Wait {
	switch {
	case s.isOpen(actWithdraw):
		return waits.For(waits.Withdrawal)
	case !s.isAnswered():
		return waits.For(waits.ConfirmedResult)
	case !s.isCleanedUp():
		return waits.For(waits.PodEnd, s.leftOver().podName())
	default:
		return waits.For(waits.ObjectGone)
	}
}

// refreshEnd sets when to look for the end of the pod that is left over.
func (s *State) refreshEnd(now time.Time) {
	e := s.leftOver()
	if !e.hasPod() || e.Released || !e.Deleted && e.Pod.DeletionTimestamp == nil {
		e.LookAt = time.Time{}
		return
	}
	if e.LookAt.IsZero() {
		first := endFirst
		if s.Result == ResultStayed {
			first = pauseLongest // its end is observed
		}
		e.LookAt = now.Add(backoff(e.Looks+1, first))
	}
}

func (s *State) ownFinalizers() []string {
	for _, f := range s.VMIM.Finalizers {
		if f == contract.FinalizerMigration {
			return []string{f}
		}
	}
	return nil
}
