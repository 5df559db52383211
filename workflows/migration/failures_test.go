package migration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
)

// TestDeleteInEachPhase: the guest stays, the target's pod is deleted, and the object goes.
func TestDeleteInEachPhase(t *testing.T) {
	for _, at := range []time.Duration{0, 30 * time.Millisecond, 80 * time.Millisecond, 130 * time.Millisecond,
		900 * time.Millisecond, 1500 * time.Millisecond, 2110 * time.Millisecond, 2130 * time.Millisecond,
		2150 * time.Millisecond, 2180 * time.Millisecond, 2250 * time.Millisecond, 4 * time.Second} {
		t.Run(at.String(), func(t *testing.T) {
			r := newRig(t)
			r.at(at, r.cancel)
			r.run()
			r.checkStayed(wordCanceled)
			require.True(t, r.gone)
			require.True(t, conditions.HasStatus(r.status.Conditions, ConditionAbortRequested, "True"))
			require.LessOrEqual(t, r.count(contract.ActivityMigrateDomain), 1)
			require.Empty(t, r.finished)
			if r.count(contract.ActivityMigrateDomain) > 0 {
				require.True(t, r.aborted)
				require.Equal(t, "Succeeded", r.status.State.AbortStatus)
				require.Equal(t, wordAborted, r.status.State.FailureReason)
				require.Contains(t, r.events, "Normal SuccessfulAbortMigration Migration is ready to be canceled by "+
					"virt-handler.")
			}
		})
	}
}

// TestDeleteAfterGuestHasLeft: an abort that comes too late undoes nothing.
func TestDeleteAfterGuestHasLeft(t *testing.T) {
	r := newRig(t)
	r.at(5150*time.Millisecond, r.cancel) // its move ends before the abort
	r.run()
	r.checkMoved()
	require.True(t, r.gone)
}

