package migration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
)

func lostRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.outcome = contract.MigrationOutcome{Result: contract.ResultLost, Reason: "no session"}
	r.source = &contract.MigrationTruth{Reached: true, Known: true, Domain: domain(contract.DomainRunning, "")}
	r.target = &contract.MigrationTruth{Reached: true, Known: true, UnderWay: true}
	return r
}

var withProof = &contract.MigrationOutcome{Result: contract.ResultSourceOff,
	Proof: &contract.MigrationProof{By: contract.ProofProcess}}

// leftTruth is the report of a source whose guest has left it for good.
func leftTruth() *contract.MigrationTruth {
	return &contract.MigrationTruth{Reached: true, Known: true, Outcome: withProof,
		Domain: domain(contract.DomainShutoff, contract.ReasonMigrated)}
}

func TestLostSessionGuestStayed(t *testing.T) {
	r := lostRig(t)
	r.run()
	r.checkStayed(wordFailed + ": no session")
	require.Equal(t, "no session", r.status.State.FailureReason)
	require.Equal(t, 2, r.count(contract.ActivityInspectMigration))
	require.Empty(t, r.finished)
}

func TestLostSessionGuestLeft(t *testing.T) {
	r := lostRig(t)
	r.source, r.target = leftTruth(), &contract.MigrationTruth{Reached: true, Known: true, Held: true}
	r.run()
	r.checkMoved()
	require.Len(t, r.finished, 1)
	require.Equal(t, contract.ProofProcess, r.finished[0].Proof.By)
}

func TestLostSessionGuestResumed(t *testing.T) {
	r := lostRig(t)
	r.source = nil // its node is away
	r.target = &contract.MigrationTruth{Reached: true, Known: true, Granted: true, Resumed: true,
		Domain: contract.DomainObservation{PodUID: "t", State: contract.DomainRunning}}
	r.at(6*time.Second, func() { r.end("s", contract.ReasonMigrated, true) })
	r.run()
	r.checkMoved()
	require.Empty(t, r.finished)
	require.Equal(t, "t", r.claims[len(r.claims)-1].Domain.PodUID)
}

func TestLostSessionGuestLost(t *testing.T) {
	r := lostRig(t)
	r.source = leftTruth()
	r.at(5*time.Second, func() { r.end("t", contract.ReasonNotReceived, false) })
	r.run()
	r.checkStayed(wordTargetEnded)
	require.Equal(t, wordGuestLost, r.status.State.FailureReason)
}

func TestLostSessionGuestEnded(t *testing.T) {
	r := lostRig(t)
	r.source.Domain = domain(contract.DomainShutoff, contract.ReasonShutdown)
	r.run()
	r.checkStayed(wordEnded)
}

func TestLostSessionContinues(t *testing.T) {
	r := lostRig(t)
	r.source.UnderWay, r.source.Session = true, true
	r.at(6*time.Second, func() {
		r.outcome = contract.MigrationOutcome{Result: contract.ResultMoved,
			Target: &contract.DomainObservation{PodUID: "t"}}
	})
	r.run()
	r.checkMoved()
	require.Len(t, r.moves, 2, "it was followed once more")
	require.Zero(t, r.count(contract.ActivityAbortMigration))
}

func TestLostSessionIsAborted(t *testing.T) {
	r := lostRig(t)
	r.source.UnderWay = true
	r.fail = func(name string) error {
		if name == contract.ActivityAbortMigration {
			r.source.UnderWay = false // libvirt's job fails in a moment
		}
		return nil
	}
	r.run()
	r.checkStayed(wordFailed + ": no session")
	require.Equal(t, 1, r.count(contract.ActivityAbortMigration))
	require.Len(t, r.moves, 1)
}

