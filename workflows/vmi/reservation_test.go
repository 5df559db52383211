package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/entity"
)

// movable returns an instance whose guest can be moved.
func movable() *State {
	s := seen(contract.VMIObservation{Phase: "Running", NodeName: "n"},
		contract.PodObservation{Phase: "Running", NodeName: "n", ComputeRunning: true})
	s.Domain = &contract.DomainObservation{PodUID: "p", Sequence: 1, State: contract.DomainRunning,
		GuestMemory: 1 << 30}
	s.Migratable = &contract.Migratable{Method: "BlockMigration"}
	s.refresh(noon)
	return s
}

func claimOf(uid string, stage contract.MigrationStage) contract.MigrationClaim {
	c := contract.MigrationClaim{Migration: contract.Object{Namespace: "a", Name: "m-" + uid, UID: uid}, VMIUID: "i",
		Stage: stage}
	if stage != contract.StageClaim {
		c.State = &contract.MigrationState{MigrationUID: uid, SourcePod: "launcher", TargetPod: "target",
			TargetNode: "n2"}
	}
	return c
}

// another returns a second pod of the instance.
func another(migration string) contract.PodObservation {
	return contract.PodObservation{UID: "q", Name: "target", VMIUID: "i", Migration: migration, Phase: "Running",
		NodeName: "n2", ComputeRunning: true, ResourceVersion: "3"}
}

// TestRefuseReservation: each reason, and whether the migration may ask again.
func TestRefuseReservation(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*State, *contract.MigrationClaim)
		why    string // a part of it; "": it is given
		again  bool
	}{
		"nothing": {},
		"paused by its user": {change: func(s *State, _ *contract.MigrationClaim) {
			s.Domain.State = contract.DomainPaused
		}},
		"its own target": {change: func(s *State, _ *contract.MigrationClaim) { s.observePod(another("x")) }},
		"handed off, and forgotten": {change: func(s *State, c *contract.MigrationClaim) {
			s.observePod(another("x"))
			*c = claimOf("x", contract.StageHandOff)
		}},
		"whichever instance has the name": {change: func(_ *State, c *contract.MigrationClaim) { c.VMIUID = "" }},
		"not seen": {change: func(s *State, _ *contract.MigrationClaim) { *s = State{} },
			why: "has not been read yet", again: true},
		"another of its name": {change: func(_ *State, c *contract.MigrationClaim) { c.VMIUID = "j" },
			why: "another VirtualMachineInstance of that name"},
		"the next of its name": {change: func(s *State, c *contract.MigrationClaim) {
			c.VMIUID = "j"
			s.observeVMI(contract.VMIObservation{UID: "j", ResourceVersion: "9"})
		}, why: "another VirtualMachineInstance of that name", again: true},
		"ended": {change: func(s *State, _ *contract.MigrationClaim) { s.Phase = PhaseSucceeded },
			why: "Cannot migrate VMI in finalized state."},
		"going": {change: func(s *State, _ *contract.MigrationClaim) { s.VMI.DeletionTimestamp = &noon },
			why: "VMI is being deleted."},
		"claimed": {change: func(s *State, _ *contract.MigrationClaim) {
			s.observeReservation(claimOf("y", contract.StageClaim), noon)
		}, why: "VMI is not eligible for migration because another migration job is in progress."},
		"booting": {change: func(s *State, _ *contract.MigrationClaim) { s.Phase = PhaseScheduled },
			why: "VMI is not running.", again: true},
		"domain unknown": {change: func(s *State, _ *contract.MigrationClaim) { s.Domain = nil },
			why: "VMI is not running.", again: true},
		"shutting down": {change: func(s *State, _ *contract.MigrationClaim) {
			s.Domain.State = contract.DomainShutdown
		}, why: "VMI is not running.", again: true},
		"its pod is deleted": {change: func(s *State, _ *contract.MigrationClaim) { s.Pod.DeletionTimestamp = &noon },
			why: "the pod of the VMI is being deleted.", again: true},
		"another's target": {change: func(s *State, _ *contract.MigrationClaim) { s.observePod(another("y")) },
			why: "VMI has another pod that has not ended.", again: true},
		"its node is away": {change: func(s *State, _ *contract.MigrationClaim) {
			s.observeNode(contract.NodeState{PodUID: "p", Name: "n", UID: "u", ResourceVersion: "5", Since: noon})
		}, why: "node n is not ready.", again: true},
		"not known": {change: func(s *State, _ *contract.MigrationClaim) { s.Migratable = nil },
			why: "whether VMI is migratable is not known yet.", again: true},
		"not migratable": {change: func(s *State, _ *contract.MigrationClaim) {
			s.Migratable = &contract.Migratable{Reason: "DisksNotLiveMigratable", Message: "local"}
		}, why: "Cannot migrate VMI, Reason: DisksNotLiveMigratable, Message: local"},
	} {
		t.Run(name, func(t *testing.T) {
			s, claim := movable(), claimOf("x", contract.StageClaim)
			if c.change != nil {
				c.change(s, &claim)
			}
			s.observeReservation(claim, noon)
			if c.why == "" {
				require.Empty(t, s.Answers)
				require.NotNil(t, s.Migration)
				require.Equal(t, claim.Stage, s.Migration.Stage)
				return
			}
			require.Len(t, s.Answers, 1)
			o := s.Answers[0].Observation
			require.Equal(t, contract.ClaimRefused, o.State)
			require.Contains(t, o.Why, c.why)
			require.Equal(t, c.again, o.Again)
			require.True(t, s.Migration == nil || s.Migration.Migration.UID == "y")
			require.Equal(t, name == "not known", s.Stale, "then it is read")
		})
	}
	s := movable()
	s.observeReservation(contract.MigrationClaim{VMIUID: "i", Stage: contract.StageClaim}, noon)
	s.observeReservation(claimOf("x", "explode"), noon)
	require.Nil(t, s.Migration, "that is no claim")
	require.Empty(t, s.Answers)
}