func TestMigrationFails(t *testing.T) {
	unsuitable := func(activity string) func(string) error {
		return func(name string) error {
			if name == activity {
				return temporal.NewNonRetryableApplicationError("no such disk", contract.ErrorUnsuitable, nil)
			}
			return nil
		}
	}
	seconds := int64(30)
	for name, c := range map[string]struct {
		setUp func(*rig)
		why   string
	}{
		"instance ends before the pod runs": {func(r *rig) {
			r.at(time.Second, func() {
				r.vmi.Phase = "Failed"
				r.sendAnswer(r.agree(contract.MigrationClaim{Stage: "claim"}))
			})
		}, wordVMIEnded},
		"instance ends while its guest is moved": {func(r *rig) {
			r.at(4*time.Second, func() {
				r.vmi.Phase = "Succeeded"
				r.sendAnswer(r.agree(contract.MigrationClaim{Stage: "copying"}))
			})
		}, wordVMIEnded},
		"instance is deleted": {func(r *rig) {
			r.at(time.Second, func() {
				o := r.agree(contract.MigrationClaim{Stage: contract.StageClaim})
				o.Deleting = true
				r.sendAnswer(o)
			})
		}, wordVMIEnded},
		"target ends while it boots": {func(r *rig) {
			r.at(1500*time.Millisecond, func() { r.end("t", contract.ReasonNeverRan, false) })
		}, wordTargetEnded},
		"target ends while the guest comes": {func(r *rig) {
			r.at(4*time.Second, func() { r.end("t", contract.ReasonNotReceived, false) })
		}, wordTargetEnded},
		"target is deleted": {func(r *rig) {
			r.at(1500*time.Millisecond, func() {
				r.pod("t", func(p *contract.PodObservation) { now := r.env.Now(); p.DeletionTimestamp = &now })
			})
			r.at(3*time.Second, func() { r.end("t", contract.ReasonNeverRan, false) })
		}, wordTargetRemoved},
		"target is gone": {func(r *rig) {
			r.at(1500*time.Millisecond, func() {
				r.pod("t", func(p *contract.PodObservation) {
					now := r.env.Now()
					p.DeletionTimestamp, p.Finalizers = &now, nil
				})
			})
		}, wordTargetRemoved},
		"another migration": {func(r *rig) {
			r.answer = func(c contract.MigrationClaim) *contract.ClaimObservation {
				if c.Stage == contract.StageStayed {
					return r.agree(c)
				}
				return &contract.ClaimObservation{State: contract.ClaimRefused, Why: wordInProgress}
			}
		}, wordInProgress},
		"instance drops the claim": {func(r *rig) {
			r.at(time.Second, func() { r.sendAnswer(&contract.ClaimObservation{State: contract.ClaimReleased}) })
		}, wordCleared},
		"no node": {func(r *rig) {
			r.boots = 0
			r.at(time.Second, r.unschedulable)
			r.at(299*time.Second, func() { require.Equal(r.t, "Scheduling", r.status.Phase) })
		}, wordUnschedulable},
		"no node, in less time": {func(r *rig) {
			r.boots, r.vmim.UnschedulableSeconds = 0, &seconds
			r.at(time.Second, r.unschedulable)
			r.at(35*time.Second, func() { require.Equal(r.t, "Failed", r.status.Phase) })
		}, wordUnschedulable},
		"target never runs": {func(r *rig) {
			r.boots = 0
			r.at(899*time.Second, func() { require.Equal(r.t, "Scheduling", r.status.Phase) })
		}, wordPending},
		"target does not run in less time": {func(r *rig) {
			r.boots, r.vmim.PendingSeconds = 0, &seconds
			r.at(35*time.Second, func() { require.Equal(r.t, "Failed", r.status.Phase) })
		}, wordPending},
		"no offer": {func(r *rig) {
			r.fail = unsuitable(contract.ActivityOfferMigration)
		}, wordNoOffer + "no such disk"},
		"target not ready": {func(r *rig) {
			r.fail = unsuitable(contract.ActivityPrepareTarget)
		}, wordNotReady + "no such disk"},
		"source refuses": {func(r *rig) {
			r.fail = unsuitable(contract.ActivityMigrateDomain)
		}, wordFailed + ": no such disk"},
		"no answer to the hand-off": {func(r *rig) {
			r.answer = func(c contract.MigrationClaim) *contract.ClaimObservation {
				if c.Stage == contract.StageHandOff {
					return nil
				}
				return r.agree(c)
			}
		}, wordNoAnswer},
		"guest stays": {func(r *rig) {
			r.outcome = contract.MigrationOutcome{Result: contract.ResultStayed, Reason: "stream cut"}
		}, wordFailed + ": stream cut"},
		"guest ends": {func(r *rig) {
			r.outcome = contract.MigrationOutcome{Result: contract.ResultGuestEnded, Reason: "it powered off"}
		}, wordEnded},
		"too long": {func(r *rig) {
			r.copies = 48 * time.Hour
			r.at(7*150*time.Second+100*time.Second, func() { require.Equal(r.t, "Running", r.status.Phase) })
		}, wordTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c.setUp(r)
			r.run()
			r.checkStayed(c.why)
			require.Equal(t, "n1", r.vmi.NodeName)
			require.True(t, r.status.State.Failed)
			require.NotEmpty(t, r.status.State.FailureReason)
			require.LessOrEqual(t, r.count(contract.ActivityMigrateDomain), 1, "never begun twice")
			require.Empty(t, r.finished)
		})
	}
}

func (r *rig) unschedulable() {
	r.pod("t", func(p *contract.PodObservation) {
		p.Unschedulable = &contract.Condition{Type: "PodScheduled", Status: "False", Message: "0/2 nodes"}
	})
}

// TestKeepsLibvirtsReason: status and events of migration and instance have libvirt's error.
func TestKeepsLibvirtsReason(t *testing.T) {
	r := newRig(t)
	r.outcome = contract.MigrationOutcome{Result: contract.ResultStayed, Reason: "stream cut"}
	r.run()
	last := r.claims[len(r.claims)-1]
	require.Equal(t, "stream cut", last.State.FailureReason)
	require.Equal(t, "stream cut", r.status.State.FailureReason)
	r.checkStayed("source node reported migration failed: stream cut")
	require.Contains(t, fmt.Sprint(last.Events), "VirtualMachineInstance migration uid m failed. reason:stream cut")
	require.Equal(t, 1, r.count(contract.ActivityWithdrawTarget))
}

// TestDeletesMigrationWithoutInstance: a migration without an instance is deleted, as KubeVirt does.
func TestDeletesMigrationWithoutInstance(t *testing.T) {
	r := newRig(t)
	r.noVMI, r.vmi = true, nil
	r.pods = map[string]*contract.PodObservation{}
	r.run()
	require.True(t, r.gone)
	require.Equal(t, 1, r.count(contract.ActivityDeleteMigration))
	require.Equal(t, 1, r.count(contract.ActivityReadMigration))
}

