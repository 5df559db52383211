package migration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// TestKeepsLogicOfRun: every state that replaces another within the run keeps the logic: otherwise a run of v0.1.0
// would change to newer logic, which its history does not have.
func TestKeepsLogicOfRun(t *testing.T) {
	s := State{Logic: entity.LogicWithout(contract.ChangeAfterFirst)}
	n := s.next()
	require.False(t, n.HasChange(contract.ChangeAfterFirst))
	s.forget(nil)
	require.False(t, s.HasChange(contract.ChangeAfterFirst))
}

// TestKeepsReturnedAdmission: a returned admission is kept when the remembered state is dropped: the migration waits
// for its pod and has a deadline.
func TestKeepsReturnedAdmission(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	s := State{VMIM: &contract.MigrationObservation{}, Admission: Admission{At: at, Unscheduled: true}}
	s.forget(nil)
	require.True(t, s.Admission.Unscheduled)
	require.Equal(t, at.Add(pendingTime), s.pendingBy())
}

// TestIgnoresUnrequestedAdmission: a queue of v0.1.0, which does not know Unscheduled, admits without a request:
// otherwise both would signal each other without a pause.
func TestIgnoresUnrequestedAdmission(t *testing.T) {
	s := State{Object: contract.Object{UID: "m"}, Admission: Admission{Unscheduled: true}}
	s.observeAdmission(contract.AdmissionObservation{Migration: "m", Sequence: 1, Admitted: true})
	require.False(t, s.Admission.Admitted)
	s.Admission.Unscheduled = false
	s.observeAdmission(contract.AdmissionObservation{Migration: "m", Sequence: 2, Admitted: true})
	require.True(t, s.Admission.Admitted)
}
