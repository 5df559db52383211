package vmi_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/testsuite/cluster"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// job is the migration that made the second pod.
var job = contract.Object{Namespace: cluster.Namespace, Name: "move", UID: "job"}

// mover plays the instance's migrations.
type mover struct {
	w       *world
	mu      sync.Mutex
	answers map[string][]contract.ClaimObservation // by the migration's name
	gone    bool                                   // no such workflow exists
	from    time.Time                              // when the copy began
	pod     string                                 // the source's
}

// newMover receives the signals of the world's present run.
func newMover(w *world) *mover {
	m := &mover{w: w, answers: map[string][]contract.ClaimObservation{}}
	m.listen(w)
	return m
}

func (m *mover) listen(w *world) {
	m.w = w
	w.env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, "", contract.SignalObserveClaim, mock.Anything).Return(
		func(_, id, _, _ string, o any) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.gone {
				return &temporal.UnknownExternalWorkflowExecutionError{}
			}
			m.answers[id] = append(m.answers[id], o.(contract.ClaimObservation))
			return nil
		})
}

// received returns the answers that the migration got, oldest first.
func (m *mover) received(o contract.Object) []contract.ClaimObservation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.answers[contract.MigrationID(o.Namespace, o.Name)])
}

// last returns the last answer that job got.
func (m *mover) last() contract.ClaimObservation {
	all := m.received(job)
	if len(all) == 0 {
		return contract.ClaimObservation{}
	}
	return all[len(all)-1]
}

func (m *mover) leave(gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = gone
}

// state returns the status.migrationState at a stage.
func (m *mover) state(stage contract.MigrationStage) *contract.MigrationState {
	if p := m.w.Pod(); p != nil {
		m.pod = p.Name
	}
	s := &contract.MigrationState{MigrationUID: job.UID, SourceNode: cluster.NodeName, SourcePod: m.pod,
		TargetNode: "node2", TargetPod: second, Configuration: &contract.MigrationConfiguration{Progress: 150}}
	if m.from.IsZero() {
		m.from = m.w.env.Now().UTC().Truncate(time.Second)
	}
	at := m.from
	if stage != contract.StageHandOff {
		s.Start, s.Mode = at, "PreCopy"
	}
	switch stage {
	case contract.StageMoved:
		s.Completed, s.End, s.TargetDetected, s.TargetReady = true, at.Add(time.Second), true, at.Add(time.Second)
	case contract.StageStayed:
		s.Completed, s.Failed, s.End, s.FailureReason = true, true, at.Add(time.Second), "cut"
	default:
	}
	return s
}

// signalAt returns the signal that job sends at a stage.
func (m *mover) signalAt(stage contract.MigrationStage) contract.MigrationClaim {
	c := contract.MigrationClaim{Migration: job, VMIUID: m.w.VMI().UID, Stage: stage}
	event := func(kind, reason, message string) {
		c.Events = append(c.Events, contract.Event{Type: kind, Reason: reason, Message: message})
	}
	if stage != contract.StageClaim {
		c.State = m.state(stage)
	}
	switch stage {
	case contract.StageHandOff:
		event("Normal", "PreparingTarget", "VirtualMachineInstance Migration Target Prepared.")
	case contract.StageCopying:
		event("Normal", "Migrating", "VirtualMachineInstance is migrating.")
	case contract.StageMoved:
		c.Domain = &contract.DomainObservation{PodUID: string(m.w.second().UID), Sequence: 7,
			State: contract.DomainRunning, MachineType: "pc-q35-7.2"}
		event("Normal", "Migrated", "The VirtualMachineInstance migrated to node node2.")
	case contract.StageStayed:
		event("Warning", "Migrated", "VirtualMachineInstance migration uid job failed. reason:cut")
	default:
	}
	return c
}

func (m *mover) say(stage contract.MigrationStage) {
	m.w.env.SignalWorkflow(contract.SignalClaim, m.signalAt(stage))
}

// leaves plays the source's launcher after the guest has moved to the target.
func (w *world) leaves() { w.EndPod(contract.ReasonMigrated, true, 0) }

// resync sends what a new leader of crdwatch sends to an entity without history.
func (w *world) resync() {
	w.Signal(contract.SignalObservePod, observe.Pod(w.second()))
	w.Signal(contract.SignalObserveVMI, *w.VMI())
	w.Signal(contract.SignalObservePod, *w.Pod())
}

