package migration

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/planner"
	"github.com/virtflow/virtflow/workflows/entity"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// seen returns a migration that was just observed.
func seen() State {
	s := State{Object: contract.Object{Namespace: "d", Name: "mig"}}
	s.observeMigration(contract.MigrationObservation{UID: "m", ResourceVersion: "10", VMIName: "v", CreatedAt: noon,
		Finalizers: []string{contract.FinalizerMigration}}, noon)
	return s
}

func setStage(s *State, stage contract.MigrationStage) {
	s.Claim.Stage = stage
	s.observeClaim(contract.ClaimObservation{Migration: "m", VMIUID: "i", Sequence: s.Claim.Sequence + 1, Stage: stage,
		State: contract.ClaimGiven, SourcePod: contract.Object{Name: "pod-s", UID: "s"}, SourceNode: "n1",
		GuestMemory: 1 << 30, Phase: "Running"})
}

// stages are the states of a migration in order, each built on the one before.
func stages() []func(*State) {
	return []func(*State){
		func(s *State) { s.Claim.Stage, s.Claim.AskAt = contract.StageClaim, noon.Add(time.Minute) },
		func(s *State) { setStage(s, contract.StageClaim) },
		func(s *State) {
			s.Admission.Asked, s.Admission.Tries, s.Admission.AskAt = true, 1, noon.Add(time.Minute)
		},
		func(s *State) {
			s.observeAdmission(contract.AdmissionObservation{Migration: "m", Sequence: 1, Admitted: true})
		},
		func(s *State) { s.addOpen(actOffer) },
		func(s *State) {
			s.Target.observe(contract.PodObservation{UID: "t", Name: "pod-t", Migration: "m", ResourceVersion: "20"})
		},
		func(s *State) {
			s.Target.observe(contract.PodObservation{UID: "t", Name: "pod-t", Migration: "m", ResourceVersion: "21",
				NodeName: "n2", ComputeRunning: true, Phase: "Running"})
		},
		func(s *State) { s.Settings = &contract.ConfigureMigrationResult{} },
		func(s *State) { s.HandOffAt = noon },
		func(s *State) { s.Claim.Stage, s.Claim.AskAt = contract.StageHandOff, noon.Add(time.Minute) },
		func(s *State) { setStage(s, contract.StageHandOff) },
		func(s *State) { s.removeOpen(actOffer); s.Offer, s.OfferedAt = &contract.MigrationOffer{}, noon },
		func(s *State) { s.addOpen(actPrepare); s.PrepareSent = true },
		func(s *State) {
			s.removeOpen(actPrepare)
			s.Prepared = &contract.PreparedTarget{Address: "10.0.0.2:8188"}
		},
		func(s *State) { s.recordBegun(noon) },
		func(s *State) { s.addOpen(actMigrate) },
		func(s *State) { setStage(s, contract.StageCopying) },
		func(s *State) {
			s.removeOpen(actMigrate)
			s.recordOutcome(noon, contract.MigrationOutcome{Result: contract.ResultMoved})
		},
		func(s *State) {
			setStage(s, contract.StageMoved)
			s.Claim.State = contract.ClaimReleased
		},
		func(s *State) { s.Admission.Done = true },
		func(s *State) {
			s.Source.observe(contract.PodObservation{
				UID: "s", Name: "pod-s", ResourceVersion: "30", Phase: "Succeeded"})
		},
		func(s *State) { s.Source.Deleted = true },
		func(s *State) { s.Source.Released = true },
		func(s *State) { s.VMIM.Finalizers = nil },
	}
}

// TestRequestsAdmissionAgain: a run that only remembers its request sends it again: the queue's state may be of an
// older copy, too.
func TestRequestsAdmissionAgain(t *testing.T) {
	s := seen()
	for _, change := range stages()[:7] {
		change(&s)
	}
	pod := *s.Target.Pod
	s.Stale, s.Open = true, nil
	s.foldRead(contract.ReadMigrationResult{Migration: s.VMIM,
		VMI:           &contract.VMIObservation{UID: "i", Phase: "Running", NodeName: "n1"},
		FindPodResult: contract.FindPodResult{Pod: &pod}})
	s.MoveUnknown = "" // both nodes have reported that nothing was begun
	setStage(&s, contract.StageClaim)
	require.True(t, s.Admission.Asked)
	require.True(t, s.Admission.Admitted)
	require.Equal(t, actRequest, s.decide(noon).Action)
	require.True(t, s.admissionRequest().Begun)
}

