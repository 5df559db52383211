package vm

import (
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
)

// countFailedStart counts instances that ended without ever running, and resets the count once one has run.
func (s *State) countFailedStart(now time.Time) {
	if s.StartFailure != nil && (s.VMI != nil && s.VMI.EverRan || !runstrategy.BacksOff(s.strategy())) {
		s.StartFailure = nil
	}
	sit := s.situation()
	if sit != runstrategy.Failed && sit != runstrategy.Succeeded || s.VMI.EverRan ||
		!runstrategy.BacksOff(s.strategy()) {
		return
	}
	if s.StartFailure != nil && s.StartFailure.LastFailedVMIUID == s.VMI.UID {
		return
	}
	count := 1
	if s.StartFailure != nil {
		count = s.StartFailure.ConsecutiveFailCount + 1
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

// isBackingOff reports whether the next start has to wait because earlier instances never ran.
func (s *State) isBackingOff(now time.Time) bool {
	return s.StartFailure != nil && s.StartFailure.RetryAfter != nil && now.Before(*s.StartFailure.RetryAfter)
}
