package replicaset

import (
	"fmt"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

type (
	action   = entity.Action
	decision = entity.Decision
)

// Steps.
const (
	actFind   = action("look for the replicas")
	actClaim  = action("adopt and release instances")
	actSignal = action("signal the progress of the replicas")
)

// replicate names the transition where it failed.
const replicate = string(contract.OperationReplicate)

// decide is the planner: pure and total.
func (s *State) decide(now time.Time) decision {
	return s.open().Decide(now, func(now time.Time) decision {
		return s.Failure.HoldBack(s.choose(now), now, s.decideStatus)
	})
}

// choose is the planner in order of urgency.
func (s *State) choose(now time.Time) decision {
	if s.Set == nil && s.Missed {
		return decision{Action: entity.ActFinish,
			Why: "the VirtualMachineInstanceReplicaSet was gone before it was seen"}
	}
	if s.Set == nil {
		return decision{Waiting: "the first observation of the VirtualMachineInstanceReplicaSet"}
	}
	if s.Set.Gone {
		return s.decideEnd()
	}
	switch {
	case s.Open != nil && s.Open.CancelReason != "" && !s.Open.Cancelled:
		return decision{Action: entity.ActCancel, Why: s.Open.CancelReason}
	case s.Set.DeletionTimestamp != nil:
		return s.still(now, "the VirtualMachineInstanceReplicaSet is being deleted",
			"the garbage collector: it deletes the instances, or orphans them, as was asked")
	case s.Set.Unusable != "":
		return s.still(now, s.Set.Unusable, "another specification: "+s.Set.Unusable)
	case !s.Known:
		return decision{Action: actFind, Why: "what there is must be known before anything is made or removed"}
	}
	if adopt, release := s.claims(); len(adopt)+len(release) > 0 {
		return decision{Action: actClaim,
			Why: fmt.Sprintf("%d match and belong to nobody, %d match no longer", len(adopt), len(release))}
	}
	if s.Set.Paused {
		return s.still(now, "the replica set is paused", "spec.paused to be false")
	}
	if s.Open != nil {
		return s.decideOpen(now)
	}
	return s.decideNeeds(now)
}

// decideEnd ends what is open, and then itself. The instances are the garbage collector's.
func (s *State) decideEnd() decision {
	switch {
	case s.Open != nil && !s.Open.Cancelled:
		return decision{Action: entity.ActCancel, Why: "the VirtualMachineInstanceReplicaSet is gone"}
	case s.Open != nil:
		return decision{Waiting: "the cancelled transition to end"}
	case s.Next != nil:
		return decision{Action: entity.ActNext, Why: "an object of the same name and another UID exists"}
	default:
		return decision{Action: entity.ActFinish, Why: "the VirtualMachineInstanceReplicaSet is gone"}
	}
}

// still keeps the status and changes nothing else; what is open is cancelled.
func (s *State) still(now time.Time, why, waiting string) decision {
	if s.Open != nil && !s.Open.Cancelled {
		return decision{Action: entity.ActCancel, Why: why}
	}
	return s.decideStatus(now).Or(waiting)
}

// decideOpen follows the open transition, and ends it early when something else is needed.
func (s *State) decideOpen(now time.Time) decision {
	t := s.Open
	if t.Cancelled {
		return s.decideStatus(now).Or("the cancelled transition to end")
	}
	if t.Replicas != s.Set.Replicas {
		return decision{Action: entity.ActCancel,
			Why: fmt.Sprintf("a newer scale: %d instead of %d", s.Set.Replicas, t.Replicas)}
	}
	if t.Reported.Done {
		return s.decideStatus(now).Or("the transition to end")
	}
	if p := s.latest(); p.Done || worth(p.Running, t.Reported.Running, t.Make) ||
		worth(p.Gone, t.Reported.Gone, len(t.Remove)+len(t.Finished)) {
		return decision{Action: actSignal, Why: "there is progress"}
	}
	return s.decideStatus(now).Or("the replicate transition")
}

// latest is the progress that the open transition is to hear of. It ends where another transition has to go on.
func (s *State) latest() contract.ReplicateProgress {
	p := s.progress()
	if n := s.needs(); !p.Done && s.settled() && !n.none() {
		p.Done, p.Note = true, "another transition goes on: "+n.why(len(s.active()), s.Set.Replicas)
	}
	return p
}

// worth says whether a number is worth a signal after another one, on a way of so many steps: a tenth of the way is.
func worth(now, last, steps int) bool {
	return now != last && max(now-last, last-now) >= max(1, steps/10)
}

// decideNeeds opens the transition that is needed.
func (s *State) decideNeeds(now time.Time) decision {
	n := s.needs()
	if n.none() {
		return s.decideStatus(now).Or("nothing: there are as many replicas as wanted")
	}
	if s.hopeless(n, now) {
		d := s.decideStatus(now)
		if d.Action == entity.ActNone {
			d.WakeAt, d.Waiting = s.CrashLoopUntil,
				fmt.Sprintf("the back-off after %d replicas that ended without having run", s.CrashLoop)
		}
		return d
	}
	open := decision{Action: entity.ActOpen, Operation: contract.OperationReplicate,
		Why: n.why(len(s.active()), s.Set.Replicas)}
	return s.subject().Guard(open, func() decision { return s.decideStatus(now) })
}

func (s *State) decideStatus(now time.Time) decision {
	if s.Set.Gone {
		return decision{}
	}
	write, at := s.differs(now)
	if !write {
		return decision{WakeAt: at}
	}
	return decision{Action: entity.ActWrite, Why: "it differs from what was written"}
}
