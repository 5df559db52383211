package migration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// adoptedRig is a migration in some phase that no run remembers.
func adoptedRig(t *testing.T, phase string) *rig {
	t.Helper()
	r := newRig(t)
	for _, p := range Phases()[1:] {
		r.vmim.PhaseTimes = append(r.vmim.PhaseTimes, contract.PhaseTime{Phase: string(p), Time: r.env.Now()})
		if string(p) == phase {
			break
		}
	}
	r.vmim.Phase = phase
	r.source = &contract.MigrationTruth{Reached: true, Domain: domain(contract.DomainRunning, "")}
	r.target = &contract.MigrationTruth{Reached: true}
	at := rank2(phase)
	if at >= rank2(contract.MigrationScheduling) {
		r.makeTarget(at > rank2(contract.MigrationScheduling))
	}
	if at >= rank2(contract.MigrationPreparingTarget) {
		r.state = &contract.MigrationState{MigrationUID: "m", SourcePod: "pod-s", SourceNode: "n1", TargetPod: "pod-t",
			TargetNode: "n2", PolicyName: "fast",
			Configuration: &contract.MigrationConfiguration{CompletionPerGiB: 150}}
	}
	if at >= rank2(contract.MigrationRunning) {
		r.state.Start = r.env.Now()
		r.source.Known, r.source.UnderWay, r.source.Session = true, true, true
		r.target.Known, r.target.UnderWay = true, true
	}
	if phase == contract.MigrationSucceeded {
		r.vmi.NodeName = "n2"
		r.state.Completed = true
		r.end("s", contract.ReasonMigrated, true)
	}
	if phase == contract.MigrationFailed {
		r.state.Completed, r.state.Failed, r.state.FailureReason = true, true, "cut"
		r.source.UnderWay, r.source.Session = false, false
	}
	return r
}

func rank2(phase string) int {
	for i, p := range Phases() {
		if string(p) == phase {
			return i
		}
	}
	return -1
}

// TestAdoptsEachPhase: a run without memory continues from the current state, and begins nothing twice.
func TestAdoptsEachPhase(t *testing.T) {
	for _, phase := range []string{contract.MigrationPending, contract.MigrationScheduling, contract.MigrationScheduled,
		contract.MigrationPreparingTarget, contract.MigrationTargetReady, contract.MigrationRunning,
		contract.MigrationSucceeded} {
		t.Run(phase, func(t *testing.T) {
			r := adoptedRig(t, phase)
			if phase == contract.MigrationScheduling {
				r.at(2*time.Second, func() {
					r.pod("t", func(p *contract.PodObservation) {
						p.NodeName, p.Phase, p.ComputeRunning = "n2", "Running", true
					})
				})
			}
			r.run()
			require.Equal(t, contract.ActivityReadMigration, r.calls[0])
			require.Empty(t, r.vmim.Finalizers)
			require.Equal(t, contract.MigrationSucceeded, r.vmim.Phase)
			require.Equal(t, "n2", r.vmi.NodeName)
			require.Nil(t, r.pods["s"])
			require.NotNil(t, r.pods["t"])
			switch phase {
			case contract.MigrationSucceeded:
				require.Empty(t, r.moves)
			case contract.MigrationRunning:
				require.Len(t, r.moves, 1, "it is followed")
				require.Zero(t, r.count(contract.ActivityPrepareTarget)+r.count(contract.ActivityOfferMigration))
			default:
				require.Len(t, r.moves, 1)
			}
		})
	}
}

func TestAdoptsFailedMigration(t *testing.T) {
	r := adoptedRig(t, contract.MigrationFailed)
	r.run()
	require.Nil(t, r.pods["t"])
	require.NotNil(t, r.pods["s"])
	require.Empty(t, r.vmim.Finalizers)
	require.Empty(t, r.moves)
	require.Equal(t, contract.StageStayed, r.claims[len(r.claims)-1].Stage)
}

// TestAdoptsMovedGuest: the node workers have handed it over between themselves.
func TestAdoptsMovedGuest(t *testing.T) {
	r := adoptedRig(t, contract.MigrationRunning)
	r.source = nil
	r.end("s", contract.ReasonMigrated, true)
	r.target = &contract.MigrationTruth{Reached: true, Known: true, Granted: true, Resumed: true}
	r.run()
	r.checkMoved()
	require.Empty(t, r.moves)
}