// The target stays held while the source does not answer: the guest may run at the source.
func TestWaitsForUnreachableSource(t *testing.T) {
	r := lostRig(t)
	r.source, r.target = nil, &contract.MigrationTruth{Reached: true, Known: true, Held: true}
	r.at(time.Hour, func() {
		require.Equal(t, contract.MigrationRunning, r.status.Phase)
		c, ok := conditions.Get(r.status.Conditions, contract.ConditionNodeLost)
		require.True(t, ok)
		require.Contains(t, c.Message, "node n1 does not answer")
		for _, never := range []string{contract.ActivityFinishTarget, contract.ActivityWithdrawTarget,
			contract.ActivityDeleteMigrationPod, contract.ActivityAbortMigration} {
			require.Zero(t, r.count(never), never)
		}
		r.source = leftTruth() // it is back
	})
	r.run()
	r.checkMoved()
	require.Len(t, r.finished, 1)
	_, ok := conditions.Get(r.status.Conditions, contract.ConditionNodeLost)
	require.False(t, ok)
}

// While the source does not answer, the target is not withdrawn for a deletion of the migration either: the guest may
// run there.
func TestDeleteWaitsForUnreachableSource(t *testing.T) {
	r := lostRig(t)
	r.source, r.target = nil, &contract.MigrationTruth{Reached: true, Known: true, Held: true}
	r.at(time.Minute, r.cancel)
	r.at(time.Hour, func() {
		require.Zero(t, r.count(contract.ActivityWithdrawTarget)+r.count(contract.ActivityDeleteMigrationPod))
		r.source = &contract.MigrationTruth{Reached: true, Known: true, Domain: domain(contract.DomainRunning, "")}
	})
	r.run()
	r.checkStayed(wordCanceled)
	require.True(t, r.gone)
}

// The migration fails, and nothing resumes at the target, when the source's node is fenced without a proof that the
// guest has left.
func TestFencedSource(t *testing.T) {
	r := lostRig(t)
	r.source, r.target = nil, &contract.MigrationTruth{Reached: true, Known: true, Held: true}
	r.at(time.Hour, func() {
		r.vmi.Phase = "Failed"
		delete(r.pods, "s")
		r.sendAnswer(r.agree(contract.MigrationClaim{Stage: contract.StageCopying}))
	})
	r.run()
	r.checkStayed(wordVMIEnded)
	require.Empty(t, r.finished)
}

// Nothing is deleted or aborted while the guest seems to run at both ends, and condition OutcomeUnknown asks for a
// person.
func TestGuestAtBothEndsWaitsForPerson(t *testing.T) {
	r := lostRig(t)
	r.target = &contract.MigrationTruth{Reached: true, Known: true, Granted: true, Resumed: true}
	r.at(time.Hour, func() {
		require.True(t, conditions.HasStatus(r.status.Conditions, ConditionOutcomeUnknown, "True"))
		require.Zero(t, r.count(contract.ActivityWithdrawTarget)+r.count(contract.ActivityDeleteMigrationPod)+
			r.count(contract.ActivityAbortMigration)+r.count(contract.ActivityFinishTarget))
		r.end("t", contract.ReasonNotReceived, false)
		r.target = nil
	})
	r.run()
	r.checkStayed(wordTargetEnded)
}

// TestResumesGuestThatHasLeft: the source reports that the guest is off there, and the target does not know it yet.
func TestResumesGuestThatHasLeft(t *testing.T) {
	r := newRig(t)
	r.outcome = *withProof
	r.run()
	r.checkMoved()
	require.Len(t, r.finished, 1)
	require.Zero(t, r.count(contract.ActivityInspectMigration))
}

// TestInspectsWhenResumeFails: if resuming fails, both ends are inspected at the end of the step's time limit.
func TestInspectsWhenResumeFails(t *testing.T) {
	r := newRig(t)
	r.outcome, r.source = *withProof, leftTruth()
	r.target = &contract.MigrationTruth{Reached: true, Known: true, Held: true}
	until := r.env.Now().Add(7 * time.Minute)
	r.fail = func(name string) error {
		if name == contract.ActivityFinishTarget && r.env.Now().Before(until) {
			return temporal.NewApplicationError("no answer", contract.ErrorNoLauncher)
		}
		return nil
	}
	r.run()
	r.checkMoved()
	require.Positive(t, r.count(contract.ActivityInspectMigration))
	require.Len(t, r.finished, 1)
}