// TestStepOfEachStage: the table has the step of each stage of a migration that succeeds.
func TestStepOfEachStage(t *testing.T) {
	want := []struct {
		phase Phase
		step  action
	}{
		{PhasePending, actClaim}, {PhasePending, entity.ActNone}, {PhasePending, actRequest},
		{PhasePending, entity.ActNone}, {PhasePending, actOffer}, {PhasePending, actCreatePod},
		{PhaseScheduling, entity.ActNone},
		{PhaseScheduled, actConfigure}, {PhaseScheduled, actHandOff}, {PhaseScheduled, actClaim},
		{PhaseScheduled, entity.ActNone}, {PhasePreparingTarget, entity.ActNone}, {PhasePreparingTarget, actPrepare},
		{PhasePreparingTarget, entity.ActNone}, {PhaseTargetReady, actBegin}, {PhaseRunning, actMigrate},
		{PhaseRunning, actClaim}, {PhaseRunning, entity.ActNone}, {PhaseRunning, actClaim},
		{PhaseSucceeded, actGiveBack}, {PhaseSucceeded, entity.ActNone}, {PhaseSucceeded, actDeletePod},
		{PhaseSucceeded, actReleasePod}, {PhaseSucceeded, actRemoveFinalizer}, {PhaseSucceeded, entity.ActNone},
	}
	s := seen()
	steps := append([]func(*State){func(*State) {}}, stages()...)
	require.Len(t, want, len(steps))
	for i, change := range steps {
		change(&s)
		s.refresh(noon)
		require.Equal(t, want[i].phase, s.Phase, "%d", i)
		d := s.decide(noon)
		require.Equal(t, want[i].step, d.Action, "%d: %s", i, d.Why)
		if d.Action == entity.ActNone {
			require.NotEmpty(t, d.Waiting, "%d", i)
		}
	}
	s.Written, s.OutcomeUnknown = nil, false
	st := s.status()
	s.Written = &st
	require.Equal(t, entity.ActFinish, s.decide(noon).Action)
}

// TestSourcePodEndsByItself: the source's pod ends by itself, or is deleted when it has not ended in time. After a
// failure the target's pod is deleted at once.
func TestSourcePodEndsByItself(t *testing.T) {
	s := seen()
	for _, change := range stages()[:20] {
		change(&s)
		s.refresh(noon)
	}
	require.Equal(t, ResultMoved, s.Result)
	d := s.decide(noon)
	require.Equal(t, entity.ActNone, d.Action)
	require.False(t, d.WakeAt.After(noon.Add(endFirst)), "%s", d.WakeAt)
	s.refresh(noon.Add(endFirst))
	require.Equal(t, actDeletePod, s.decide(noon.Add(endFirst)).Action)

	s.Source.Pod.DeletionTimestamp = &noon
	s.refresh(noon)
	require.NotEqual(t, actDeletePod, s.decide(noon).Action, "it is being deleted already")

	failed := seen()
	for _, change := range stages()[:7] {
		change(&failed)
		failed.refresh(noon)
	}
	failed.Cause = "enough"
	failed.refresh(noon)
	failed.Claim.Stage, failed.Claim.State = contract.StageStayed, contract.ClaimReleased
	require.Equal(t, ResultStayed, failed.Result)
	require.Equal(t, actDeletePod, failed.decide(noon).Action)
}

// TestCancelInEachStage: the guest stays, and no further step begins.
func TestCancelInEachStage(t *testing.T) {
	begins := []action{actOffer, actCreatePod, actConfigure, actHandOff, actPrepare, actBegin, actRequest}
	for n := range stages() {
		s := seen()
		for _, change := range stages()[:n] {
			change(&s)
			s.refresh(noon)
		}
		if s.Result != ResultNone {
			break
		}
		s.VMIM.DeletionTimestamp = &noon
		for range 20 {
			s.refresh(noon)
			d := s.decide(noon)
			require.NotContains(t, begins, d.Action, "after stage %d", n)
			switch d.Action {
			case actMigrate: // what was begun is followed to its end
				s.addOpen(actMigrate)
			case actAbort:
				s.AbortSent = true
				s.removeOpen(actMigrate)
				s.recordOutcome(noon, contract.MigrationOutcome{Result: contract.ResultStayed, Aborted: true})
			case actWithdraw:
				s.Withdrawn = true
			case actClaim:
				require.Equal(t, contract.StageStayed, s.stageToRequest())
				setStage(&s, contract.StageStayed)
				s.Claim.State = contract.ClaimReleased
			case actDeletePod:
				require.Equal(t, "t", d.Object)
				s.Target.Pod = entity.AsGone(s.Target.Pod)
			case actGiveBack:
				s.Admission.Done = true
			case actRemoveFinalizer:
				s.VMIM.Finalizers = nil
			default:
			}
			s.Open = slices.DeleteFunc(s.Open, func(a action) bool { return a == actOffer || a == actPrepare })
		}
		require.Equal(t, PhaseFailed, s.Phase, "after stage %d", n)
		require.Empty(t, s.VMIM.Finalizers, "after stage %d: %+v", n, s.decide(noon))
	}
}

