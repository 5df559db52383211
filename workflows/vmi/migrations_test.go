package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// runningScope returns what the rules of migrations see of an instance that runs in pod p, with the target q of
// migration x.
func runningScope() scope {
	pod := func(uid, migration string) Launcher {
		return Launcher{Pod: &contract.PodObservation{UID: uid, Phase: "Running", NodeName: "n-" + uid,
			Migration: migration, MigrationName: "m-" + migration}}
	}
	source := pod("p", "")
	source.Domain = &contract.DomainObservation{PodUID: "p", State: contract.DomainRunning}
	return scope{
		VMIObject: &VMIObject{Object: contract.Object{UID: "i"}, VMI: &contract.VMIObservation{UID: "i"}},
		Launchers: &Launchers{Launcher: source, Others: []Launcher{pod("q", "x")}},
		Memory:    &entity.Memory{}, phase: PhaseRunning,
	}
}

// TestRejectedMigrations: what a migration that does not get the reservation is answered, and whether the API server is
// read.
func TestRejectedMigrations(t *testing.T) {
	released := func(stage contract.MigrationStage) contract.ClaimObservation {
		return contract.ClaimObservation{State: contract.ClaimReleased, Stage: stage}
	}
	for name, c := range map[string]struct {
		change func(*Migrations, *scope)
		uid    string
		stage  contract.MigrationStage
		want   contract.ClaimObservation // without its text
		read   bool
	}{
		"a request":         {uid: "x", stage: contract.StageClaim},
		"a move, forgotten": {uid: "x", stage: contract.StageMoved},
		"a stay, forgotten": {uid: "x", stage: contract.StageStayed, want: released(contract.StageStayed)},
		"a move to an unknown pod": {uid: "y", stage: contract.StageMoved, read: true,
			want: contract.ClaimObservation{State: contract.ClaimRefused, Again: true}},
		"a move of what has ended": {uid: "y", stage: contract.StageMoved, want: released(contract.StageStayed),
			change: func(_ *Migrations, in *scope) { in.phase = PhaseFailed }},
		"one that has ended": {uid: "x", stage: contract.StageClaim, want: released(contract.StageMoved),
			change: func(m *Migrations, _ *scope) { m.Ended = []Ended{{UID: "x", Stage: contract.StageMoved}} }},
		"one that the status shows as ended": {uid: "x", stage: contract.StageClaim,
			want: released(contract.StageStayed), change: func(m *Migrations, _ *scope) {
				m.MigrationState = &contract.MigrationState{MigrationUID: "x", Completed: true, Failed: true}
			}},
		"not known whether it can move": {uid: "x", stage: contract.StageClaim, read: true,
			want:   contract.ClaimObservation{State: contract.ClaimRefused, Again: true},
			change: func(m *Migrations, _ *scope) { m.Migratable = nil }},
		"a second one": {uid: "x", stage: contract.StageClaim,
			want: contract.ClaimObservation{State: contract.ClaimRefused},
			change: func(m *Migrations, _ *scope) {
				m.Migration = &Reservation{Migration: contract.Object{UID: "y"}, ConfirmedAt: noon}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			m, in := Migrations{Migratable: &contract.Migratable{}}, runningScope()
			if c.change != nil {
				c.change(&m, &in)
			}
			held := m.Migration
			got := m.rejectMigration(contract.MigrationClaim{Migration: contract.Object{UID: c.uid}, VMIUID: "i",
				Stage: c.stage}, in)
			require.Equal(t, got.State == contract.ClaimRefused, got.Why != "")
			got.Why = ""
			require.Equal(t, c.want, got)
			require.Equal(t, c.read, in.Stale)
			require.True(t, held == nil || held.AskAt.IsZero() && held.ConfirmedAt.IsZero(),
				"the one that holds it is asked whether it still exists")
		})
	}
}

// TestMissingMigration: what becomes of a reservation whose migration no longer exists.
func TestMissingMigration(t *testing.T) {
	for name, c := range map[string]struct {
		stage  contract.MigrationStage
		after  time.Duration
		change func(scope)
		want   contract.MigrationStage // "": the reservation has ended
	}{
		"before the hand-off":           {stage: contract.StageClaim, after: orphanTime - 1, want: contract.StageClaim},
		"before the hand-off, for long": {stage: contract.StageClaim, after: orphanTime},
		"its target runs":               {stage: contract.StageHandOff, after: time.Hour, want: contract.StageHandOff},
		"its target is gone": {stage: contract.StageHandOff, want: contract.StageStayed,
			change: func(in scope) { in.Others = nil }},
		"its target is gone, not read yet": {stage: contract.StageHandOff, want: contract.StageHandOff,
			change: func(in scope) { in.Others, in.Stale = nil, true }},
		"its target has the guest": {stage: contract.StageCopying, want: contract.StageMoved,
			change: func(in scope) {
				in.Domain.State, in.Domain.Reason = contract.DomainShutoff, contract.ReasonMigrated
				in.Others[0].Domain = &contract.DomainObservation{PodUID: "q", State: contract.DomainRunning}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			in, now := runningScope(), noon.Add(c.after)
			m := Migrations{Migration: &Reservation{Migration: contract.Object{UID: "x", Name: "m-x"}, Stage: c.stage,
				MissingSince: noon, AskAt: now.Add(time.Hour)}}
			if c.change != nil {
				c.change(in)
			}
			m.refreshHolder(in, now)
			if c.want == "" {
				require.Nil(t, m.Migration)
				return
			}
			require.Equal(t, c.want, m.Migration.Stage)
		})
	}
}

// TestSearchesForDepartedGuestOnce: a guest that has left its pod is searched for once before it counts as lost. A
// migration that is gone before the hand-off ends its reservation in the same moment, which changes nothing.
func TestSearchesForDepartedGuestOnce(t *testing.T) {
	in := runningScope()
	in.Domain.State, in.Domain.Reason, in.Others = contract.DomainShutoff, contract.ReasonMigrated, nil
	m := Migrations{Migration: &Reservation{Migration: contract.Object{UID: "x", Name: "m-x"},
		Stage: contract.StageClaim, ConfirmedAt: noon, AskAt: noon.Add(time.Hour),
		MissingSince: noon.Add(arrivalTime + time.Second - orphanTime)}}
	m.refreshMigration(in, noon)
	require.Equal(t, noon, m.LeftSince)
	m.refreshMigration(in, noon.Add(arrivalTime))
	require.True(t, m.GuestSearched && in.Stale)
	require.False(t, m.NeverArrived)
	in.Stale = false
	m.refreshMigration(in, noon.Add(arrivalTime+time.Second))
	require.Nil(t, m.Migration)
	require.True(t, m.NeverArrived)
}
