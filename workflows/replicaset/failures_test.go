package replicaset

import (
	"testing"
	"time"

	"github.com/virtflow/virtflow/testsuite/planner"
)

func TestEachStepHasItsOwnBackoff(t *testing.T) {
	s := settledState(3)
	planner.PausesAfterFailures(t, begin(), func(now time.Time) decision {
		s.setConditions(now)
		return s.decide(now)
	}, &s.Failure)
}