func TestEachFailureHasItsBackOff(t *testing.T) {
	all := append([]func(*State){func(*State) {}}, stages()...)
	for n := range all {
		s := seen()
		for _, change := range all[:n] {
			change(&s)
			s.refresh(noon)
		}
		s.Open = nil
		s.Written = &contract.MigrationStatus{}
		if d := s.decide(noon); d.Action == entity.ActNone || d.Action == entity.ActFinish {
			continue
		}
		planner.PausesAfterFailures(t, noon, func(now time.Time) decision {
			s.refresh(now)
			return s.decide(now)
		}, &s.Failure)
	}
}

// TestPhaseTable checks the table itself: every phase can be reached, every phase but the final ones has a way out, and
// no final one has.
func TestPhaseTable(t *testing.T) {
	reached, leaves := map[Phase]bool{PhaseUnset: true}, map[Phase]bool{}
	for _, r := range Rules() {
		require.NotEmpty(t, r.Name)
		reached[r.To] = true
		for _, f := range r.From {
			require.False(t, f.Final(), "%s: a final phase has no way out", r.Name)
			require.NotEqual(t, f, r.To)
			leaves[f] = true
		}
	}
	for _, p := range Phases() {
		require.True(t, reached[p], "%q cannot be reached", p)
		require.Equal(t, !p.Final(), leaves[p], "way out of %q", p)
	}
}

// TestRepeatedSignalsChangeNothing: signals may come twice, late and out of order.
func TestRepeatedSignalsChangeNothing(t *testing.T) {
	s := seen()
	setStage(&s, contract.StageClaim)
	s.observeAdmission(contract.AdmissionObservation{Migration: "m", Sequence: 5, Admitted: true})
	was := s
	s.observeClaim(contract.ClaimObservation{Migration: "m", Sequence: s.Claim.Sequence, State: contract.ClaimRefused})
	s.observeClaim(contract.ClaimObservation{Migration: "another", Sequence: 99, State: contract.ClaimRefused})
	s.observeAdmission(contract.AdmissionObservation{Migration: "m", Sequence: 6, Position: 3, Waiting: 4})
	s.observeAdmission(contract.AdmissionObservation{Migration: "another", Sequence: 7})
	s.observeMigration(contract.MigrationObservation{UID: "m", ResourceVersion: "9", Phase: "Failed"}, time.Time{})
	s.observePod(contract.PodObservation{UID: "x", Migration: "another", ResourceVersion: "3"})
	require.True(t, entity.Same(was, s))
}

func TestCopyTime(t *testing.T) {
	s := seen()
	require.Equal(t, copyLongest, s.copyTime(), "without a limit")
	s.Settings = &contract.ConfigureMigrationResult{
		Configuration: contract.MigrationConfiguration{CompletionPerGiB: 150}}
	s.GuestMemory = 96 << 20
	require.Equal(t, 150*time.Second+copySlack, s.copyTime(), "rounded up")
	s.Offer = &contract.MigrationOffer{Memory: 2e9, Disks: []contract.MigrationDisk{{Size: 1}, {Size: 1, Copied: true}}}
	require.Equal(t, int64(450), s.completionSeconds(), "decimal gigabytes, and what is copied of disks")
	s.Pause = true
	require.Equal(t, 900*time.Second+copySlack, s.copyTime(), "a pause doubles the time")
	s.Settings.Configuration.CompletionPerGiB = 1 << 40
	require.Equal(t, copyLongest, s.copyTime())
}

func TestRepairRefusesInventedState(t *testing.T) {
	was := seen()
	setStage(&was, contract.StageClaim)
	for want, change := range map[string]func(*State){
		"open":    func(s *State) { s.Open = []action{actMigrate} },
		"proof":   func(s *State) { s.Proof = &contract.MigrationProof{By: "me"} },
		"result":  func(s *State) { s.Result = ResultMoved },
		"outcome": func(s *State) { s.Outcome = &contract.MigrationOutcome{Result: contract.ResultMoved} },
		"pod":     func(s *State) { s.Source.Pod = &contract.PodObservation{UID: "other"} },
		"object":  func(s *State) { s.Object.UID = "other" },
	} {
		now := was
		change(&now)
		require.ErrorContains(t, validate(&was, &now), want)
	}
	begun, now := was, was
	begun.Begun = true
	require.ErrorContains(t, validate(&begun, &now), "begun")
	now.MoveUnknown, now.Stale, now.Failure = "a person wants to know", true, nil
	require.NoError(t, validate(&was, &now))
}
