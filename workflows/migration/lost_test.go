package migration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
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

// leftTruth is a source whose guest has left it for good.
func leftTruth() *contract.MigrationTruth {
	return &contract.MigrationTruth{Reached: true, Known: true, Outcome: withProof,
		Domain: domain(contract.DomainShutoff, contract.ReasonMigrated)}
}

func TestALostSessionWhoseGuestStayed(t *testing.T) {
	r := lostRig(t)
	r.run()
	r.failed(wordFailed)
	require.Equal(t, 2, r.count(contract.ActivityInspectMigration))
	require.Empty(t, r.finished)
}

func TestALostSessionWhoseGuestLeft(t *testing.T) {
	r := lostRig(t)
	r.source, r.target = leftTruth(), &contract.MigrationTruth{Reached: true, Known: true, Held: true}
	r.run()
	r.succeeded()
	require.Len(t, r.finished, 1)
	require.Equal(t, contract.ProofProcess, r.finished[0].Proof.By)
}

func TestALostSessionWhoseGuestGoesOn(t *testing.T) {
	r := lostRig(t)
	r.source = nil // its node is away
	r.target = &contract.MigrationTruth{Reached: true, Known: true, Granted: true, Resumed: true,
		Domain: contract.DomainObservation{PodUID: "t", State: contract.DomainRunning}}
	r.at(6*time.Second, func() { r.end("s", contract.ReasonMigrated, true) })
	r.run()
	r.succeeded()
	require.Empty(t, r.finished)
	require.Equal(t, "t", r.claims[len(r.claims)-1].Domain.PodUID)
}

func TestALostSessionWhoseGuestIsLost(t *testing.T) {
	r := lostRig(t)
	r.source = leftTruth()
	r.at(5*time.Second, func() { r.end("t", contract.ReasonNotReceived, false) })
	r.run()
	r.failed(wordTargetEnded)
	require.Equal(t, wordGuestLost, r.status.State.FailureReason)
}

func TestALostSessionWhoseGuestEnded(t *testing.T) {
	r := lostRig(t)
	r.source.Domain = domain(contract.DomainShutoff, contract.ReasonShutdown)
	r.run()
	r.failed(wordEnded)
}

func TestALostSessionThatGoesOn(t *testing.T) {
	r := lostRig(t)
	r.source.UnderWay, r.source.Session = true, true
	r.at(6*time.Second, func() {
		r.outcome = contract.MigrationOutcome{Result: contract.ResultMoved,
			Target: &contract.DomainObservation{PodUID: "t"}}
	})
	r.run()
	r.succeeded()
	require.Len(t, r.moves, 2, "it was followed once more")
	require.Zero(t, r.count(contract.ActivityAbortMigration))
}

func TestALostSessionThatIsCut(t *testing.T) {
	r := lostRig(t)
	r.source.UnderWay = true
	r.fail = func(name string) error {
		if name == contract.ActivityAbortMigration {
			r.source.UnderWay = false // libvirt's job fails in a moment
		}
		return nil
	}
	r.run()
	r.failed(wordFailed)
	require.Equal(t, 1, r.count(contract.ActivityAbortMigration))
	require.Len(t, r.moves, 1)
}

// TestNothingIsTouchedWhileANodeIsAway: the source may run, so the target stays held.
func TestNothingIsTouchedWhileANodeIsAway(t *testing.T) {
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
	r.succeeded()
	require.Len(t, r.finished, 1)
	_, ok := conditions.Get(r.status.Conditions, contract.ConditionNodeLost)
	require.False(t, ok)
}

// TestDeletedWhileANodeIsAway: not even then.
func TestDeletedWhileANodeIsAway(t *testing.T) {
	r := lostRig(t)
	r.source, r.target = nil, &contract.MigrationTruth{Reached: true, Known: true, Held: true}
	r.at(time.Minute, r.cancel)
	r.at(time.Hour, func() {
		require.Zero(t, r.count(contract.ActivityWithdrawTarget)+r.count(contract.ActivityDeleteMigrationPod))
		r.source = &contract.MigrationTruth{Reached: true, Known: true, Domain: domain(contract.DomainRunning, "")}
	})
	r.run()
	r.failed(wordCanceled)
	require.True(t, r.gone)
}

// TestAFencedSource: its instance has failed with its node, and nothing proves that its guest had left.
func TestAFencedSource(t *testing.T) {
	r := lostRig(t)
	r.source, r.target = nil, &contract.MigrationTruth{Reached: true, Known: true, Held: true}
	r.at(time.Hour, func() {
		r.vmi.Phase = "Failed"
		delete(r.pods, "s")
		r.say(r.agree(contract.MigrationClaim{Stage: contract.StageCopying}))
	})
	r.run()
	r.failed(wordVMIEnded)
	require.Empty(t, r.finished)
}

// TestAGuestAtBothEndsIsNotTouched: it cannot be, so a person decides.
func TestAGuestAtBothEndsIsNotTouched(t *testing.T) {
	r := lostRig(t)
	r.target = &contract.MigrationTruth{Reached: true, Known: true, Granted: true, Resumed: true}
	r.at(time.Hour, func() {
		require.True(t, conditions.Is(r.status.Conditions, ConditionOutcomeUnknown, "True"))
		require.Zero(t, r.count(contract.ActivityWithdrawTarget)+r.count(contract.ActivityDeleteMigrationPod)+
			r.count(contract.ActivityAbortMigration)+r.count(contract.ActivityFinishTarget))
		r.end("t", contract.ReasonNotReceived, false)
		r.target = nil
	})
	r.run()
	r.failed(wordTargetEnded)
}

