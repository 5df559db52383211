package migration

import (
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

// How long a migration waits. KubeVirt's numbers, but for the last three.
const (
	unschedulableTime = 300 * time.Second
	pendingTime       = 900 * time.Second
	// handOffTime is for the instance's answer to the hand-off.
	handOffTime = 2 * time.Minute
	// copySlack is what a copy may take beyond its completion time-out, by which the source ends it itself.
	copySlack = 2 * time.Minute
	// copyLongest is for one that has no completion time-out.
	copyLongest = 24 * time.Hour
)

// gigabyte is the decimal one that KubeVirt counts completion time-outs by, although their name says otherwise.
const gigabyte = 1_000_000_000

// cause finds out why the guest is not to be moved, if it is not ("": it is). What was found first stays.
func (s *State) cause(now time.Time) string {
	at := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	switch {
	case s.vmiEnded():
		return wordVMIEnded
	case s.deleting():
		return wordCanceled
	case s.Cancelled != "":
		return wordCanceled + ", " + s.Cancelled
	case s.Target.Pod != nil && s.Target.Pod.Gone:
		return wordTargetRemoved
	case s.Target.ended():
		return wordTargetEnded
	case s.Target.Pod != nil && s.Target.Pod.DeletionTimestamp != nil && !s.Begun:
		return wordTargetRemoved
	case s.MoveUnknown != "" || s.Proof != nil: // both ends have the say first
		return ""
	case s.Target.Pod == nil && !s.Begun && s.Phase != PhaseUnset && s.Phase != PhasePending && !s.Phase.Final():
		return wordTargetRemoved // an earlier run has made it, and there is none any more
	case s.Claim.State == contract.ClaimRefused && !s.Claim.Again:
		if s.Claim.Why == "" {
			return wordInProgress
		}
		return s.Claim.Why
	case s.Claim.State == contract.ClaimReleased:
		return wordCleared
	case at(s.unschedulableBy()):
		return wordUnschedulable
	case at(s.pendingBy()):
		return wordPending
	case at(s.handOffBy()):
		return wordNoAnswer
	case s.Begun && at(s.CopyBy):
		return wordTooLong
	default:
		return ""
	}
}

// unschedulableBy is until when the target's pod may be without a node (zero: it has one).
func (s *State) unschedulableBy() time.Time {
	if p := s.Target.Pod; p == nil || p.Unschedulable == nil || p.NodeName != "" || s.Begun {
		return time.Time{}
	}
	return s.scheduledBy(s.VMIM.UnschedulableSeconds, unschedulableTime)
}

// pendingBy is until when the target's pod has to run (zero: it does, or has).
func (s *State) pendingBy() time.Time {
	if s.Target.Pod == nil || s.Target.Pod.ComputeRunning || s.Begun || !s.phaseTime(PhaseScheduled).IsZero() {
		return time.Time{}
	}
	return s.scheduledBy(s.VMIM.PendingSeconds, pendingTime)
}

func (s *State) scheduledBy(seconds *int64, usual time.Duration) time.Time {
	since := s.phaseTime(PhaseScheduling)
	if since.IsZero() {
		return time.Time{}
	}
	if seconds != nil {
		usual = time.Duration(min(max(*seconds, 0), int64(copyLongest/time.Second))) * time.Second
	}
	return since.Add(usual)
}

// handOffBy is until when the instance has to answer (zero: it has, or was not asked).
func (s *State) handOffBy() time.Time {
	if !s.handedOff() || s.Begun || s.Prepared != nil || s.answered() {
		return time.Time{}
	}
	return s.HandOffAt.Add(handOffTime)
}

// completion is how long the copy may take, in seconds; 0: as long as it does.
func (s *State) completion() int64 {
	if s.Settings == nil {
		return 0
	}
	size := s.GuestMemory
	if s.Offer != nil {
		size = max(size, s.Offer.Memory)
		for _, d := range s.Offer.Disks {
			if d.Copied {
				size += d.Size
			}
		}
	}
	return (size + gigabyte - 1) / gigabyte * s.Settings.Configuration.CompletionPerGiB
}

// copyTime is until when the copy is waited for. Where the guest may be paused to come to an end, it is given the time
// once more.
func (s *State) copyTime() time.Duration {
	seconds := s.completion()
	if seconds == 0 {
		return copyLongest
	}
	if s.Settings.Configuration.Disruption || s.Pause {
		seconds *= 2
	}
	return min(time.Duration(min(seconds, int64(copyLongest/time.Second)))*time.Second+copySlack, copyLongest)
}
