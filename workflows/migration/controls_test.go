package migration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
)

func (r *rig) control(name string, q contract.ControlRequest) {
	q.Actor = "alice"
	r.after(0, func() { r.env.SignalWorkflow(name, q) })
}

// TestHoldBeforeHandOff: the target's pod is made, and nothing is copied until the release. The worker that made an
// offer before the hold may have been replaced since, and its key is lost, so another offer is made.
func TestHoldBeforeHandOff(t *testing.T) {
	r := newRig(t)
	r.at(time.Second, func() {
		require.Equal(t, 1, r.count(contract.ActivityOfferMigration))
		r.control(contract.ControlHold, contract.ControlRequest{Reason: "not yet"})
	})
	r.at(30*time.Hour, func() {
		require.Equal(t, contract.MigrationScheduled, r.status.Phase)
		c, ok := conditions.Get(r.status.Conditions, contract.ConditionHeld)
		require.True(t, ok)
		require.Contains(t, c.Message, "held by alice (claimed): not yet")
		require.Empty(t, r.moves)
		require.Equal(t, 1, r.count(contract.ActivityOfferMigration), "none is made for nothing")
		require.Equal(t, []contract.MigrationStage{contract.StageClaim}, r.stages())
		r.control(contract.ControlRelease, contract.ControlRequest{})
	})
	r.run()
	r.checkMoved()
	require.Equal(t, 2, r.count(contract.ActivityOfferMigration))
}

func TestRefusesLateHold(t *testing.T) {
	r := newRig(t)
	r.at(4*time.Second, func() { r.control(contract.ControlHold, contract.ControlRequest{}) })
	r.run()
	r.checkMoved()
	require.True(t, conditions.HasStatus(r.status.Conditions, contract.ConditionControlRefused, "True"))
}

func TestAdoptsHoldFromStatus(t *testing.T) {
	r := adoptedRig(t, contract.MigrationScheduled)
	r.vmim.Conditions = []contract.Condition{{Type: contract.ConditionHeld, Status: "True", Message: "held by bob"}}
	r.at(time.Hour, func() {
		require.Empty(t, r.moves)
		r.control(contract.ControlRelease, contract.ControlRequest{})
	})
	r.run()
	r.checkMoved()
}

func TestCancelled(t *testing.T) {
	for _, at := range []time.Duration{time.Second, 4 * time.Second} {
		r := newRig(t)
		r.at(at, func() { r.control(contract.ControlCancel, contract.ControlRequest{}) })
		r.run()
		r.checkStayed(wordCanceled + ", by alice (claimed)")
		require.False(t, r.gone, "the object stays")
	}
}

func TestRefusesSecondCancel(t *testing.T) {
	s := &State{VMIM: &contract.MigrationObservation{}}
	require.NoError(t, s.checkOpen())
	s.Cancelled = "by alice (claimed)"
	require.ErrorContains(t, s.checkOpen(), "being cancelled already")
}

func TestForceComplete(t *testing.T) {
	r := newRig(t)
	r.copies = time.Minute
	r.at(10*time.Second, func() { r.control(contract.ControlForceComplete, contract.ControlRequest{}) })
	r.run()
	r.checkMoved()
	require.Equal(t, 1, r.adjusted)
}

// TestShowsThatPostCopyIsUnsupported: the migration proceeds without it, and its condition stays.
func TestShowsThatPostCopyIsUnsupported(t *testing.T) {
	for instead, disruption := range map[string]bool{
		"the guest is paused until the rest is copied instead": true, "it is aborted instead": false,
	} {
		r := newRig(t)
		r.configuration.PostCopy, r.configuration.Disruption = true, disruption
		r.at(5500*time.Millisecond, func() {
			require.Equal(t, contract.MigrationRunning, r.status.Phase)
			c, _ := conditions.Get(r.status.Conditions, ConditionPostCopy)
			require.Equal(t, "False", c.Status)
			require.Contains(t, c.Message, "not supported")
			require.Contains(t, c.Message, instead)
		})
		r.run()
		r.checkMoved()
		require.True(t, conditions.HasStatus(r.status.Conditions, ConditionPostCopy, "False"))
		require.LessOrEqual(t, r.patches, 4, "it costs no request of its own")
	}
	r := newRig(t)
	r.run()
	_, ok := conditions.Get(r.status.Conditions, ConditionPostCopy)
	require.False(t, ok, "the settings do not allow it")
}

func TestPreferNode(t *testing.T) {
	r := newRig(t)
	r.at(30*time.Millisecond, func() { r.control(contract.ControlPreferNode, contract.ControlRequest{Node: "n9"}) })
	r.run()
	r.checkMoved()
	require.Equal(t, "n9", r.created[0].PreferNode)
}

func TestRetryNowEndsTheBackOff(t *testing.T) {
	r := newRig(t)
	r.vmim.Evacuates, r.failures, r.lastFailure = "n1", 5, r.env.Now()
	r.admit = func(q contract.AdmissionRequest) *contract.AdmissionObservation {
		return &contract.AdmissionObservation{Migration: "m", Sequence: int64(len(r.requests)),
			Admitted: q.NotBefore.IsZero(), Why: "back-off", Position: 1, Waiting: 1}
	}
	r.at(10*time.Second, func() { r.control(contract.ControlRetryNow, contract.ControlRequest{}) })
	r.at(20*time.Second, func() { require.Equal(t, contract.MigrationSucceeded, r.status.Phase) })
	r.run()
	r.checkMoved()
}