// TestALeftGuestGoesOn: the source says that it is off, and the target has not heard of it.
func TestALeftGuestGoesOn(t *testing.T) {
	r := newRig(t)
	r.outcome = *withProof
	r.run()
	r.succeeded()
	require.Len(t, r.finished, 1)
	require.Zero(t, r.count(contract.ActivityInspectMigration))
}

// TestALeftGuestThatCannotGoOn is looked for when the time for it is over.
func TestALeftGuestThatCannotGoOn(t *testing.T) {
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
	r.succeeded()
	require.Positive(t, r.count(contract.ActivityInspectMigration))
	require.Len(t, r.finished, 1)
}

// TestATargetThatCannotBeWithdrawnIsLookedAt: the guest may go on there.
func TestATargetThatCannotBeWithdrawnIsLookedAt(t *testing.T) {
	r := newRig(t)
	r.outcome = contract.MigrationOutcome{Result: contract.ResultStayed, Reason: "so it seems"}
	r.refuse = "the guest may go on here already"
	r.source = leftTruth()
	r.target = &contract.MigrationTruth{Reached: true, Known: true, Granted: true, Resumed: true}
	r.at(7*time.Second, func() { r.end("s", contract.ReasonMigrated, true) })
	r.run()
	r.succeeded()
}

// TestATargetOnALostNode goes with its pod: nothing goes on there without proof.
func TestATargetOnALostNode(t *testing.T) {
	r := newRig(t)
	r.outcome = contract.MigrationOutcome{Result: contract.ResultStayed, Reason: "streams cut"}
	r.fail = func(name string) error {
		if name == contract.ActivityWithdrawTarget {
			return temporal.NewNonRetryableApplicationError("away", away, nil)
		}
		return nil
	}
	r.ends = time.Hour // until somebody fences it
	r.at(time.Minute, func() { require.Equal(t, contract.MigrationFailed, r.status.Phase) })
	r.run()
	r.failed(wordFailed)
}

// TestATargetIsNotTakenAwayWhileASessionMayPrepareIt: its source does not answer, and neither does it when it is told
// that nobody comes. Then both ends are looked at again.
func TestATargetIsNotTakenAwayWhileASessionMayPrepareIt(t *testing.T) {
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
	r.succeeded()
}

// TestASourceThatWasKilled says nothing of its guest: the target's node is waited for.
func TestASourceThatWasKilled(t *testing.T) {
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
	r.succeeded()
}

// TestAGuestPausedByItsUser stays so where the pod's last words are the proof.
func TestAGuestPausedByItsUser(t *testing.T) {
	words := ranOut(contract.ReasonMigrated, true)
	require.False(t, proof(nil, words).Paused)
	words.TerminationMessage = `{"reason":"Migrated","ran":true,"paused":true}`
	require.True(t, proof(nil, words).Paused)
}

// TestAnOutcomeUnknownOnceMoreIsNotHurried: what each end says contradicts the other for an hour.
func TestAnOutcomeUnknownOnceMoreIsNotHurried(t *testing.T) {
	for name, setUp := range map[string]func(*rig){
		"target is not withdrawn": func(r *rig) { r.refuse = "no guest of that migration is expected here" },
		"target does not go on": func(r *rig) {
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
				r.say(r.agree(contract.MigrationClaim{Stage: contract.StageCopying}))
				r.end("t", contract.ReasonNotReceived, false)
				r.source, r.target = &contract.MigrationTruth{Reached: true, Known: true,
					Domain: domain(contract.DomainShutoff, contract.ReasonShutdown)}, nil
			})
			r.run()
			require.Equal(t, contract.MigrationFailed, r.status.Phase)
			r.over()
		})
	}
}

// TestTheSourcesWorkerDiesAfterItsGuestHasLeft: the pod's last words are the proof, long before the heartbeats of the
// copy are missed. What is heard of the copy then changes nothing.
func TestTheSourcesWorkerDiesAfterItsGuestHasLeft(t *testing.T) {
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
			r.at(8*time.Second, func() { require.Len(t, r.finished, 1, "the guest stands still") })
			r.at(35*time.Second, func() { r.complete(said, nil) })
			r.run()
			r.succeeded()
			require.Len(t, r.finished, 1)
			require.Equal(t, contract.ProofProcess, r.finished[0].Proof.By)
			require.Zero(t, r.count(contract.ActivityInspectMigration))
		})
	}
}

// TestTheSourceSaysHowItsGuestWentOn although its pod has ended before.
func TestTheSourceSaysHowItsGuestWentOn(t *testing.T) {
	r := newRig(t)
	r.at(4900*time.Millisecond, func() {
		r.end("s", contract.ReasonMigrated, true)
		r.env.SignalWorkflow(contract.SignalObservePod, *r.pods["s"])
	})
	r.run()
	r.succeeded()
	require.Empty(t, r.finished)
}

// TestATargetThatHasEndedIsNotAskedToGoOn: nobody is there to answer.
func TestATargetThatHasEndedIsNotAskedToGoOn(t *testing.T) {
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
	r.failed(wordTargetEnded)
	require.Equal(t, wordGuestLost, r.status.State.FailureReason)
	require.Empty(t, r.finished)
}
