package vmi_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/cluster"
)

// TestSourceEndsWithoutTerminationMessage: the guest may run at the target. Its migration reports that, or the read of
// the pods finds it out.
func TestSourceEndsWithoutTerminationMessage(t *testing.T) {
	killed := func(w *world) { w.EndPod("", true, 137) }
	for name, c := range map[string]struct {
		end     func(*world)
		held    bool // the target's guest does not run yet
		ended   bool // the target's pod has ended, too
		unseen  bool // no observation of the target's pod
		crashed bool // the source's domain is reported as crashed
		says    contract.MigrationStage
		phase   string
		at      time.Duration // from when on, after the end
	}{
		"killed, and moved":       {end: killed, says: contract.StageMoved, phase: "Running"},
		"killed, and stayed":      {end: killed, held: true, says: contract.StageStayed, phase: "Failed"},
		"killed, held, and moved": {end: killed, held: true, says: contract.StageMoved, phase: "Running"},
		"crashed, and moved":      {end: killed, crashed: true, says: contract.StageMoved, phase: "Running"},
		"killed, no migration":    {end: killed, phase: "Running", at: time.Second},
		"held, no migration":      {end: killed, held: true, phase: "Failed", at: 12 * time.Minute},
		"killed with its target":  {end: killed, ended: true, phase: "Failed", at: time.Second},
		"target not seen":         {end: killed, held: true, unseen: true, says: contract.StageMoved, phase: "Running"},
		"fenced, and moved": {end: func(w *world) {
			w.node(func(o *contract.NodeState) { o.OutOfService, o.Ready = true, false })
		}, says: contract.StageMoved, phase: "Running"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := newMover(w)
			w.boot()
			w.at(10*time.Second, func() { m.say(contract.StageClaim) })
			w.at(11*time.Second, func() {
				if c.unseen {
					w.Unseen(func() { w.addSecond(t) })
				} else {
					w.addSecond(t)
				}
			})
			w.at(12*time.Second, func() { m.say(contract.StageHandOff) })
			w.at(13*time.Second, func() { m.say(contract.StageCopying) })
			w.at(20*time.Second, func() {
				if !c.held {
					w.Signal(contract.SignalObserveDomain, *m.signalAt(contract.StageMoved).Domain)
				}
				if c.ended {
					w.secondIs(t, corev1.PodFailed)
				}
				if c.crashed {
					w.DomainChanges(contract.DomainCrashed, "")
				}
				m.leave(c.says == "")
				c.end(w)
			})
			w.at(3*time.Minute, func() {
				if c.says == "" {
					return
				}
				require.Equal(t, "Running", w.VMIStatus.Phase, "its migration finds out")
				m.say(c.says)
			})
			w.at(3*time.Minute+c.at+time.Second, func() {
				require.Equal(t, c.phase, w.VMIStatus.Phase)
				node := cluster.NodeName
				if c.phase == "Running" {
					node = "node2"
				}
				require.Equal(t, node, w.vmi().Status.NodeName)
			})
			w.ends(t, 16*time.Minute)
		})
	}
}

// TestSourceReportsGuestEnd: the report counts at once while the target waits.
func TestSourceReportsGuestEnd(t *testing.T) {
	w := newWorld(t)
	m := newMover(w)
	w.boot()
	m.reach(t, contract.StageCopying)
	w.at(20*time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.at(22*time.Second, func() { require.Equal(t, "Succeeded", w.VMIStatus.Phase) })
	w.ends(t, time.Minute)
}
