package migration

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

// TestUnscheduledTargetReturnsAdmission: after half a minute others are admitted. With a node the admission is
// requested again before the guest is moved.
func TestUnscheduledTargetReturnsAdmission(t *testing.T) {
	r := newRig(t)
	r.boots = 0
	r.at(time.Second, r.unschedulable)
	full := true
	r.admit = func(q contract.AdmissionRequest) *contract.AdmissionObservation {
		o := &contract.AdmissionObservation{Migration: "m", Sequence: r.env.Now().UnixMilli()}
		switch {
		case q.Unscheduled:
		case full && len(r.requests) > 1:
			o.Position, o.Waiting, o.Why = 1, 1, "no more than 1 migrations may run at a time"
		default:
			o.Admitted = true
		}
		return o
	}
	r.at(20*time.Second, func() { require.Len(t, r.requests, 1, "a node may be found soon") })
	r.at(40*time.Second, func() {
		i := slices.Index(conditionsOf(r.status), ConditionPodScheduled)
		require.GreaterOrEqual(t, i, 0)
		c := r.status.Conditions[i]
		require.Equal(t, []string{"False", "Unschedulable", "pod pod-t has no node: 0/2 nodes"},
			[]string{c.Status, c.Reason, c.Message})
		require.Len(t, r.requests, 2)
		require.True(t, r.requests[1].Returned && r.requests[1].Unscheduled && !r.requests[1].Begun)
	})
	r.at(100*time.Second, func() {
		r.pod("t", func(p *contract.PodObservation) {
			p.NodeName, p.Unschedulable, p.Phase, p.ComputeRunning = "n2", nil, "Running", true
		})
	})
	r.at(160*time.Second, func() {
		require.Len(t, r.requests, 3)
		require.Equal(t, contract.AdmissionRequest{Migration: r.requests[0].Migration, VMIUID: "i", Node: "n1",
			Since: r.requests[0].Since}, r.requests[2])
		require.Equal(t, []contract.MigrationStage{contract.StageClaim}, r.stages(), "it waits to be admitted")
		require.Contains(t, conditionsOf(r.status), ConditionQueued)
		require.NotContains(t, conditionsOf(r.status), ConditionPodScheduled)
		full = false
		r.after(0, func() {
			r.env.SignalWorkflow(contract.SignalObserveAdmission, contract.AdmissionObservation{
				Migration: "m", Sequence: r.env.Now().UnixMilli(), Admitted: true})
		})
	})
	r.run()
	r.checkMoved()
}

// TestReturnsPositionOfPodThatDoesNotStart: the migration returns its position after two minutes, and requests another
// when the pod runs.
func TestReturnsPositionOfPodThatDoesNotStart(t *testing.T) {
	for name, starts := range map[string]bool{"starts late": true, "never starts": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.boots = 0
			r.admit = func(q contract.AdmissionRequest) *contract.AdmissionObservation {
				return &contract.AdmissionObservation{Migration: "m", Sequence: r.env.Now().UnixMilli(),
					Admitted: !q.Unscheduled}
			}
			r.at(time.Second, func() { r.pod("t", func(p *contract.PodObservation) { p.NodeName = "n2" }) })
			r.at(110*time.Second, func() { require.Len(t, r.requests, 1, "it may start soon") })
			r.at(130*time.Second, func() {
				require.Len(t, r.requests, 2)
				require.True(t, r.requests[1].Returned && r.requests[1].Unscheduled)
			})
			if !starts {
				r.run()
				r.checkStayed(wordPending)
				return
			}
			r.at(200*time.Second, func() {
				require.Len(t, r.requests, 2, "it has a node for long")
				r.pod("t", func(p *contract.PodObservation) { p.Phase, p.ComputeRunning = "Running", true })
			})
			r.run()
			r.checkMoved()
			require.False(t, r.requests[2].Unscheduled)
		})
	}
}

func conditionsOf(s contract.MigrationStatus) (out []string) {
	for _, c := range s.Conditions {
		out = append(out, c.Type)
	}
	return out
}
