package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

// TestOrphanedPods: which pods of migrations are deleted, and when.
func TestOrphanedPods(t *testing.T) {
	later := noon.Add(orphanTime)
	for name, c := range map[string]struct {
		change func(*State)
		gone   bool // the pod goes after a while
	}{
		"no migration has claimed the instance": {change: func(*State) {}, gone: true},
		"another has": {change: func(s *State) {
			s.Migration = &Reservation{Migration: contract.Object{Name: "m-y", UID: "y"},
				ConfirmedAt: noon, AskAt: later.Add(1)}
		}, gone: true},
		"its own has": {change: func(s *State) {
			s.Migration = &Reservation{Migration: contract.Object{Name: "m-x", UID: "x"},
				ConfirmedAt: noon, AskAt: later.Add(1)}
		}},
		"its own has, and is not there": {change: func(s *State) {
			s.Migration = &Reservation{Migration: contract.Object{Name: "m-x", UID: "x"}, AskAt: later.Add(1),
				MissingSince: noon, Stage: contract.StageHandOff, Written: contract.StageHandOff}
		}, gone: true},
		"made for none":           {change: func(s *State) { s.Others[0].Pod.Migration = "" }},
		"migration unknown":       {change: func(s *State) { s.Others[0].Pod.MigrationName = "" }},
		"it has ended":            {change: func(s *State) { s.Others[0].Pod.Phase = "Succeeded" }},
		"the guest is on its way": {change: func(s *State) { s.Domain.Migration = &contract.MigrationProgress{} }},
		"domain unknown":          {change: func(s *State) { s.Domain = nil }},
		"the guest has left": {change: func(s *State) {
			s.Domain.State, s.Domain.Reason = contract.DomainShutoff, contract.ReasonMigrated
		}},
		"the guest seems to run there": {change: func(s *State) {
			s.Others[0].Domain = &contract.DomainObservation{PodUID: "q", State: contract.DomainRunning}
		}},
		"the source's node is away": {change: func(s *State) { s.Node = &contract.NodeState{PodUID: s.Pod.UID} }},
		"the guest stands still for its move": {change: func(s *State) {
			s.Domain.State, s.Domain.Reason = contract.DomainPaused, contract.PausedMigration
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := movable()
			pod := another("x")
			pod.MigrationName = "m-x"
			s.observePod(pod)
			c.change(s)
			s.refreshOrphans(&s.Launchers, noon)
			_, due := s.decideOrphans(s.scope(), noon)
			require.False(t, due, "its migration may still send a signal")
			s.refreshOrphans(&s.Launchers, later)
			d, due := s.decideOrphans(s.scope(), later)
			require.Equal(t, c.gone, due)
			if !due {
				return
			}
			require.Equal(t, actDeleteOrphan, d.Action)
			require.Equal(t, "q", d.Object)
			require.False(t, s.nextWake(noon).IsZero())
			require.False(t, s.nextWake(noon).After(later), "it is looked at then")
			s.Others[0].PodDeleted = true
			s.refreshOrphans(&s.Launchers, later.Add(time.Second))
			_, due = s.decideOrphans(s.scope(), later.Add(time.Second))
			require.False(t, due, "once")
		})
	}
}
