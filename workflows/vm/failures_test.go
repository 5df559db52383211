package vm

import (
	"testing"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/planner"
)

func TestEachStepHasItsOwnBackoff(t *testing.T) {
	s := State{}
	s.observeVM(contract.VMObservation{
		UID: "vm", ResourceVersion: "10", RunStrategy: "Always", Finalizers: []string{contract.FinalizerVM},
	})
	planner.PausesAfterFailures(t, time.Unix(1000, 0), func(now time.Time) decision {
		s.refresh(now)
		return s.decide(now)
	}, &s.Failure)
}
