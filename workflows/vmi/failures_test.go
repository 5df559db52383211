package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/planner"
	"github.com/virtflow/virtflow/workflows/entity"
)

func TestEachStepHasItsOwnBackoff(t *testing.T) {
	s := State{}
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "10", Phase: "Pending"})
	planner.PausesAfterFailures(t, noon, func(now time.Time) decision {
		s.refresh(now)
		return s.decide(now)
	}, &s.Failure)
}

// TestFailedStepDoesNotBlockDeletion: neither a status that the API server refuses, during a migration, nor the
// finalizer of another pod that has ended.
func TestFailedStepDoesNotBlockDeletion(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*State)
		step   action
	}{
		"the status": {step: entity.ActWrite, change: func(s *State) {
			s.observePod(another("x"))
			s.observeReservation(claimOf("x", contract.StageHandOff), noon)
		}},
		"the finalizer of a pod": {step: actRemovePodFinalizer, change: func(s *State) {
			ended, code := another(""), int32(0)
			ended.Phase, ended.ExitCode, ended.Finalizers = "Succeeded", &code, []string{contract.FinalizerPod}
			s.observePod(ended)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := movable()
			c.change(s)
			s.VMI.DeletionTimestamp = &noon
			s.refresh(noon)
			d := s.decide(noon)
			require.Equal(t, c.step, d.Action, "%+v", d)
			late := noon.Add(2 * migrationEndTime)
			s.Failure = &entity.Failure{Step: d.Step(), Message: "refused", Count: 9, RetryAt: late.Add(time.Minute)}
			for range 3 {
				d = s.decide(late)
				if d.Action != actDeletePod {
					break
				}
				s.launcher(d.Object).Pod.DeletionTimestamp = &noon
			}
			require.NotNil(t, s.Pod.DeletionTimestamp, "%+v", d)
			require.False(t, d.WakeAt.After(s.Failure.RetryAt), "%+v", d)
			d = s.decide(s.Failure.RetryAt)
			require.Equal(t, c.step, d.Action, "%+v", d)
		})
	}
}