func (w *world) vmi() *kubevirt.VirtualMachineInstance {
	return kube.Get[kubevirt.VirtualMachineInstance](w.Kube, cluster.Namespace, cluster.Name)
}

// reach plays a migration until a stage, one second each, from 10 s on.
func (m *mover) reach(t *testing.T, stage contract.MigrationStage) {
	m.w.at(10*time.Second, func() { m.say(contract.StageClaim) })
	m.w.at(11*time.Second, func() { m.w.addSecond(t) })
	for i, s := range []contract.MigrationStage{contract.StageHandOff, contract.StageCopying} {
		if stage == contract.StageHandOff && s == contract.StageCopying || stage == contract.StageClaim {
			return
		}
		m.w.at(time.Duration(12+i)*time.Second, func() { m.say(s) })
	}
}

// ends deletes the instance, and plays the kubelets of both pods.
func (w *world) ends(t *testing.T, at time.Duration) {
	w.at(at, w.DeleteVMI)
	w.at(at+2*time.Minute, func() {
		if w.Pod() != nil && w.Pod().ExitCode == nil {
			w.EndPod(contract.ReasonShutdown, true, 0)
		}
		if w.second() != nil && w.second().Status.Phase == corev1.PodRunning {
			w.secondIs(t, corev1.PodSucceeded)
		}
	})
	w.run(t)
	require.Nil(t, w.second(), "no pod stays")
	require.Equal(t, 1, w.DomainsStarted, "a guest is booted once")
}

// A migration succeeds, with everything that others see of it.
func TestMigrationSucceeds(t *testing.T) {
	w := newWorld(t)
	m := newMover(w)
	w.boot()
	m.reach(t, contract.StageCopying)
	w.at(9*time.Second, func() {
		w.EditVMI(func(vmi *kubevirt.VirtualMachineInstance) {
			vmi.Status.EvacuationNodeName = cluster.NodeName
			vmi.Annotations = map[string]string{kubevirt.EvictionSourceAnnotation: "descheduler"}
		})
	})
	source := ""
	w.at(10*time.Second+500*time.Millisecond, func() {
		source = w.Pod().UID
		require.Equal(t, contract.EvictedBy, w.evictedBy(w.Pod().Name))
		require.Equal(t, contract.ClaimGiven, m.last().State)
		require.Equal(t, contract.StageClaim, m.last().Stage)
		require.Equal(t, source, m.last().SourcePod.UID)
		require.Equal(t, cluster.NodeName, m.last().SourceNode)
		require.Nil(t, w.vmi().Status.MigrationState, "nothing is handed over yet")
	})
	writes := 0
	w.at(10*time.Second+600*time.Millisecond, func() { writes = w.Count(contract.ActivityPatchVMI) })
	w.at(12*time.Second+500*time.Millisecond, func() {
		require.Equal(t, 1, w.Count(contract.ActivityPatchVMI)-writes, "the hand-off says which pods there are, too")
		require.Len(t, w.vmi().Status.ActivePods, 2)
		require.Equal(t, contract.StageHandOff, m.last().Stage)
		require.Equal(t, "node2", w.vmi().Labels[contract.LabelMigrationTarget])
		require.Equal(t, job.UID, string(w.vmi().Status.MigrationState.MigrationUID))
		require.Nil(t, w.vmi().Status.MigrationState.StartTimestamp)
		require.Equal(t, kubevirt.BlockMigration, w.vmi().Status.MigrationMethod)
		require.Equal(t, kubevirt.MigrationTransportUnix, w.vmi().Status.MigrationTransport)
	})
	w.at(14*time.Second+500*time.Millisecond, func() {
		require.Nil(t, w.vmi().Status.MigrationState.StartTimestamp, "most copies are through by then")
	})
	w.at(15*time.Second+500*time.Millisecond, func() {
		require.Equal(t, contract.StageCopying, m.last().Stage)
		require.NotNil(t, w.vmi().Status.MigrationState.StartTimestamp)
		w.DomainChanges(contract.DomainPaused, contract.PausedMigration)
	})
	w.at(16*time.Second, func() {
		require.Equal(t, "True", w.Pod().Unpaused, "the moment between two pods is no pause")
		require.Empty(t, w.condition("Paused").Type)
		w.leaves()
	})
	w.at(20*time.Second, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase, "a guest that has left has not ended")
		require.NotEmpty(t, w.Pod().Finalizers, "its migration sees to its end")
		m.say(contract.StageMoved)
	})
	w.at(21*time.Second, func() {
		vmi := w.vmi()
		require.Equal(t, contract.ClaimReleased, m.last().State)
		require.Equal(t, contract.StageMoved, m.last().Stage)
		require.Equal(t, source, m.last().SourcePod.UID, "the one that is to go")
		require.Equal(t, "node2", vmi.Status.NodeName)
		require.Equal(t, "node2", vmi.Labels[contract.LabelNodeName])
		require.NotContains(t, vmi.Labels, contract.LabelMigrationTarget)
		require.True(t, vmi.Status.MigrationState.Completed)
		require.False(t, vmi.Status.MigrationState.Failed)
		require.Empty(t, vmi.Status.EvacuationNodeName)
		require.NotContains(t, vmi.Annotations, kubevirt.EvictionSourceAnnotation)
		require.Empty(t, w.evictedBy(second))
		require.Equal(t, "True", observe.Pod(w.second()).Unpaused, "who looks for the guest finds it there")
		require.Equal(t, "pc-q35-7.2", vmi.Status.Machine.Type)
		require.Len(t, vmi.Status.ActivePods, 2)
		require.Equal(t, string(w.second().UID), w.state(t).Pod.UID)
		require.NotEmpty(t, w.Pod().Finalizers, "its migration sees to its end")
	})
	w.ends(t, 30*time.Second)
	var events []string
	for _, e := range w.Events {
		switch e.Reason {
		case "PreparingTarget", "Migrating", "Migrated":
			events = append(events, e.Type+" "+e.Message)
		}
	}
	require.Equal(t, []string{"Normal VirtualMachineInstance Migration Target Prepared.",
		"Normal VirtualMachineInstance is migrating.", "Normal The VirtualMachineInstance migrated to node node2."},
		events)
	sequence := int64(0)
	for _, o := range m.received(job) {
		require.Greater(t, o.Sequence, sequence)
		sequence = o.Sequence
	}
}

