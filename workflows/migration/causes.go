package migration

import (
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

// How long a migration waits. KubeVirt's numbers, where a constant says nothing else.
const (
	unschedulableTime = 300 * time.Second
	pendingTime       = 900 * time.Second
	// pendingLongest bounds what the annotation may ask for: other migrations wait for the position meanwhile.
	pendingLongest = 30 * time.Minute
	// forbiddenTries is how often the target's pod may be forbidden, for another reason than a quota.
	forbiddenTries = 3
	// handOffTime is for the instance's answer to the hand-off, and before that for the settings.
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
	case at(s.configureBy()):
		return wordNoSettings + s.Failure.Of(string(actConfigure)).Message
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
	return after(s.phaseTime(PhaseScheduling), s.VMIM.UnschedulableSeconds, unschedulableTime, pendingLongest)
}

// pendingBy is until when the target has to have a pod that runs (zero: it has, or had). It counts from the admission
// on: what has a position and no pod keeps others from theirs as well.
func (s *State) pendingBy() time.Time {
	p := s.Target.Pod
	if !s.Admission.Admitted || p != nil && p.ComputeRunning || s.Begun || !s.phaseTime(PhaseScheduled).IsZero() {
		return time.Time{}
	}
	since := s.Admission.At
	if t := s.phaseTime(PhaseScheduling); since.IsZero() || !t.IsZero() && t.Before(since) {
		since = t
	}
	return after(since, s.VMIM.PendingSeconds, pendingTime, pendingLongest)
}

// after is the end of a wait; seconds are an annotation's (nil: there is none).
func after(since time.Time, seconds *int64, usual, longest time.Duration) time.Time {
	if since.IsZero() {
		return time.Time{}
	}
	if seconds != nil {
		usual = time.Duration(min(max(*seconds, 0), int64(longest/time.Second))) * time.Second
	}
	return since.Add(usual)
}

// configureBy is until when it has to be known how the guest is to be moved (zero: it is, or nobody has failed to say).
func (s *State) configureBy() time.Time {
	since := s.phaseTime(PhaseScheduled)
	if since.IsZero() || s.Settings != nil || s.Begun || s.Failure.Of(string(actConfigure)) == nil {
		return time.Time{}
	}
	return since.Add(handOffTime)
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