// TestAnswersMigrationAfterStatusWrite: the written status has what the answer reports.
func TestAnswersMigrationAfterStatusWrite(t *testing.T) {
	s := movable()
	s.PodMarked = true
	status := s.status()
	s.Written = &status
	s.observeReservation(claimOf("x", contract.StageClaim), noon)
	require.Equal(t, actAnswerMigration, s.decide(noon).Action)
	to, o, _ := s.nextAnswer(s.scope(), noon)
	require.Equal(t, int64(1<<30), o.GuestMemory)
	s.noteAnswer(to, o, true, s.scope(), noon)
	require.Equal(t, entity.ActNone, s.decide(noon).Action, "nothing is new")
	s.observeReservation(claimOf("x", contract.StageHandOff), noon)
	require.Equal(t, entity.ActWrite, s.decide(noon).Action)
	s.delayWrites(noon)
	require.Equal(t, entity.ActNone, s.decide(noon).Action, "an operation is to be answered first")
	s.WritesDelayedUntil = time.Time{}
	s.Failure = s.Failure.AfterFailure(noon, string(entity.ActWrite), "",
		entity.ClosedError(contract.TransitionClosed{}))
	require.Equal(t, entity.ActNone, s.decide(noon).Action, "the answer follows the status")
	s.Failure = nil
	s.markRecorded(nil)
	status = s.status()
	s.Written = &status
	require.Equal(t, actAnswerMigration, s.decide(noon).Action)
	to, o, _ = s.nextAnswer(s.scope(), noon)
	require.Equal(t, contract.StageHandOff, o.Stage)
	s.noteAnswer(to, o, true, s.scope(), noon)
	at := noon.Add(askAfter)
	require.Equal(t, at, s.decide(noon).WakeAt)
	require.Equal(t, actAnswerMigration, s.decide(at).Action, "it is asked whether it is still there")
	s.noteAnswer(to, o, false, s.scope(), at)
	s.refresh(at)
	require.Equal(t, entity.ActRead, s.decide(at).Action, "and if it is not, what is true is read")
}

// The sequence of the answers grows, also where the state was lost in between.
func TestAnswerSequenceGrows(t *testing.T) {
	s, last := movable(), int64(0)
	for range 3 {
		next := s.nextSequence(noon)
		require.Greater(t, next, last)
		last = next
	}
	require.Greater(t, movable().nextSequence(noon.Add(time.Second)), last)
}