// evictedBy returns who evicts the guest of a pod, by the pod's annotation.
func (w *world) evictedBy(pod string) string {
	return kube.Get[corev1.Pod](w.Kube, cluster.Namespace, pod).Annotations[contract.AnnotationEvictionInProgress]
}

// TestMarksPodOfEvictedGuest: the pod's annotation follows the request, also where its first write fails.
func TestMarksPodOfEvictedGuest(t *testing.T) {
	w := newWorld(t)
	w.boot()
	request := func(node string) func() {
		return func() {
			w.EditVMI(func(vmi *kubevirt.VirtualMachineInstance) { vmi.Status.EvacuationNodeName = node })
		}
	}
	marked := func(by string) func() {
		return func() { require.Equal(t, by, w.evictedBy(w.Pod().Name)) }
	}
	var fails atomic.Bool
	w.Kube.Intercept(func(r kube.Request) *kube.Fault {
		if r.Call() == "PATCH pods" && fails.CompareAndSwap(true, false) {
			return &kube.Fault{Err: errors.New("cut")}
		}
		return nil
	})
	w.at(9*time.Second, marked(""))
	w.at(10*time.Second, func() {
		fails.Store(true)
		request(cluster.NodeName)()
	})
	w.at(20*time.Second, marked(contract.EvictedBy))
	w.at(21*time.Second, request(""))
	w.at(22*time.Second, marked(""))
	w.at(30*time.Second, func() {
		require.False(t, fails.Load(), "a write has failed")
		w.DeleteVMI()
		w.EndPod(contract.ReasonShutdown, true, 0)
	})
	w.run(t)
}

