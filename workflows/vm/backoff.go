package vm

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
)

// A VM whose instances run only for moments would make a pod each few seconds. So once maxEnds instances have ended
// within endsWithin and were replaced, each further end delays the next start, as instances that never ran do. KubeVirt
// has no such limit.
const (
	maxEnds    = 30
	endsWithin = time.Hour
)

// recordEnd records the end of an instance that the run strategy replaces.
func (s *State) recordEnd(now time.Time) {
	n := len(s.Ends)
	if !s.isReplaced() || n > 0 && s.Ends[n-1].VMI == s.VMI.UID {
		return
	}
	s.Ends = append(slices.Clone(s.Ends[max(0, n+1-maxEnds):]), End{VMI: s.VMI.UID, At: now})
}

// isReplaced reports whether the instance has ended, and the run strategy asks for another one.
func (s *State) isReplaced() bool {
	switch s.strategy() {
	case runstrategy.Always:
		return s.hasInstanceEnded()
	case runstrategy.RerunOnFailure:
		return s.hasInstanceEnded() && (s.situation() == runstrategy.Failed || s.VMI.Evicted)
	default:
		return false
	}
}

// hasInstanceEnded reports whether the instance has ended, and is not being deleted yet.
func (s *State) hasInstanceEnded() bool {
	sit := s.situation()
	return sit == runstrategy.Failed || sit == runstrategy.Succeeded
}

// limitsEnds reports whether this run limits how often instances are replaced.
func (s *State) limitsEnds() bool { return s.HasChange(contract.ChangeAfterFirst) }

// endsTooOften reports whether maxEnds instances were replaced within endsWithin.
func (s *State) endsTooOften(now time.Time) bool {
	return len(s.Ends) == maxEnds && now.Sub(s.Ends[0].At) < endsWithin && s.limitsEnds()
}

// countFailedStart counts instances that ended without ever running, and resets the count once one has run. While
// instances end too often, those that ran are counted as well.
func (s *State) countFailedStart(now time.Time) {
	if !runstrategy.BacksOff(s.strategy()) {
		s.StartFailure, s.Ends, s.EndedOften = nil, nil, false
		return
	}
	s.recordEnd(now)
	if s.hasRunSinceFailure() {
		s.StartFailure, s.EndedOften = nil, false
	}
	last, often := s.StartFailure, s.endsTooOften(now) && s.isReplaced()
	if !s.hasInstanceEnded() || s.VMI.EverRan && !often || last != nil && last.LastFailedVMIUID == s.VMI.UID {
		return
	}
	count := 1
	if last != nil {
		count = last.ConsecutiveFailCount + 1
	}
	if s.EndedOften = often; often {
		count = max(count, maxEnds)
	}
	at := now.Add(backOff(count, s.VMI.UID)).Truncate(time.Second)
	s.StartFailure = &contract.StartFailure{ConsecutiveFailCount: count, LastFailedVMIUID: s.VMI.UID, RetryAfter: &at}
}

// hasRunSinceFailure reports whether an instance has run since the last one that was counted.
func (s *State) hasRunSinceFailure() bool {
	return s.StartFailure != nil && s.VMI != nil && s.VMI.EverRan &&
		(s.VMI.UID != s.StartFailure.LastFailedVMIUID || !s.limitsEnds())
}

// backOff returns KubeVirt's back-off: 10 s times the square of the count, plus up to half of that, at most 300 s.
// KubeVirt's random part derives from the UID of the failed instance here, so that a replay computes the same.
func backOff(count int, uid string) time.Duration {
	const limit = 300 * time.Second
	d := 10 * time.Second * time.Duration(min(count*count, 30))
	var h uint64 = 14695981039346656037
	for i := range len(uid) {
		h = (h ^ uint64(uid[i])) * 1099511628211
	}
	d += time.Duration(float64(d/2) * float64(h%1000) / 1000)
	return min(d, limit)
}

// isBackingOff reports whether the next start has to wait because earlier instances never ran, or ended too often.
func (s *State) isBackingOff(now time.Time) bool {
	return s.StartFailure != nil && s.StartFailure.RetryAfter != nil && now.Before(*s.StartFailure.RetryAfter)
}
