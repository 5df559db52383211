package replicaset

import (
	"fmt"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/waits"
)

type (
	action   = entity.Action
	decision = entity.Decision
)

// Steps. Metrics have these names as a label, and the state keeps that of a failed step.
const (
	actFind   = action("look for the replicas")
	actClaim  = action("adopt and release instances")
	actSignal = action("signal the progress of the replicas")
)

// run names the transition in a Failure.
const replicate = string(contract.OperationReplicate)

// decide is the planner: pure and total.
func (s *State) decide(now time.Time) decision {
	return s.openTransition().Decide(now, func(now time.Time) decision {
		return s.Failure.WithBackoff(s.decideByUrgency(now), now, s.decideStatus)
	})
}

// decideByUrgency returns the most urgent step.
func (s *State) decideByUrgency(now time.Time) decision {
	if s.Set == nil && s.NeverSeen {
		return decision{Action: entity.ActFinish,
			Why: "the VirtualMachineInstanceReplicaSet was gone before it was observed"}
	}
	if s.Set == nil {
		return decision{Waiting: waits.For(waits.FirstObservation, "the VirtualMachineInstanceReplicaSet")}
	}
	if s.Set.Gone {
		return s.decideEnd()
	}
	switch {
	case s.Open != nil && s.Open.CancelReason != "" && !s.Open.Cancelled:
		return decision{Action: entity.ActCancel, Why: s.Open.CancelReason}
	case s.Set.DeletionTimestamp != nil:
		return s.stayIdle(now, "the VirtualMachineInstanceReplicaSet is being deleted",
			waits.For(waits.GarbageCollection))
	case s.Set.Unusable != "":
		return s.stayIdle(now, s.Set.Unusable, waits.For(waits.Specification, s.Set.Unusable))
	case !s.Known:
		return decision{Action: actFind, Why: "the replicas must be known before any is made or removed"}
	}
	if adopt, release := s.ownershipChanges(); len(adopt)+len(release) > 0 {
		return decision{Action: actClaim,
			Why: fmt.Sprintf("%d to adopt, %d to release", len(adopt), len(release))}
	}
	if s.Set.Paused {
		return s.stayIdle(now, "the replica set is paused", waits.For(waits.Unpause))
	}
	if s.Open != nil {
		return s.decideOpen(now)
	}
	return s.decideNeeds(now)
}

// decideEnd ends the open transition, then the entity. The instances are left to the garbage collector.
func (s *State) decideEnd() decision {
	switch {
	case s.Open != nil && !s.Open.Cancelled:
		return decision{Action: entity.ActCancel, Why: "the VirtualMachineInstanceReplicaSet is gone"}
	case s.Open != nil:
		return decision{Waiting: waits.For(waits.CancelledTransition)}
	case s.Next != nil:
		return decision{Action: entity.ActNext, Why: "an object of the same name and another UID exists"}
	default:
		return decision{Action: entity.ActFinish, Why: "the VirtualMachineInstanceReplicaSet is gone"}
	}
}

// stayIdle cancels the open transition and only writes the status.
func (s *State) stayIdle(now time.Time, why string, waiting waits.Wait) decision {
	if s.Open != nil && !s.Open.Cancelled {
		return decision{Action: entity.ActCancel, Why: why}
	}
	return s.decideStatus(now).Or(waiting)
}

// decideOpen follows the open transition, and ends it early when another one is needed.
func (s *State) decideOpen(now time.Time) decision {
	t := s.Open
	if t.Cancelled {
		return s.decideStatus(now).Or(waits.For(waits.CancelledTransition))
	}
	if t.Replicas != s.Set.Replicas {
		return decision{Action: entity.ActCancel,
			Why: fmt.Sprintf("a newer scale: %d instead of %d", s.Set.Replicas, t.Replicas)}
	}
	if t.Reported.Done {
		return s.decideStatus(now).Or(waits.For(waits.TransitionEnd))
	}
	if p := s.reportedProgress(); p.Done || isWorthReporting(p.Running, t.Reported.Running, t.Make) ||
		isWorthReporting(p.Gone, t.Reported.Gone, len(t.Remove)+len(t.Finished)) {
		return decision{Action: actSignal, Why: "the progress has changed"}
	}
	return s.decideStatus(now).Or(waits.For(waits.Transition, contract.OperationReplicate))
}

// reportedProgress returns the progress to signal to the open transition. It is done where another transition has to
// follow.
func (s *State) reportedProgress() contract.ReplicateProgress {
	p := s.progress()
	if n := s.needs(); !p.Done && s.isTransitionObserved() && !n.isEmpty() {
		p.Done, p.Note = true, "another transition follows: "+n.why(len(s.active()), s.Set.Replicas)
	}
	return p
}

// isWorthReporting reports whether a number differs enough from the last one that was signalled or written: by a tenth
// of all steps.
func isWorthReporting(now, last, steps int) bool {
	return now != last && max(now-last, last-now) >= max(1, steps/10)
}

// decideNeeds opens the transition that is needed.
func (s *State) decideNeeds(now time.Time) decision {
	n := s.needs()
	if n.isEmpty() {
		return s.decideStatus(now).Or(waits.For(waits.Nothing, "there are as many replicas as wanted"))
	}
	if s.isBackingOff(n, now) {
		d := s.decideStatus(now)
		if d.Action == entity.ActNone {
			d.WakeAt, d.Waiting = s.CrashLoopUntil, waits.For(waits.ReplicaBackoff, s.CrashLoop)
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
	write, at := s.needsWrite(now)
	if !write {
		return decision{WakeAt: at}
	}
	return decision{Action: entity.ActWrite, Why: "the status differs from the written one"}
}