// Operations are refused from the hand-off until the migration has ended.
func TestRefusesOperationsFromHandOff(t *testing.T) {
	for _, stage := range []contract.MigrationStage{contract.StageClaim, contract.StageHandOff, contract.StageCopying,
		contract.StageStayed} {
		for _, o := range contract.InstanceOperations() {
			s := movable()
			if o == contract.OperationUnpause {
				s.Domain.State = contract.DomainPaused
			}
			s.observeReservation(claimOf("x", contract.StageClaim), noon)
			s.observeReservation(claimOf("x", stage), noon)
			err := s.guestState().check(contract.InstanceRequest{Operation: o, UID: "i", ACPI: true})
			if stage == contract.StageClaim || stage == contract.StageStayed {
				require.NoError(t, err, "%s at %s", o, stage)
				continue
			}
			checkError(t, err, contract.RefusedState,
				"VMI is being migrated by VirtualMachineInstanceMigration m-x: try again "+
					"when that has ended")
		}
	}
	s := movable()
	s.observeReservation(claimOf("x", contract.StageHandOff), noon)
	s.Domain.State = contract.DomainPaused
	checkError(t, s.guestState().check(contract.InstanceRequest{Operation: contract.OperationPause, UID: "i"}),
		contract.RefusedState,
		"VMI is already paused")
	require.Equal(t, contract.OperationMigrate, s.operation())
}

// Nothing is started in the pod of a migration unless the guest has moved there.
func TestStartsNothingInMigrationPod(t *testing.T) {
	for name, c := range map[string]struct {
		phase, node string
		want        entity.Action
	}{
		"moved there":    {"Running", "n2", actStartDomain},
		"still here":     {"Running", "n", entity.ActNone},
		"before it runs": {"Scheduled", "n2", entity.ActNone},
	} {
		t.Run(name, func(t *testing.T) {
			s := &State{}
			s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "1", Phase: c.phase, NodeName: c.node})
			p := another("x")
			s.Launcher = s.newLauncher(p)
			d, _ := s.decideBoot(time.Time{})
			require.Equal(t, c.want, d.Action)
		})
	}
}

// The conditions of live migration are KubeVirt's.
func TestLiveMigratableConditions(t *testing.T) {
	s := movable()
	get := func(kind string) contract.Condition {
		s.refresh(noon)
		c, _ := conditions.Get(s.Conditions, kind)
		c.LastTransitionTime = nil
		return c
	}
	require.Equal(t, contract.Condition{Type: "LiveMigratable", Status: "True"}, get("LiveMigratable"))
	require.Equal(t, contract.Condition{Type: "StorageLiveMigratable", Status: "True"}, get("StorageLiveMigratable"))
	s.Migratable = &contract.Migratable{Reason: "DisksNotLiveMigratable", Message: "one disk"}
	require.Equal(t, contract.Condition{Type: "LiveMigratable", Status: "False", Reason: "DisksNotLiveMigratable",
		Message: "one disk"}, get("LiveMigratable"))
	require.Equal(t, "True", get("StorageLiveMigratable").Status)
	s.Migratable = &contract.Migratable{Reason: "DisksNotLiveMigratable", Message: "another disk"}
	require.Equal(t, "another disk", get("LiveMigratable").Message)
	s.Migratable.Storage = "no storage"
	require.Equal(t, "NotMigratable", get("StorageLiveMigratable").Reason)
	s.Migratable = nil
	require.Equal(t, "another disk", get("LiveMigratable").Message, "it is not known: what was written stays")
	require.Equal(t, "no storage", get("StorageLiveMigratable").Message)
}

// The reservation is adopted from the status where the state is an older copy.
func TestAdoptsReservationFromStatus(t *testing.T) {
	state := func(uid string, started, completed, failed bool) *contract.MigrationState {
		m := &contract.MigrationState{MigrationUID: uid, Completed: completed, Failed: failed}
		if started {
			m.Start = noon
		}
		return m
	}
	for name, c := range map[string]struct {
		remembers contract.MigrationStage // of migration x; "": no reservation
		status    *contract.MigrationState
		uid       string // of the reservation afterwards; "": none
		stage     contract.MigrationStage
	}{
		"nothing":                   {},
		"a claim":                   {remembers: contract.StageClaim, uid: "x", stage: contract.StageClaim},
		"what is not written":       {remembers: contract.StageCopying, uid: "x", stage: contract.StageCopying},
		"no hand-off":               {status: state("x", false, false, false), uid: "x", stage: contract.StageHandOff},
		"no copying":                {status: state("x", true, false, false), uid: "x", stage: contract.StageCopying},
		"no end":                    {status: state("x", true, true, false)},
		"another's claim":           {contract.StageClaim, state("y", true, false, false), "y", contract.StageCopying},
		"another's end":             {contract.StageClaim, state("y", true, true, false), "x", contract.StageClaim},
		"that it had begun":         {contract.StageCopying, state("x", true, true, false), "x", contract.StageMoved},
		"that it had begun to fail": {contract.StageHandOff, state("x", true, true, true), "x", contract.StageStayed},
	} {
		t.Run(name, func(t *testing.T) {
			s := movable()
			if c.remembers != "" {
				s.observeReservation(claimOf("x", c.remembers), noon)
			}
			o := *s.VMI
			o.Migration = c.status
			s.adopt(o)
			if c.uid == "" {
				require.Nil(t, s.Migration)
				require.Equal(t, c.status, s.migrationState())
				return
			}
			require.Equal(t, c.uid, s.Migration.Migration.UID)
			require.Equal(t, c.stage, s.Migration.Stage)
		})
	}
}