// TestMigrationFails: the next migration may begin, and a repeated or late signal of the failed one changes nothing.
func TestMigrationFails(t *testing.T) {
	w := newWorld(t)
	m := newMover(w)
	w.boot()
	m.reach(t, contract.StageCopying)
	w.at(20*time.Second, func() { m.say(contract.StageStayed) })
	w.at(21*time.Second, func() {
		require.Equal(t, contract.ClaimReleased, m.last().State)
		require.Equal(t, contract.StageStayed, m.last().Stage)
		require.True(t, w.vmi().Status.MigrationState.Failed)
		require.True(t, w.vmi().Status.MigrationState.Completed)
		require.Equal(t, "cut", w.vmi().Status.MigrationState.FailureReason)
		require.NotContains(t, w.vmi().Labels, contract.LabelMigrationTarget)
		require.Equal(t, cluster.NodeName, w.vmi().Status.NodeName)
		m.say(contract.StageMoved)
		m.say(contract.StageCopying)
		m.say(contract.StageStayed)
	})
	other := contract.Object{Namespace: cluster.Namespace, Name: "again", UID: "job2"}
	claim := func() {
		w.env.SignalWorkflow(contract.SignalClaim,
			contract.MigrationClaim{Migration: other, VMIUID: w.VMI().UID, Stage: contract.StageClaim})
	}
	w.at(22*time.Second, func() {
		require.Equal(t, cluster.NodeName, w.vmi().Status.NodeName)
		require.Equal(t, contract.StageStayed, m.last().Stage)
		claim()
	})
	w.at(23*time.Second, func() {
		require.Equal(t, contract.ClaimRefused, m.received(other)[0].State, "there is a pod too many")
		require.True(t, m.received(other)[0].Again)
		w.secondIs(t, corev1.PodFailed)
	})
	w.at(23*time.Second+500*time.Millisecond, claim)
	w.at(24*time.Second, func() {
		require.Equal(t, contract.ClaimGiven, m.received(other)[1].State)
		require.True(t, w.vmi().Status.MigrationState.Failed, "what became of the last is seen until the next begins")
	})
	w.ends(t, 30*time.Second)
}

// Stages that are signalled twice, late or out of order end in the same state.
func TestMigrationStagesTwiceLateAndOutOfOrder(t *testing.T) {
	for name, end := range map[string]contract.MigrationStage{"moved": contract.StageMoved,
		"stayed": contract.StageStayed} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := newMover(w)
			w.boot()
			var said []contract.MigrationClaim
			w.at(10*time.Second, func() { w.addSecond(t) })
			for i, stage := range []contract.MigrationStage{contract.StageClaim, contract.StageHandOff,
				contract.StageCopying, end} {
				w.at(time.Duration(11+i)*time.Second, func() {
					if stage == contract.StageMoved {
						w.leaves()
					}
					said = append(said, m.signalAt(stage))
					for j := len(said) - 1; j >= 0; j-- {
						w.env.SignalWorkflow(contract.SignalClaim, said[j])
						w.env.SignalWorkflow(contract.SignalClaim, said[j])
					}
				})
			}
			w.at(20*time.Second, func() {
				node := map[string]string{"moved": "node2", "stayed": cluster.NodeName}[name]
				require.Equal(t, node, w.vmi().Status.NodeName)
				require.True(t, w.vmi().Status.MigrationState.Completed)
				require.Equal(t, name == "stayed", w.vmi().Status.MigrationState.Failed)
				require.NotContains(t, w.vmi().Labels, contract.LabelMigrationTarget)
				require.Equal(t, end, m.last().Stage)
				require.Equal(t, contract.ClaimReleased, m.last().State)
				require.Nil(t, w.state(t).Migration)
			})
			w.ends(t, 30*time.Second)
			count := map[string]int{}
			for _, e := range w.Events {
				count[e.Message]++
				require.Equal(t, 1, count[e.Message], e.Message)
			}
		})
	}
}

// TestDeletionDuringMigration: the migration is notified, and gets time to end if the guest may be moving. No pod
// stays.
func TestDeletionDuringMigration(t *testing.T) {
	for _, c := range []struct {
		stage contract.MigrationStage
		says  contract.MigrationStage // in answer; "": nothing
		waits bool
	}{
		{stage: contract.StageClaim},
		{stage: contract.StageHandOff, waits: true},
		{stage: contract.StageCopying, waits: true},
		{stage: contract.StageCopying, says: contract.StageStayed, waits: true},
		{stage: contract.StageCopying, says: contract.StageMoved, waits: true},
	} {
		t.Run(string(c.stage)+", "+string(c.says), func(t *testing.T) {
			w := newWorld(t)
			m := newMover(w)
			w.boot()
			m.reach(t, c.stage)
			w.at(21*time.Second, func() {
				require.True(t, m.last().Deleting)
				require.Equal(t, c.waits, w.Pod().DeletionTimestamp == nil)
				require.Equal(t, c.waits, w.second().DeletionTimestamp == nil)
			})
			w.at(40*time.Second, func() {
				if c.says == contract.StageMoved {
					w.leaves()
				}
				if c.says != "" {
					m.say(c.says)
				}
			})
			w.at(42*time.Second, func() {
				if c.says != "" {
					require.Equal(t, contract.ClaimReleased, m.last().State)
					require.NotNil(t, w.second().DeletionTimestamp, "there is nothing to wait for")
				}
			})
			w.at(81*time.Second, func() { require.NotNil(t, w.second().DeletionTimestamp) })
			w.ends(t, 20*time.Second)
		})
	}
}

