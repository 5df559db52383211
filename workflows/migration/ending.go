package migration

import (
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// endFirst is after what time the end of a pod of which nobody tells is looked for, doubled each time. For as long the
// source's pod is left to end by itself when its guest has gone: one that has ended goes in two requests instead of
// five.
const endFirst = 2 * time.Second

// leftOver is the end whose pod is to go: the target's of a migration that failed, the source's of one that was done.
func (s *State) leftOver() *End {
	if s.Result == ResultMoved {
		return &s.Source
	}
	return &s.Target
}

// cleared says that nothing of it is left.
func (s *State) cleared() bool {
	e := s.leftOver()
	return !e.held() || e.Deleted && e.Released
}

// gaveBack says that the cluster's limits know of its end, if they were ever asked.
func (s *State) gaveBack() bool {
	return !s.Admission.Asked && !s.Admission.Returns || s.Admission.Done
}

// mayWithdraw says that the target was asked to be ready, and is to be told that nobody comes.
func (s *State) mayWithdraw() bool {
	return s.PrepareSent && !s.Withdrawn && s.Target.reachable() && s.Target.Pod.ComputeRunning
}

// decideEnd leads from the result to an object of which nothing is left.
func (s *State) decideEnd(now time.Time) decision {
	if s.Result == ResultStayed && s.mayWithdraw() {
		if s.open(actWithdraw) {
			return s.decideStatus(now)
		}
		return decision{Action: actWithdraw, Why: s.failure()}
	}
	if d, ok := s.decideTold(now); ok {
		return d
	}
	if d, ok := s.decideLeftOver(now); ok {
		return d
	}
	ended := s.answered() && s.cleared() && s.gaveBack() && len(s.Open) == 0
	switch {
	case !s.gaveBack() && s.Phase.Final():
		return decision{Action: actGiveBack, Why: "it has ended"}
	case s.VMIGone && !s.Deleted && !s.deleting() && s.cleared():
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

// decideLeftOver takes away the pod that is left over. What it was for is known to whoever has to know.
func (s *State) decideLeftOver(now time.Time) (decision, bool) {
	e := s.leftOver()
	switch {
	case s.Result == ResultMoved && !s.answered(), !e.held():
	case !e.Deleted && now.Before(s.endsBy()):
	case !e.Deleted && e.Pod.DeletionTimestamp == nil:
		return decision{Action: actDeletePod, Object: e.Pod.UID, Why: "the guest is not there"}, true
	case e.Released:
	case e.Pod.Ended(), !e.LookAt.IsZero() && !now.Before(e.LookAt):
		return decision{Action: actReleasePod, Object: e.Pod.UID, Why: "it is to have ended"}, true
	}
	return decision{}, false
}

// endsBy is until when the source's pod is left to end by itself; zero: it is not.
func (s *State) endsBy() time.Time {
	e := &s.Source
	if s.Result != ResultMoved || !e.held() || e.Deleted || e.Pod.DeletionTimestamp != nil || e.Pod.Ended() {
		return time.Time{}
	}
	return s.End.Add(endFirst)
}

func (s *State) waitingForEnd() string {
	switch {
	case s.open(actWithdraw):
		return "the target's node to withdraw it"
	case !s.answered():
		return "the instance to say where its guest is"
	case !s.cleared():
		return "pod " + s.leftOver().name() + " to end"
	default:
		return "the object to go"
	}
}

// refreshEnd keeps an eye on the end of the pod that is left over.
func (s *State) refreshEnd(now time.Time) {
	e := s.leftOver()
	if !e.held() || e.Released || !e.Deleted && e.Pod.DeletionTimestamp == nil {
		e.LookAt = time.Time{}
		return
	}
	if e.LookAt.IsZero() {
		first := endFirst
		if s.Result == ResultStayed {
			first = pauseLongest // its end is observed
		}
		e.LookAt = now.Add(pause(e.Looks+1, first))
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