func TestAdoptsMigrationWithoutTarget(t *testing.T) {
	r := adoptedRig(t, contract.MigrationRunning)
	delete(r.pods, "t")
	r.source = &contract.MigrationTruth{Reached: true, Known: true, Domain: domain(contract.DomainRunning, "")}
	r.run()
	require.Equal(t, contract.MigrationFailed, r.status.Phase)
	r.checkOver()
}

func TestAdoptsDeletedMigration(t *testing.T) {
	for _, phase := range []string{contract.MigrationPending, contract.MigrationScheduled, contract.MigrationRunning} {
		r := adoptedRig(t, phase)
		now := r.env.Now()
		r.vmim.DeletionTimestamp = &now
		r.run()
		r.checkStayed(wordCanceled)
		require.True(t, r.gone, phase)
	}
}

// TestIgnoresCompletedMigration: its object stays, and may change.
func TestIgnoresCompletedMigration(t *testing.T) {
	for _, phase := range []string{contract.MigrationSucceeded, contract.MigrationFailed} {
		r := newRig(t)
		r.vmim.Phase, r.vmim.Finalizers = phase, nil
		r.run()
		require.Empty(t, r.calls)
		require.Empty(t, r.claims)
		require.Empty(t, r.requests)
	}
}

// TestLateObservationRestartsNothing: it starts a run after the end, with a status that is still empty.
func TestLateObservationRestartsNothing(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var s State
	s.adopt(contract.MigrationObservation{UID: "m", VMIName: "vmi", ResourceVersion: "1", CreatedAt: at})
	require.False(t, s.Stale)
	s.Claim.Missing = true      // and the instance that was asked does not answer
	s.Open = []action{actOffer} // which a node still makes
	s.foldRead(contract.ReadMigrationResult{Migration: &contract.MigrationObservation{UID: "m", VMIName: "vmi",
		ResourceVersion: "3", CreatedAt: at, Phase: contract.MigrationFailed, PhaseTimes: []contract.PhaseTime{
			{Phase: contract.MigrationPending, Time: at}, {Phase: contract.MigrationFailed, Time: at}}}})
	require.Equal(t, PhaseFailed, s.Phase)
	require.True(t, s.Over)
}

// TestLateObservationOverwritesNothing: a run that it starts after the end writes nothing, moves nothing, and blocks no
// other migration of the guest, whichever answer comes first.
func TestLateObservationOverwritesNothing(t *testing.T) {
	waits := func(contract.AdmissionRequest) *contract.AdmissionObservation { return nil }
	for name, c := range map[string]struct {
		age     time.Duration // of the object
		prepare func(*rig)
		claims  bool
		asks    bool // the queue of migrations
	}{
		"it is old": {age: time.Minute, prepare: func(*rig) {}},
		"the end is observed": {claims: true, asks: true, prepare: func(r *rig) {
			r.admit = waits
			r.at(500*time.Millisecond, r.observe)
		}},
		"the end is met": {claims: true, asks: true, prepare: func(r *rig) { r.admit = waits }},
		"the same end":   {claims: true, prepare: func(r *rig) { r.admit, r.vmi.Phase = waits, "Succeeded" }},
		"it may begin":   {claims: true, asks: true, prepare: func(*rig) {}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.vmim.CreatedAt = r.env.Now().Add(-c.age)
			late := r.vmim
			late.ResourceVersion = r.next()
			at := r.env.Now().Add(-time.Second).Truncate(time.Second)
			r.vmim.Phase, r.vmim.PhaseTimes = contract.MigrationFailed, []contract.PhaseTime{
				{Phase: contract.MigrationPending, Time: at}, {Phase: contract.MigrationFailed, Time: at}}
			r.vmim.Finalizers, r.vmim.ResourceVersion = nil, r.next()
			ended := r.vmim
			c.prepare(r)
			r.at(0, func() { r.env.SignalWorkflow(contract.SignalObserveMigration, late) })
			r.at(time.Hour, func() { require.Failf(t, "it waits for ever", "it has written %d times", r.patches) })
			r.again(nil)
			require.Zero(t, r.patches)
			require.Equal(t, ended.PhaseTimes, r.vmim.PhaseTimes)
			require.Equal(t, 1, r.count(contract.ActivityReadMigration))
			require.Empty(t, r.moves)
			require.Nil(t, r.pods["t"])
			require.Equal(t, c.claims, len(r.claims) > 0)
			if c.claims {
				require.Equal(t, contract.StageStayed, r.claims[len(r.claims)-1].Stage)
			}
			require.Equal(t, c.asks, len(r.requests) > 0)
			if c.asks {
				require.True(t, r.requests[len(r.requests)-1].Done, "the queue no longer counts it")
			}
		})
	}
}

