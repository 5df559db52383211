package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// movable is an instance whose guest can be moved.
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

// another is a second pod of the instance.
func another(migration string) contract.PodObservation {
	return contract.PodObservation{UID: "q", Name: "target", VMIUID: "i", Migration: migration, Phase: "Running",
		NodeName: "n2", ComputeRunning: true, ResourceVersion: "3"}
}

// TestWhatStandsAgainstAMigration: each reason, and whether it is worth waiting.
func TestWhatStandsAgainstAMigration(t *testing.T) {
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
			s.observeClaim(claimOf("y", contract.StageClaim), noon)
		}, why: "VMI is not eligible for migration because another migration job is in progress."},
		"booting": {change: func(s *State, _ *contract.MigrationClaim) { s.Phase = PhaseScheduled },
			why: "VMI is not running.", again: true},
		"not heard of": {change: func(s *State, _ *contract.MigrationClaim) { s.Domain = nil },
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
			s.observeClaim(claim, noon)
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
	s.observeClaim(contract.MigrationClaim{VMIUID: "i", Stage: contract.StageClaim}, noon)
	s.observeClaim(claimOf("x", "explode"), noon)
	require.Nil(t, s.Migration, "that is no claim")
	require.Empty(t, s.Answers)
}

// TestAnAnswerFollowsTheStatus: what was told is in it.
func TestAnAnswerFollowsTheStatus(t *testing.T) {
	s := movable()
	s.PodMarked = true
	status := s.status()
	s.Written = &status
	s.observeClaim(claimOf("x", contract.StageClaim), noon)
	require.Equal(t, actAnswerMigration, s.decide(noon).Action)
	to, o, _ := s.nextAnswer(noon)
	require.Equal(t, int64(1<<30), o.GuestMemory)
	s.answered(to, o, true, noon)
	require.Equal(t, entity.ActNone, s.decide(noon).Action, "nothing is new")
	s.observeClaim(claimOf("x", contract.StageHandOff), noon)
	require.Equal(t, entity.ActWrite, s.decide(noon).Action)
	s.holdOff(noon)
	require.Equal(t, entity.ActNone, s.decide(noon).Action, "an operation is to be answered first")
	s.HoldOffUntil = time.Time{}
	s.Failure = s.Failure.Failed(noon, string(entity.ActWrite), "", entity.ClosedError(contract.TransitionClosed{}))
	require.Equal(t, entity.ActNone, s.decide(noon).Action, "what the status does not have is not told")
	s.Failure = nil
	s.recorded(nil)
	status = s.status()
	s.Written = &status
	require.Equal(t, actAnswerMigration, s.decide(noon).Action)
	to, o, _ = s.nextAnswer(noon)
	require.Equal(t, contract.StageHandOff, o.Stage)
	s.answered(to, o, true, noon)
	at := noon.Add(askAgain)
	require.Equal(t, at, s.decide(noon).WakeAt)
	require.Equal(t, actAnswerMigration, s.decide(at).Action, "it is asked whether it is still there")
	s.answered(to, o, false, at)
	s.refresh(at)
	require.Equal(t, entity.ActRead, s.decide(at).Action, "and if it is not, what is true is read")
}

// TestAnswersFollowEachOther, also where memory was lost between them.
func TestAnswersFollowEachOther(t *testing.T) {
	s, last := movable(), int64(0)
	for range 3 {
		next := s.nextSequence(noon)
		require.Greater(t, next, last)
		last = next
	}
	require.Greater(t, movable().nextSequence(noon.Add(time.Second)), last)
}

// TestOperationsWaitForAMigration from the hand-off on.
func TestOperationsWaitForAMigration(t *testing.T) {
	for _, stage := range []contract.MigrationStage{contract.StageClaim, contract.StageHandOff, contract.StageCopying,
		contract.StageStayed} {
		for _, o := range contract.InstanceOperations() {
			s := movable()
			if o == contract.OperationUnpause {
				s.Domain.State = contract.DomainPaused
			}
			s.observeClaim(claimOf("x", contract.StageClaim), noon)
			s.observeClaim(claimOf("x", stage), noon)
			err := s.refuse(contract.InstanceRequest{Operation: o, UID: "i", ACPI: true})
			if stage == contract.StageClaim || stage == contract.StageStayed {
				require.NoError(t, err, "%s at %s", o, stage)
				continue
			}
			check(t, err, contract.RefusedState, "VMI is being migrated by VirtualMachineInstanceMigration m-x: try again "+
				"when that has ended")
		}
	}
	s := movable()
	s.observeClaim(claimOf("x", contract.StageHandOff), noon)
	s.Domain.State = contract.DomainPaused
	check(t, s.refuse(contract.InstanceRequest{Operation: contract.OperationPause, UID: "i"}), contract.RefusedState,
		"VMI is already paused")
	require.Equal(t, contract.OperationMigrate, s.operation())
}