// A repair that adds a migration is refused, also where it replaces the current one.
func TestRepairRejectsNewMigration(t *testing.T) {
	was, now := movable(), movable()
	now.observeReservation(claimOf("x", contract.StageClaim), noon)
	require.ErrorContains(t, checkRepair(was, now), "claim")
	require.NoError(t, checkRepair(now, was), "it may be forgotten")
}

// Signals of a migration that has ended are ignored, however many have ended since.
func TestIgnoresSignalsOfEndedMigration(t *testing.T) {
	s := movable()
	all := []contract.MigrationStage{contract.StageClaim, contract.StageHandOff, contract.StageCopying,
		contract.StageMoved, contract.StageStayed}
	for _, uid := range []string{"w", "x"} {
		s.observeReservation(claimOf(uid, contract.StageClaim), noon)
		s.observeReservation(claimOf(uid, contract.StageHandOff), noon)
		s.observeReservation(claimOf(uid, contract.StageStayed), noon)
		s.markRecorded(nil)
		to, o, _ := s.nextAnswer(s.scope(), noon)
		require.Equal(t, contract.ClaimReleased, o.State)
		s.noteAnswer(to, o, true, s.scope(), noon)
	}
	want := *s.MigrationState
	for _, uid := range []string{"w", "x"} {
		for _, stage := range all {
			s.observeReservation(claimOf(uid, stage), noon)
			require.Nil(t, s.Migration)
			require.Equal(t, want, *s.MigrationState)
			last := s.Answers[len(s.Answers)-1].Observation
			require.Equal(t, contract.ClaimReleased, last.State)
			require.Equal(t, contract.StageStayed, last.Stage)
		}
	}
	require.Len(t, s.Answers, 2, "one to each")
}

// A move that is missing from the state is accepted if the target's pod exists.
func TestAcceptsMoveMissingFromState(t *testing.T) {
	s := movable()
	s.observeReservation(claimOf("x", contract.StageMoved), noon)
	require.Nil(t, s.Migration)
	require.True(t, s.Stale, "the pods are read")
	require.True(t, s.Answers[0].Observation.Again)
	s.Stale = false
	s.observePod(another("x"))
	s.observeReservation(claimOf("x", contract.StageMoved), noon)
	s.refresh(noon)
	require.Equal(t, "q", s.Pod.UID)
	require.Equal(t, "p", s.Others[0].Pod.UID)
	require.True(t, s.migrationState().Completed)
	require.False(t, s.migrationState().End.IsZero())

	s = movable()
	s.Phase = PhaseFailed
	s.observePod(another("x"))
	s.observeReservation(claimOf("x", contract.StageMoved), noon)
	require.Equal(t, contract.ClaimReleased, s.Answers[0].Observation.State)
	require.Equal(t, contract.StageStayed, s.Answers[0].Observation.Stage, "what has ended is final")
}

// A signal of a reservation without migration state is dropped at a stage that needs one.
func TestDropsReservationSignalWithoutState(t *testing.T) {
	s := movable()
	s.observeReservation(claimOf("x", contract.StageClaim), noon)
	c := claimOf("x", contract.StageHandOff)
	c.State = nil
	s.observeReservation(c, noon)
	require.Equal(t, contract.StageClaim, s.Migration.Stage)
	c.Stage = contract.StageStayed
	s.observeReservation(c, noon)
	require.False(t, s.hasUnwrittenStage(), "nothing is to be said of it")
	require.Nil(t, s.migrationState())
}

