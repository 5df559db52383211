package migration

import (
	"time"

	"github.com/virtflow/virtflow/contract"
)

// Time limits of a migration: KubeVirt's numbers, unless a constant has another source.
const (
	unschedulableTime = 300 * time.Second
	pendingTime       = 900 * time.Second
	// pendingLongest bounds the annotation's value: other migrations wait for the admission meanwhile.
	pendingLongest = 30 * time.Minute
	// returnTime is how long an admitted migration may wait for a node before it returns its admission to others, and
	// startTime how long for a target's pod that has a node and does not run.
	returnTime, startTime = 30 * time.Second, 2 * time.Minute
	// forbiddenTries is how often the API server may forbid the target's pod, for another reason than a quota: with
	// the back-offs between the attempts, two minutes.
	forbiddenTries = 8
	// forbiddenRepeated is the same where each of them was itself nine attempts, as in v0.1.0.
	forbiddenRepeated = 3
	// handOffTime bounds the wait for the instance's answer to the hand-off, and the one for the settings before it.
	handOffTime = 2 * time.Minute
	// copySlack is the time that a copy may take beyond its completion time-out, at which the source itself ends it.
	copySlack = 2 * time.Minute
	// copyLongest bounds a copy that has no completion time-out.
	copyLongest = 24 * time.Hour
)

// gigabyte is decimal, as KubeVirt computes completion time-outs, although their name has GiB.
const gigabyte = 1_000_000_000

// causeToStop returns why the guest is not to be moved ("": it is). The first cause stays.
func (s *State) causeToStop(now time.Time) string {
	at := func(t time.Time) bool { return !t.IsZero() && !now.Before(t) }
	switch {
	case s.vmiEnded():
		return wordVMIEnded
	case s.isDeleting():
		return wordCanceled
	case s.Cancelled != "":
		return wordCanceled + ", " + s.Cancelled
	case s.Target.Pod != nil && s.Target.Pod.Gone:
		return wordTargetRemoved
	case s.Target.hasEnded():
		return wordTargetEnded
	case s.Target.Pod != nil && s.Target.Pod.DeletionTimestamp != nil && !s.Begun:
		return wordTargetRemoved
	case s.MoveUnknown != "" || s.Proof != nil: // the state of both ends decides first
		return ""
	case s.Target.Pod == nil && !s.Begun && s.Phase != PhaseUnset && s.Phase != PhasePending && !s.Phase.Final():
		return wordTargetRemoved // an earlier run has made it, and it is gone
	case s.Claim.State == contract.ClaimRefused && !s.Claim.MayAskAgain:
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
		return wordNoSettings + s.Failure.OfStep(string(actConfigure)).Message
	case at(s.handOffBy()):
		return wordNoAnswer
	case s.Begun && at(s.CopyBy):
		return wordTooLong
	default:
		return ""
	}
}

// unschedulableBy returns the time until which the target's pod may lack a node (zero: it has one).
func (s *State) unschedulableBy() time.Time {
	if p := s.Target.Pod; p == nil || p.Unschedulable == nil || p.NodeName != "" || s.Begun {
		return time.Time{}
	}
	return waitEnd(s.phaseTime(PhaseScheduling), s.VMIM.UnschedulableSeconds, unschedulableTime, pendingLongest)
}

// pendingBy returns the time until which the target's pod has to run (zero: it does, or did). It counts from the
// admission on, since an admitted migration without a pod blocks others as well.
func (s *State) pendingBy() time.Time {
	p := s.Target.Pod
	if !s.Admission.Admitted && !s.Admission.Unscheduled || p != nil && p.ComputeRunning || s.Begun ||
		!s.phaseTime(PhaseScheduled).IsZero() {
		return time.Time{}
	}
	since := s.Admission.At
	if t := s.phaseTime(PhaseScheduling); since.IsZero() || !t.IsZero() && t.Before(since) {
		since = t
	}
	return waitEnd(since, s.VMIM.PendingSeconds, pendingTime, pendingLongest)
}

// waitEnd returns the end of a wait; seconds are an annotation's (nil: there is none).
func waitEnd(since time.Time, seconds *int64, usual, longest time.Duration) time.Time {
	if since.IsZero() {
		return time.Time{}
	}
	if seconds != nil {
		usual = time.Duration(min(max(*seconds, 0), int64(longest/time.Second))) * time.Second
	}
	return since.Add(usual)
}

// configureBy returns the time until which the settings have to be known (zero: they are, or no read has failed).
func (s *State) configureBy() time.Time {
	since := s.phaseTime(PhaseScheduled)
	if since.IsZero() || s.Settings != nil || s.Begun || s.Failure.OfStep(string(actConfigure)) == nil {
		return time.Time{}
	}
	return since.Add(handOffTime)
}

// handOffBy returns the time until which the instance has to answer the hand-off (zero: it has, or has none to answer).
func (s *State) handOffBy() time.Time {
	if !s.isHandedOff() || s.Begun || s.Prepared != nil || s.isAnswered() {
		return time.Time{}
	}
	return s.HandOffAt.Add(handOffTime)
}

// completionSeconds returns how long the copy may take, in seconds; 0: there is no limit.
func (s *State) completionSeconds() int64 {
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

// copyTime returns how long the workflow waits for the copy. Where the guest may be paused to complete it, the time
// counts twice.
func (s *State) copyTime() time.Duration {
	seconds := s.completionSeconds()
	if seconds == 0 {
		return copyLongest
	}
	if s.Settings.Configuration.Disruption || s.Pause {
		seconds *= 2
	}
	return min(time.Duration(min(seconds, int64(copyLongest/time.Second)))*time.Second+copySlack, copyLongest)
}