// TestWaitsForInstancesWorkflow: the instance exists, and will have one.
func TestWaitsForInstancesWorkflow(t *testing.T) {
	r := newRig(t)
	r.noVMI = true
	r.at(20*time.Second, func() { r.noVMI = false; require.Equal(t, 1, r.count(contract.ActivityReadMigration)) })
	r.run()
	r.checkMoved()
}

// TestRepeatsRefusedReservation: this refusal is temporary.
func TestRepeatsRefusedReservation(t *testing.T) {
	r := newRig(t)
	ready := false
	r.answer = func(c contract.MigrationClaim) *contract.ClaimObservation {
		if !ready {
			return &contract.ClaimObservation{State: contract.ClaimRefused, Why: "VMI is not running.", Again: true}
		}
		return r.agree(c)
	}
	r.at(90*time.Second, func() {
		require.Equal(t, contract.MigrationPending, r.status.Phase)
		require.LessOrEqual(t, len(r.claims), 6)
		ready = true
	})
	r.run()
	r.checkMoved()
}

// TestWaitsInQueue: a migration waits to be admitted, and shows about how far ahead it is. Another position alone is
// worth no write.
func TestWaitsInQueue(t *testing.T) {
	r := newRig(t)
	r.admit = func(contract.AdmissionRequest) *contract.AdmissionObservation {
		return &contract.AdmissionObservation{Migration: "m", Sequence: 1, Position: 9, Waiting: 12, Why: "5 are moved"}
	}
	queued := func() string {
		c, ok := conditions.Get(r.status.Conditions, ConditionQueued)
		require.True(t, ok)
		return c.Message
	}
	r.at(time.Hour, func() {
		require.Equal(t, contract.MigrationPending, r.status.Phase)
		require.Equal(t, "5 are moved; it is among the next 10", queued())
		patches := r.patches
		moves := func(sequence int64, position int) {
			r.env.SignalWorkflow(contract.SignalObserveAdmission, contract.AdmissionObservation{Migration: "m",
				Sequence: sequence, Position: position, Waiting: position + 3, Why: "5 are moved"})
		}
		for position := 8; position >= 1; position-- {
			r.after(time.Duration(9-position)*5*time.Second, func() { moves(int64(10-position), position) })
		}
		r.after(39*time.Second, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			require.Equal(t, patches, r.patches, "another position alone is not written")
		})
		r.after(time.Minute, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			require.Equal(t, "5 are moved; it is next", queued())
			require.Equal(t, patches+1, r.patches)
		})
		require.Zero(t, r.count(contract.ActivityCreateTargetPod)+r.count(contract.ActivityOfferMigration))
		require.LessOrEqual(t, len(r.requests), 13, "each five minutes")
		r.after(2*time.Minute, func() {
			r.env.SignalWorkflow(contract.SignalObserveAdmission,
				contract.AdmissionObservation{Migration: "m", Sequence: 10, Admitted: true})
		})
	})
	r.run()
	r.checkMoved()
	_, ok := conditions.Get(r.status.Conditions, ConditionQueued)
	require.False(t, ok)
}

func TestWaitsForQuota(t *testing.T) {
	r := newRig(t)
	r.quota = "exceeded quota: pods=2"
	r.at(10*time.Minute, func() {
		require.Equal(t, contract.MigrationPending, r.status.Phase)
		c, ok := conditions.Get(r.status.Conditions, ConditionQuota)
		require.True(t, ok)
		require.Equal(t, r.quota, c.Message)
		_, ok = conditions.Get(r.status.Conditions, ConditionQueued)
		require.False(t, ok)
		require.LessOrEqual(t, len(r.created), 12, "with a pause that grows")
		r.quota = ""
	})
	r.run()
	r.checkMoved()
	require.Len(t, r.requests, len(r.created)+1, "a position for each attempt, and the end")
	for i, q := range r.requests {
		require.Equal(t, i > 0 && i < len(r.created), q.Returned, "%d", i)
		if q.Returned {
			require.False(t, q.Begun)
			require.False(t, q.NotBefore.IsZero())
		}
	}
}

// A migration that is cancelled while a quota refuses its pod ends, and returns its admission to the migration queue.
func TestCancelDuringQuotaRefusal(t *testing.T) {
	r := newRig(t)
	r.quota = "exceeded quota: pods=2"
	r.at(time.Minute, func() { r.control(contract.ControlCancel, contract.ControlRequest{Actor: "alice"}) })
	r.run()
	r.checkStayed(wordCanceled + ", by alice (claimed)")
	require.True(t, r.requests[len(r.requests)-1].Done)
}