// An eviction strategy that the guest cannot follow is warned of once, by an event.
func TestWarnsOnceOfUnmigratableEvictionStrategy(t *testing.T) {
	s := movable()
	s.VMI.EvictionStrategy = "LiveMigrate"
	warned := func() bool {
		for _, e := range s.newEvents() {
			if e.Message == "EvictionStrategy is set but vmi is not migratable; local" {
				return e.Type == "Warning" && e.Reason == "Migrated"
			}
		}
		return false
	}
	require.False(t, warned())
	s.Migratable = &contract.Migratable{Reason: "DisksNotLiveMigratable", Message: "local", Method: "BlockMigration"}
	require.True(t, warned())
	s.Announced.Note(s.newEvents())
	require.False(t, warned())
}

// TestDeletesAtOnceWithoutGracePeriod: a guest without time to shut down gets no time to migrate either.
func TestDeletesAtOnceWithoutGracePeriod(t *testing.T) {
	s := movable()
	s.observeReservation(claimOf("x", contract.StageHandOff), noon)
	s.EndingSince = noon
	require.Equal(t, noon.Add(migrationEndTime), s.migrationEndBy(s.scope(), s.EndingSince, noon))
	for seconds, waits := range map[int64]bool{0: false, 1: true} {
		s.VMI.GracePeriodSeconds = &seconds
		require.Equal(t, waits, !s.migrationEndBy(s.scope(), s.EndingSince, noon).IsZero())
	}
}

// TestReleasesReservationOfMissingMigration: a refused migration has the entity ask the one that holds the reservation.
// One whose workflow does not exist blocks the next for a minute, one that answers until it ends.
func TestReleasesReservationOfMissingMigration(t *testing.T) {
	answered := func(s *State, uid string, found bool, now time.Time) contract.ClaimObservation {
		to, o, due := s.nextAnswer(s.scope(), now)
		require.True(t, due)
		require.Equal(t, uid, to.UID)
		s.noteAnswer(to, o, found, s.scope(), now)
		return o
	}
	claimed := func() (*State, time.Time) {
		s := movable()
		s.observeReservation(claimOf("first", contract.StageClaim), noon)
		answered(s, "first", true, noon)
		later := noon.Add(time.Minute)
		s.refresh(later)
		_, _, due := s.nextAnswer(s.scope(), later)
		require.False(t, due)
		s.observeReservation(claimOf("next", contract.StageClaim), later)
		s.refresh(later)
		require.False(t, answered(s, "next", true, later).Again)
		return s, later
	}
	s, later := claimed()
	answered(s, "first", true, later)
	s.observeReservation(claimOf("third", contract.StageClaim), later)
	require.False(t, answered(s, "third", true, later).Again, "it is there")

	s, later = claimed()
	answered(s, "first", false, later)
	for _, until := range []time.Duration{askMissingAfter, orphanTime} {
		require.True(t, s.Stale, "it is read what there is")
		s.Stale = false
		s.refresh(later)
		s.observeReservation(claimOf("third", contract.StageClaim), later)
		require.True(t, answered(s, "third", true, later).Again, "it may ask again")
		later = noon.Add(time.Minute + until)
		s.refresh(later)
		if until < orphanTime {
			answered(s, "first", false, later)
		}
	}
	require.Nil(t, s.Migration)
	s.observeReservation(claimOf("third", contract.StageClaim), later)
	require.Equal(t, "third", s.Migration.Migration.UID)
}

// An adopted migration is asked whether it still exists: it may have ended since.
func TestAsksAdoptedMigration(t *testing.T) {
	for name, o := range map[string]contract.VMIObservation{
		"a new epoch":               {UID: "i", ResourceVersion: "9", Epoch: 2},
		"one that may be lost, too": {UID: "i", ResourceVersion: "9", Epoch: 1, Again: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := movable()
			s.Epoch, s.ObjectEpoch = 1, 1
			s.observeReservation(claimOf("x", contract.StageClaim), noon)
			to, answer, _ := s.nextAnswer(s.scope(), noon)
			s.noteAnswer(to, answer, true, s.scope(), noon)
			s.observeVMI(o)
			s.refreshMigration(s.scope(), noon.Add(time.Second))
			to, _, due := s.nextAnswer(s.scope(), noon.Add(time.Second))
			require.True(t, due)
			require.Equal(t, "x", to.UID)
		})
	}
}