// TestStateLostDuringMigration: the status and the pods have enough to continue, however the migration ends.
func TestStateLostDuringMigration(t *testing.T) {
	for _, stage := range []contract.MigrationStage{contract.StageClaim, contract.StageHandOff,
		contract.StageCopying} {
		for _, end := range []contract.MigrationStage{contract.StageMoved, contract.StageStayed} {
			t.Run(string(stage)+", "+string(end), func(t *testing.T) {
				first := newWorld(t)
				m := newMover(first)
				first.boot()
				m.reach(t, stage)
				first.at(20*time.Second, func() { first.env.CancelWorkflow() })
				first.env.ExecuteWorkflow(entityOf, contract.EntityInput{Namespace: cluster.Namespace,
					Name: cluster.Name})
				require.True(t, first.env.IsWorkflowCompleted())
				w := first.next()
				m.listen(w)
				w.at(0, w.resync)
				w.at(5*time.Second, func() {
					require.Equal(t, cluster.NodeName, w.state(t).Pod.NodeName)
					require.Equal(t, "Running", w.VMIStatus.Phase)
					if stage != contract.StageClaim {
						require.Equal(t, "node2", w.vmi().Labels[contract.LabelMigrationTarget])
						require.Equal(t, int64(150),
							*w.vmi().Status.MigrationState.VMIMConfigurationOptions.ProgressTimeout, "whole")
						require.Equal(t, contract.ClaimGiven, m.last().State, "it is known who has claimed it")
						require.Equal(t, stage, m.last().Stage)
					}
					m.say(contract.StageCopying)
				})
				w.at(8*time.Second, func() {
					require.Equal(t, contract.StageCopying, m.last().Stage)
					if end == contract.StageMoved {
						w.leaves()
					}
					m.say(end)
				})
				w.at(10*time.Second, func() {
					require.Equal(t, contract.ClaimReleased, m.last().State)
					require.Equal(t, end, m.last().Stage)
					require.Equal(t, end == contract.StageMoved, w.vmi().Status.NodeName == "node2")
					require.Equal(t, end == contract.StageMoved, observe.Pod(w.second()).Unpaused == "True")
				})
				w.ends(t, 30*time.Second)
			})
		}
	}
}

// TestStateLostAfterMigration: the guest is where the status says, and is not booted a second time.
func TestStateLostAfterMigration(t *testing.T) {
	first := newWorld(t)
	m := newMover(first)
	first.boot()
	m.reach(t, contract.StageCopying)
	first.at(20*time.Second, func() { first.leaves(); m.say(contract.StageMoved) })
	first.at(30*time.Second, func() { first.env.CancelWorkflow() })
	first.env.ExecuteWorkflow(entityOf, contract.EntityInput{Namespace: cluster.Namespace, Name: cluster.Name})
	w := first.next()
	m.listen(w)
	w.at(0, func() {
		w.resync()
		d := *m.signalAt(contract.StageMoved).Domain
		w.Domain = &d
		w.Signal(contract.SignalObserveDomain, d)
	})
	w.at(5*time.Second, func() {
		require.Equal(t, "node2", w.state(t).Pod.NodeName)
		require.Equal(t, "Running", w.VMIStatus.Phase)
		m.say(contract.StageMoved) // the answer to it was lost, too
	})
	w.at(6*time.Second, func() {
		require.Equal(t, contract.ClaimReleased, m.last().State)
		require.Equal(t, contract.StageMoved, m.last().Stage)
		require.Equal(t, "node2", w.vmi().Status.NodeName)
		require.True(t, w.vmi().Status.MigrationState.Completed)
	})
	w.ends(t, 30*time.Second)
}

// The reservation is carried across Continue-As-New.
func TestNextRunCarriesReservation(t *testing.T) {
	first := newWorld(t)
	m := newMover(first)
	first.boot()
	m.reach(t, contract.StageCopying)
	first.at(20*time.Second, func() { first.env.SignalWorkflow(contract.SignalContinueAsNew, nil) })
	carried := first.carried(t)
	w := first.next()
	m.listen(w)
	w.at(time.Second, func() { w.leaves(); m.say(contract.StageMoved) })
	w.at(2*time.Second, func() {
		require.Equal(t, contract.ClaimReleased, m.last().State)
		require.Equal(t, "node2", w.vmi().Status.NodeName)
	})
	w.at(10*time.Second, w.DeleteVMI)
	w.at(20*time.Second, func() { w.secondIs(t, corev1.PodSucceeded) })
	w.runWith(t, carried)
}