// A migration returns its admission in time, so that others are admitted, whatever keeps it from its pod or from its
// hand-off.
func TestReturnsAdmissionInTime(t *testing.T) {
	refuse := func(activity, kind string) func(string) error {
		return func(name string) error {
			switch {
			case name != activity:
				return nil
			case kind == contract.ErrorOtherLauncher, kind == contract.ErrorForbidden:
				return temporal.NewNonRetryableApplicationError("not so", kind, nil)
			default:
				return temporal.NewApplicationError("not so", kind)
			}
		}
	}
	day := int64(24 * 60 * 60)
	for name, c := range map[string]struct {
		fail   func(string) error
		change func(*rig)
		within time.Duration
		why    string
	}{
		"pod cannot be rendered": {refuse(contract.ActivityCreateTargetPod, contract.ErrorInvalid), nil,
			10 * time.Second, wordNoPod + "not so"},
		"name is taken": {refuse(contract.ActivityCreateTargetPod, contract.ErrorConflict), nil,
			10 * time.Second, wordNoPod + "not so"},
		"control worker is of another release": {refuse(contract.ActivityCreateTargetPod, contract.ErrorOtherLauncher),
			nil,
			10 * time.Second, wordNoPod + "not so"},
		"pod is forbidden": {refuse(contract.ActivityCreateTargetPod, contract.ErrorForbidden), nil,
			5 * time.Minute, wordNoPod + "not so"},
		"pod cannot be created": {refuse(contract.ActivityCreateTargetPod, "Kubernetes"), nil,
			pendingTime + 2*time.Minute, wordPending},
		"annotation asks for a day": {nil, func(r *rig) { r.boots, r.vmim.PendingSeconds = 0, &day },
			pendingLongest + time.Minute, wordPending},
		"annotation asks for a day without a node": {nil, func(r *rig) {
			r.boots, r.vmim.PendingSeconds, r.vmim.UnschedulableSeconds = 0, &day, &day
			r.at(time.Second, r.unschedulable)
		}, pendingLongest + time.Minute, wordUnschedulable},
		"settings cannot be read": {refuse(contract.ActivityConfigureMigration, "Kubernetes"), nil,
			handOffTime + 2*time.Minute, wordNoSettings + "not so"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.fail = c.fail
			if c.change != nil {
				c.change(r)
			}
			r.at(c.within, func() {
				require.Equal(t, contract.MigrationFailed, r.status.Phase)
				require.True(t, r.requests[len(r.requests)-1].Done)
			})
			r.run()
			r.checkStayed(c.why)
		})
	}
}

// TestPassesBackOffToQueue: the queue waits for the back-off, and the instance has an event for it.
func TestPassesBackOffToQueue(t *testing.T) {
	r := newRig(t)
	r.vmim.Evacuates, r.failures, r.lastFailure = "n1", 2, r.env.Now()
	r.run()
	r.checkMoved()
	require.WithinDuration(t, r.lastFailure.Add(40*time.Second), r.requests[0].NotBefore, time.Millisecond)
	require.Contains(t, fmt.Sprint(r.claims[0].Events), "backoff migrating vmi d/v")
}

// A write that met a conflict is repeated from the current object.
func TestRepeatsConflictingWrite(t *testing.T) {
	r := newRig(t)
	r.at(900*time.Millisecond, func() { r.vmim.ResourceVersion = r.next() }) // no observation comes
	r.run()
	r.checkMoved()
}

// TestRepeatsLostAnswers: a step that fails for a while succeeds in the end, and has one effect.
func TestRepeatsLostAnswers(t *testing.T) {
	for _, activity := range []string{contract.ActivityPatchMigration, contract.ActivityCreateTargetPod,
		contract.ActivityConfigureMigration, contract.ActivityOfferMigration, contract.ActivityPrepareTarget,
		contract.ActivityMigrateDomain, contract.ActivityDeleteMigrationPod, contract.ActivityRemovePodFinalizer} {
		t.Run(activity, func(t *testing.T) {
			r := newRig(t)
			left := 8
			r.fail = func(name string) error {
				if name == activity && left > 0 {
					left--
					return temporal.NewApplicationError("not now", "Kubernetes")
				}
				return nil
			}
			r.run()
			require.Equal(t, contract.MigrationSucceeded, r.status.Phase, "%v", r.events)
			r.checkMoved()
			require.Len(t, r.moves, 1)
		})
	}
}