// A target that refuses to be withdrawn is inspected: the guest may run there.
func TestInspectsWhenWithdrawIsRefused(t *testing.T) {
	r := newRig(t)
	r.outcome = contract.MigrationOutcome{Result: contract.ResultStayed, Reason: "so it seems"}
	r.refuse = "the guest may run here already"
	r.source = leftTruth()
	r.target = &contract.MigrationTruth{Reached: true, Known: true, Granted: true, Resumed: true}
	r.at(7*time.Second, func() { r.end("s", contract.ReasonMigrated, true) })
	r.run()
	r.checkMoved()
}

// TestTargetOnLostNode: the target ends with its pod, since it resumes nothing without proof.
func TestTargetOnLostNode(t *testing.T) {
	r := newRig(t)
	r.outcome = contract.MigrationOutcome{Result: contract.ResultStayed, Reason: "streams cut"}
	r.fail = func(name string) error {
		if name == contract.ActivityWithdrawTarget {
			return temporal.NewNonRetryableApplicationError("away", away, nil)
		}
		return nil
	}
	r.ends = time.Hour // until the node is fenced
	r.at(time.Minute, func() { require.Equal(t, contract.MigrationFailed, r.status.Phase) })
	r.run()
	r.checkStayed(wordFailed + ": streams cut")
}

// TestKeepsTargetWhileSessionMayPrepareIt: neither the source nor the target answers, so both ends are inspected again
// before the target's pod is deleted.
func TestKeepsTargetWhileSessionMayPrepareIt(t *testing.T) {
	r := lostRig(t)
	r.source, r.target = nil, &contract.MigrationTruth{Reached: true}
	away := true
	r.fail = func(name string) error {
		if away && name == contract.ActivityWithdrawTarget {
			return temporal.NewNonRetryableApplicationError("no answer", contract.ErrorNoLauncher, nil)
		}
		return nil
	}
	r.at(time.Hour, func() {
		require.Greater(t, r.count(contract.ActivityWithdrawTarget), 1)
		require.Zero(t, r.count(contract.ActivityDeleteMigrationPod))
		require.Equal(t, contract.MigrationRunning, r.status.Phase)
		away, r.source = false, leftTruth()
		r.target = &contract.MigrationTruth{Reached: true, Known: true, Granted: true, Resumed: true}
	})
	r.run()
	r.checkMoved()
}

// The target's node is awaited when the source was killed: the source's pod shows nothing of its guest.
func TestKilledSource(t *testing.T) {
	r := lostRig(t)
	r.source, r.target = nil, nil
	code := int32(137)
	r.at(5*time.Second, func() {
		r.pod("s", func(p *contract.PodObservation) { p.Phase, p.ExitCode, p.ComputeRunning = "Failed", &code, false })
		r.env.SignalWorkflow(contract.SignalObservePod, *r.pods["s"])
	})
	r.at(time.Hour, func() {
		require.Equal(t, contract.MigrationRunning, r.status.Phase)
		require.Zero(t, r.count(contract.ActivityDeleteMigrationPod))
		r.target = &contract.MigrationTruth{Reached: true, Known: true, Granted: true, Resumed: true}
	})
	r.run()
	r.checkMoved()
}

// A guest that a user paused stays paused where the pod's termination message is the proof.
func TestGuestPausedByUserStaysPaused(t *testing.T) {
	words := ranOut(contract.ReasonMigrated, true)
	require.False(t, proof(nil, words).Paused)
	words.TerminationMessage = `{"reason":"Migrated","ran":true,"paused":true}`
	require.True(t, proof(nil, words).Paused)
}

