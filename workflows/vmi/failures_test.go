package vmi

import (
	"testing"
	"time"

	"github.com/virtflow/virtflow/testsuite/planner"
	"github.com/virtflow/virtflow/workflows/contract"
)

func TestFailuresHaveAPauseEach(t *testing.T) {
	s := State{}
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "10", Phase: "Pending"})
	planner.PausesAfterFailures(t, noon, func(now time.Time) decision {
		s.refresh(now)
		return s.decide(now)
	}, &s.Failure)
}