// TestGuestNeverArrives: the guest has left, and no migration reports its arrival within a minute.
func TestGuestNeverArrives(t *testing.T) {
	w := newWorld(t)
	m := newMover(w)
	w.boot()
	m.reach(t, contract.StageCopying)
	w.at(20*time.Second, w.leaves)
	w.at(50*time.Second, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase)
		w.Unseen(func() { w.secondIs(t, corev1.PodFailed) })
	})
	w.at(79*time.Second, func() { require.Equal(t, "Running", w.VMIStatus.Phase) })
	w.at(82*time.Second, func() {
		require.Equal(t, "Failed", w.VMIStatus.Phase)
		require.Equal(t, contract.ClaimReleased, m.last().State)
		require.Equal(t, "Failed", m.last().Phase)
		require.True(t, w.vmi().Status.MigrationState.Failed)
		last := w.Events[len(w.Events)-1]
		require.Contains(t, last.Message, "domain was never observed on the target")
		m.say(contract.StageMoved)
	})
	w.at(83*time.Second, func() { require.Equal(t, "Failed", w.VMIStatus.Phase, "it is final") })
	w.ends(t, 90*time.Second)
}

// TestWaitsForLivingTarget: the migration finds out where the guest is.
func TestWaitsForLivingTarget(t *testing.T) {
	w := newWorld(t)
	m := newMover(w)
	w.boot()
	m.reach(t, contract.StageCopying)
	w.at(20*time.Second, w.leaves)
	w.at(10*time.Minute, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase)
		m.say(contract.StageMoved)
	})
	w.at(10*time.Minute+time.Second, func() { require.Equal(t, "node2", w.vmi().Status.NodeName) })
	w.ends(t, 11*time.Minute)
}

// TestMigrationVanishes: the next one is not blocked, and the guest's location counts.
func TestMigrationVanishes(t *testing.T) {
	for name, c := range map[string]struct {
		stage  contract.MigrationStage
		target corev1.PodPhase
		left   bool
		claim  bool
		node   string
		failed bool
	}{
		"before the hand-off": {stage: contract.StageClaim, node: cluster.NodeName},
		"with its target": {stage: contract.StageCopying, target: corev1.PodFailed, node: cluster.NodeName,
			failed: true},
		"without its target": {stage: contract.StageCopying, claim: true, node: cluster.NodeName},
		"after the move":     {stage: contract.StageCopying, left: true, node: "node2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m := newMover(w)
			w.boot()
			m.reach(t, c.stage)
			w.at(20*time.Second, func() {
				m.leave(true)
				if c.target != "" {
					w.secondIs(t, c.target)
				}
				if c.left {
					w.leaves()
					w.Signal(contract.SignalObserveDomain, *m.signalAt(contract.StageMoved).Domain)
				}
			})
			w.at(11*time.Minute, func() {
				require.Equal(t, "Running", w.VMIStatus.Phase)
				require.Equal(t, c.node, w.vmi().Status.NodeName)
				require.Equal(t, c.claim, w.state(t).Migration != nil)
				if state := w.vmi().Status.MigrationState; c.failed {
					require.True(t, state.Failed)
					require.NotEmpty(t, state.FailureReason)
				}
			})
			w.ends(t, 12*time.Minute)
		})
	}
}

// A target pod that was not observed is searched for when the guest is there.
func TestSearchesUnseenTargetPod(t *testing.T) {
	w := newWorld(t)
	m := newMover(w)
	w.boot()
	w.at(10*time.Second, func() {
		w.Unseen(func() { w.addSecond(t) })
		m.say(contract.StageClaim)
	})
	w.at(11*time.Second, func() { m.say(contract.StageHandOff) })
	w.at(12*time.Second, func() { m.say(contract.StageCopying); w.leaves() })
	w.at(13*time.Second, func() { m.say(contract.StageMoved) })
	w.at(14*time.Second, func() {
		require.Equal(t, contract.ClaimReleased, m.last().State)
		require.Equal(t, "node2", w.vmi().Status.NodeName)
	})
	w.ends(t, 30*time.Second)
}