// TestRepeatedUnknownOutcomeHasPauses: the reports of both ends contradict each other for an hour.
func TestRepeatedUnknownOutcomeHasPauses(t *testing.T) {
	for name, setUp := range map[string]func(*rig){
		"target is not withdrawn": func(r *rig) { r.refuse = "no guest of that migration is expected here" },
		"target does not resume": func(r *rig) {
			r.source, r.target = leftTruth(), &contract.MigrationTruth{Reached: true, Known: true, Held: true}
			r.fail = func(name string) error {
				if name == contract.ActivityFinishTarget {
					return temporal.NewNonRetryableApplicationError("no", contract.ErrorInvalid, nil)
				}
				return nil
			}
		},
		"session is lost at once": func(r *rig) { r.source.UnderWay, r.source.Session, r.copies = true, true, time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			r := lostRig(t)
			setUp(r)
			r.at(time.Hour, func() {
				require.LessOrEqual(t, r.count(contract.ActivityInspectMigration), 2*70)
				require.Positive(t, r.count(contract.ActivityInspectMigration))
				r.vmi.Phase = "Failed"
				r.sendAnswer(r.agree(contract.MigrationClaim{Stage: contract.StageCopying}))
				r.end("t", contract.ReasonNotReceived, false)
				r.source, r.target = &contract.MigrationTruth{Reached: true, Known: true,
					Domain: domain(contract.DomainShutoff, contract.ReasonShutdown)}, nil
			})
			r.run()
			require.Equal(t, contract.MigrationFailed, r.status.Phase)
			r.checkOver()
		})
	}
}

// TestSourceWorkerDiesAfterGuestLeft: the pod's termination message is the proof, long before the copy's heartbeat
// time-out. A later report of the copy changes nothing.
func TestSourceWorkerDiesAfterGuestLeft(t *testing.T) {
	for name, said := range map[string]contract.MigrationOutcome{
		"no heartbeats": {Result: contract.ResultLost, Reason: "heartbeat"},
		"no proof":      {Result: contract.ResultSourceOff},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.copies = time.Hour
			r.at(5*time.Second, func() {
				r.end("s", contract.ReasonMigrated, true)
				r.env.SignalWorkflow(contract.SignalObservePod, *r.pods["s"])
			})
			r.at(8*time.Second, func() { require.Len(t, r.finished, 1, "the guest is paused") })
			r.at(35*time.Second, func() { r.complete(said, nil) })
			r.run()
			r.checkMoved()
			require.Len(t, r.finished, 1)
			require.Equal(t, contract.ProofProcess, r.finished[0].Proof.By)
			require.Zero(t, r.count(contract.ActivityInspectMigration))
		})
	}
}

// TestSourceReportsOutcomeAfterItsPodEnded: the source reports the outcome a moment after its pod has ended. The report
// decides: the guest runs at the target, which need not resume it.
func TestSourceReportsOutcomeAfterItsPodEnded(t *testing.T) {
	r := newRig(t)
	r.at(4900*time.Millisecond, func() {
		r.end("s", contract.ReasonMigrated, true)
		r.env.SignalWorkflow(contract.SignalObservePod, *r.pods["s"])
	})
	r.run()
	r.checkMoved()
	require.Empty(t, r.finished)
}

// TestDoesNotResumeEndedTarget: a target that has ended is not asked to resume, since it could not answer.
func TestDoesNotResumeEndedTarget(t *testing.T) {
	r := newRig(t)
	r.outcome, r.source = *withProof, leftTruth()
	r.fail = func(name string) error {
		if name == contract.ActivityAbortMigration {
			return temporal.NewNonRetryableApplicationError("too late", "", nil)
		}
		return nil
	}
	r.at(4*time.Second, func() { r.end("t", contract.ReasonNotReceived, false) })
	r.run()
	r.checkStayed(wordTargetEnded)
	require.Equal(t, wordGuestLost, r.status.State.FailureReason)
	require.Empty(t, r.finished)
}