// TestPodAloneStartsNothing: its migration ended long ago.
func TestPodAloneStartsNothing(t *testing.T) {
	r := newRig(t)
	r.vmim.UID, r.gone = "", true
	r.makeTarget(true)
	r.at(0, func() { r.pod("t", func(*contract.PodObservation) {}) })
	r.again(nil)
	require.Equal(t, []string{contract.ActivityReadMigration}, r.calls)
}

// TestPodIsObservedBeforeItsMigration: crdwatch sends observations in no order.
func TestPodIsObservedBeforeItsMigration(t *testing.T) {
	r := adoptedRig(t, contract.MigrationRunning)
	r.at(0, func() { r.pod("t", func(*contract.PodObservation) {}) })
	r.at(time.Second, r.observe)
	r.again(nil)
	r.checkMoved()
	require.Len(t, r.moves, 1)
}

// TestReadsStateWhenMemoryIsOld: the instance is further than this run knows, so the API server is read.
func TestReadsStateWhenMemoryIsOld(t *testing.T) {
	r := adoptedRig(t, contract.MigrationRunning)
	r.vmim.Phase, r.vmim.PhaseTimes = "", nil // not written yet
	r.answer = func(c contract.MigrationClaim) *contract.ClaimObservation {
		if o := r.agree(c); c.Stage == contract.StageMoved {
			return o
		}
		return &contract.ClaimObservation{State: contract.ClaimGiven, Stage: contract.StageCopying}
	}
	r.run()
	r.checkMoved()
	require.Len(t, r.moves, 1)
	require.Equal(t, 1, r.count(contract.ActivityReadMigration))
}

// TestNewEpochDuringCopy: an open step reports its own end.
func TestNewEpochDuringCopy(t *testing.T) {
	for _, at := range []time.Duration{1500 * time.Millisecond, 4 * time.Second} {
		r := newRig(t)
		r.vmim.Epoch = 1
		r.source = &contract.MigrationTruth{Reached: true, Domain: domain(contract.DomainRunning, "")}
		r.target = &contract.MigrationTruth{Reached: true}
		r.at(at, func() { r.vmim.Epoch = 2; r.observe() })
		r.run()
		r.checkMoved()
		require.Len(t, r.moves, 1)
		require.Equal(t, 1, r.count(contract.ActivityReadMigration))
	}
}

// TestDoesNotContinueAsNewDuringNodeStep: only this run sees how it ends.
func TestDoesNotContinueAsNewDuringNodeStep(t *testing.T) {
	r := newRig(t)
	r.at(3*time.Second, func() { r.env.SetCurrentHistoryLength(5000) })
	r.at(5*time.Second, func() { require.NotNil(t, r.copying); require.False(t, r.env.IsWorkflowCompleted()) })
	r.at(0, func() { r.vmim.ResourceVersion = r.next(); r.observe() })
	r.env.ExecuteWorkflow(Workflow, contract.EntityInput{Namespace: "d", Name: "mig"})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, r.env.GetWorkflowError(), &again)
	require.Len(t, r.moves, 1)
	var in contract.EntityInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	r.renew()
	r.again(in.Carried)
	r.checkMoved()
	require.Len(t, r.moves, 1)
	require.Zero(t, r.count(contract.ActivityReadMigration))
}

// TestFruitlessReadsHavePauses: reads without a result have pauses between them, since another process has to change
// something first.
func TestFruitlessReadsHavePauses(t *testing.T) {
	s := State{VMIM: &contract.MigrationObservation{UID: "m"}, Memory: entity.Memory{Stale: true}}
	now, reads := time.Unix(1000, 0), 0
	for now.Before(time.Unix(1060, 0)) {
		d := s.decide(now)
		if d.Action != entity.ActRead {
			require.True(t, d.WakeAt.After(now), "it must wait, and then continue")
			now = d.WakeAt
			continue
		}
		s.countRead(now)
		now, reads = now.Add(20*time.Millisecond), reads+1
	}
	require.Less(t, reads, 12)
	require.Greater(t, reads, readsAtOnce)
	s.forget(nil)
	require.Equal(t, reads, s.Reads)
	s.Stale = true
	require.Equal(t, entity.ActRead, s.decide(now.Add(3*pauseLongest)).Action)
	s.countRead(now.Add(3 * pauseLongest))
	require.Equal(t, 1, s.Reads, "another read begins the count again")
}