// TestNothingIsStartedInAMigrationsPod unless the guest was moved there.
func TestNothingIsStartedInAMigrationsPod(t *testing.T) {
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
			s.Launcher = s.anew(p)
			d, _ := s.decideBoot(time.Time{})
			require.Equal(t, c.want, d.Action)
		})
	}
}

// TestTheConditionsOfAMigratableGuest are KubeVirt's.
func TestTheConditionsOfAMigratableGuest(t *testing.T) {
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

// TestAnOlderMemoryBelievesTheStatus.
func TestAnOlderMemoryBelievesTheStatus(t *testing.T) {
	state := func(uid string, started, completed, failed bool) *contract.MigrationState {
		m := &contract.MigrationState{MigrationUID: uid, Completed: completed, Failed: failed}
		if started {
			m.Start = noon
		}
		return m
	}
	for name, c := range map[string]struct {
		remembers contract.MigrationStage // of migration x; "": no claim
		status    *contract.MigrationState
		uid       string // of the claim afterwards; "": none
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
				s.observeClaim(claimOf("x", c.remembers), noon)
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

// TestARepairMakesUpNoMigration.
func TestARepairMakesUpNoMigration(t *testing.T) {
	was, now := movable(), movable()
	now.observeClaim(claimOf("x", contract.StageClaim), noon)
	require.ErrorContains(t, sound(was, now), "claim")
	require.NoError(t, sound(now, was), "it may be forgotten")
}

// TestWhatIsSaidOfAMigrationThatHasEnded changes nothing, however many have ended since.
func TestWhatIsSaidOfAMigrationThatHasEnded(t *testing.T) {
	s := movable()
	all := []contract.MigrationStage{contract.StageClaim, contract.StageHandOff, contract.StageCopying,
		contract.StageMoved, contract.StageStayed}
	for _, uid := range []string{"w", "x"} {
		s.observeClaim(claimOf(uid, contract.StageClaim), noon)
		s.observeClaim(claimOf(uid, contract.StageHandOff), noon)
		s.observeClaim(claimOf(uid, contract.StageStayed), noon)
		s.recorded(nil)
		to, o, _ := s.nextAnswer(noon)
		require.Equal(t, contract.ClaimReleased, o.State)
		s.answered(to, o, true, noon)
	}
	want := *s.MigrationState
	for _, uid := range []string{"w", "x"} {
		for _, stage := range all {
			s.observeClaim(claimOf(uid, stage), noon)
			require.Nil(t, s.Migration)
			require.Equal(t, want, *s.MigrationState)
			last := s.Answers[len(s.Answers)-1].Observation
			require.Equal(t, contract.ClaimReleased, last.State)
			require.Equal(t, contract.StageStayed, last.Stage)
		}
	}
	require.Len(t, s.Answers, 2, "one to each")
}

// TestAMoveThatIsNotRemembered counts where the pod that it went to is there.
func TestAMoveThatIsNotRemembered(t *testing.T) {
	s := movable()
	s.observeClaim(claimOf("x", contract.StageMoved), noon)
	require.Nil(t, s.Migration)
	require.True(t, s.Stale, "the pods are read")
	require.True(t, s.Answers[0].Observation.Again)
	s.Stale = false
	s.observePod(another("x"))
	s.observeClaim(claimOf("x", contract.StageMoved), noon)
	s.refresh(noon)
	require.Equal(t, "q", s.Pod.UID)
	require.Equal(t, "p", s.Others[0].Pod.UID)
	require.True(t, s.migrationState().Completed)
	require.False(t, s.migrationState().End.IsZero())

	s = movable()
	s.Phase = PhaseFailed
	s.observePod(another("x"))
	s.observeClaim(claimOf("x", contract.StageMoved), noon)
	require.Equal(t, contract.ClaimReleased, s.Answers[0].Observation.State)
	require.Equal(t, contract.StageStayed, s.Answers[0].Observation.Stage, "what has ended is final")
}

// TestAClaimWithoutAState is none where one belongs to it.
func TestAClaimWithoutAState(t *testing.T) {
	s := movable()
	s.observeClaim(claimOf("x", contract.StageClaim), noon)
	c := claimOf("x", contract.StageHandOff)
	c.State = nil
	s.observeClaim(c, noon)
	require.Equal(t, contract.StageClaim, s.Migration.Stage)
	c.Stage = contract.StageStayed
	s.observeClaim(c, noon)
	require.False(t, s.unwritten(), "nothing is to be said of it")
	require.Nil(t, s.migrationState())
}

// TestAGuestThatIsToLeave says so while it is there.
func TestAGuestThatIsToLeave(t *testing.T) {
	s := movable()
	s.VMI.EvacuationNode = "n"
	s.refresh(noon)
	require.True(t, conditions.Is(s.Conditions, "EvictionRequested", "True"))
	require.False(t, s.evacuated(s.status()))
	s.VMI.EvacuationNode = "n0"
	s.refresh(noon)
	require.False(t, conditions.Is(s.Conditions, "EvictionRequested", "True"))
	require.True(t, s.evacuated(s.status()))
}

// TestAnEvictionStrategyThatCannotBeKept is warned of once.
func TestAnEvictionStrategyThatCannotBeKept(t *testing.T) {
	s := movable()
	s.VMI.EvictionStrategy = "LiveMigrate"
	warned := func() bool {
		for _, e := range s.news() {
			if e.Message == "EvictionStrategy is set but vmi is not migratable; local" {
				return e.Type == "Warning" && e.Reason == "Migrated"
			}
		}
		return false
	}
	require.False(t, warned())
	s.Migratable = &contract.Migratable{Reason: "DisksNotLiveMigratable", Message: "local", Method: "BlockMigration"}
	require.True(t, warned())
	s.Announced.Note(s.news())
	require.False(t, warned())
}

// TestAMigrationThatIsNotWaitedFor: a guest that is given no time to shut down is not given any to be moved.
func TestAMigrationThatIsNotWaitedFor(t *testing.T) {
	s := movable()
	s.observeClaim(claimOf("x", contract.StageHandOff), noon)
	s.EndingSince = noon
	require.Equal(t, noon.Add(migrationEndTime), s.migrationEndBy(noon))
	for seconds, waits := range map[int64]bool{0: false, 1: true} {
		s.VMI.GracePeriodSeconds = &seconds
		require.Equal(t, waits, !s.migrationEndBy(noon).IsZero())
	}
}

// TestAClaimThatNobodyHoldsAnyMore: a migration that is refused because of another one has that asked. One that nobody
// answers for is in the next one's way for a minute, and one that answers until it ends.
func TestAClaimThatNobodyHoldsAnyMore(t *testing.T) {
	answered := func(s *State, uid string, found bool, now time.Time) contract.ClaimObservation {
		to, o, due := s.nextAnswer(now)
		require.True(t, due)
		require.Equal(t, uid, to.UID)
		s.answered(to, o, found, now)
		return o
	}
	claimed := func() (*State, time.Time) {
		s := movable()
		s.observeClaim(claimOf("first", contract.StageClaim), noon)
		answered(s, "first", true, noon)
		later := noon.Add(time.Minute)
		s.refresh(later)
		_, _, due := s.nextAnswer(later)
		require.False(t, due)
		s.observeClaim(claimOf("next", contract.StageClaim), later)
		s.refresh(later)
		require.False(t, answered(s, "next", true, later).Again)
		return s, later
	}
	s, later := claimed()
	answered(s, "first", true, later)
	s.observeClaim(claimOf("third", contract.StageClaim), later)
	require.False(t, answered(s, "third", true, later).Again, "it is there")

	s, later = claimed()
	answered(s, "first", false, later)
	for _, until := range []time.Duration{missingAsk, orphanTime} {
		require.True(t, s.Stale, "it is read what there is")
		s.Stale = false
		s.refresh(later)
		s.observeClaim(claimOf("third", contract.StageClaim), later)
		require.True(t, answered(s, "third", true, later).Again, "it may ask again")
		later = noon.Add(time.Minute + until)
		s.refresh(later)
		if until < orphanTime {
			answered(s, "first", false, later)
		}
	}
	require.Nil(t, s.Migration)
	s.observeClaim(claimOf("third", contract.StageClaim), later)
	require.Equal(t, "third", s.Migration.Migration.UID)
}

// TestAnOlderMemoryAsksTheMigration that it has: it may have ended since.
func TestAnOlderMemoryAsksTheMigration(t *testing.T) {
	for name, o := range map[string]contract.VMIObservation{
		"a new epoch":               {UID: "i", ResourceVersion: "9", Epoch: 2},
		"one that may be lost, too": {UID: "i", ResourceVersion: "9", Epoch: 1, Again: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := movable()
			s.Epoch, s.ObjectEpoch = 1, 1
			s.observeClaim(claimOf("x", contract.StageClaim), noon)
			to, told, _ := s.nextAnswer(noon)
			s.answered(to, told, true, noon)
			s.observeVMI(o)
			s.refreshClaim(noon.Add(time.Second))
			to, _, due := s.nextAnswer(noon.Add(time.Second))
			require.True(t, due)
			require.Equal(t, "x", to.UID)
		})
	}
}
