package vm

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
)

// A VM whose instances run only for moments would make a pod each few seconds. So from maxEnds ends of instances within
// endsWithin on, each end delays the next start as much as that of many instances that never ran. KubeVirt has no such
// limit.
const (
	maxEnds    = 10
	endsWithin = time.Hour
)

// recordEnd records the end of an instance that ended by itself, or failed.
func (s *State) recordEnd(now time.Time) {
	n := len(s.Ends)
	if !s.hasInstanceEnded() || n > 0 && s.Ends[n-1].VMI == s.VMI.UID {
		return
	}
	s.Ends = append(slices.Clone(s.Ends[max(0, n+1-maxEnds):]), End{VMI: s.VMI.UID, At: now})
}

// hasInstanceEnded reports whether the instance has ended, and is not being deleted yet.
func (s *State) hasInstanceEnded() bool {
	sit := s.situation()
	return sit == runstrategy.Failed || sit == runstrategy.Succeeded
}

// endsTooOften reports whether maxEnds instances have ended within endsWithin.
func (s *State) endsTooOften(now time.Time) bool {
	return len(s.Ends) == maxEnds && now.Sub(s.Ends[0].At) < endsWithin && s.HasChange(contract.ChangeAfterFirst)
}

// countFailedStart counts instances that ended without ever running, and resets the count once one has run. Where
// instances end too often, also one that ran counts.
func (s *State) countFailedStart(now time.Time) {
	s.recordEnd(now)
	last := s.StartFailure
	if last != nil && (!runstrategy.BacksOff(s.strategy()) ||
		s.VMI != nil && s.VMI.EverRan && s.VMI.UID != last.LastFailedVMIUID) {
		last = nil
	}
	s.StartFailure = last
	often := s.endsTooOften(now)
	if !s.hasInstanceEnded() || s.VMI.EverRan && !often || !runstrategy.BacksOff(s.strategy()) ||
		last != nil && last.LastFailedVMIUID == s.VMI.UID {
		return
	}
	count := 1
	if last != nil {
		count = last.ConsecutiveFailCount + 1
	}
	if often {
		count = max(count, maxEnds)
	}
	at := now.Add(backOff(count, s.VMI.UID)).Truncate(time.Second)
	s.StartFailure = &contract.StartFailure{ConsecutiveFailCount: count, LastFailedVMIUID: s.VMI.UID, RetryAfter: &at}
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
