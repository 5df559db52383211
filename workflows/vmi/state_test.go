package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

func TestAPodWithoutANodeEndsWhenItIsDeleted(t *testing.T) {
	now := time.Unix(1000, 0)
	s := State{Phase: PhaseScheduling}
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "1", Phase: "Scheduling", DeletionTimestamp: &now, Finalizers: []string{contract.FinalizerVMI}})
	s.observePod(contract.PodObservation{UID: "p", VMIUID: "i", ResourceVersion: "2", Phase: "Pending", Finalizers: []string{contract.FinalizerPod}, DeletionTimestamp: &now})
	s.refresh(now)
	require.Equal(t, PhaseFailed, s.Phase)
	require.Equal(t, actRemovePodFinalizer, s.decide(now).Action, "no kubelet will report its end")

	placed := s
	pod := *s.Pod
	pod.NodeName = "node1"
	placed.Pod = &pod
	require.False(t, placed.podEnded(), "a pod on a node may run: deleting it is no proof that it ended")
}

func TestANewerObjectProvesThatTheOldOneIsGone(t *testing.T) {
	s := State{}
	s.observeVMI(contract.VMIObservation{UID: "old", ResourceVersion: "1"})
	s.Pod = &contract.PodObservation{Gone: true}
	s.observeVMI(contract.VMIObservation{UID: "new", ResourceVersion: "2"})
	s.refresh(time.Unix(1000, 0))
	require.Equal(t, actNext, s.decide(time.Unix(1000, 0)).Action)
}

// TestAnEarlierPodEndsFirst: a pod whose VMI nobody saw is there when an object of the same name appears.
func TestAnEarlierPodEndsFirst(t *testing.T) {
	now := time.Unix(1000, 0)
	s := State{}
	s.observePod(contract.PodObservation{UID: "p", VMIUID: "old", ResourceVersion: "1", Phase: "Running", NodeName: "node1", Finalizers: []string{contract.FinalizerPod}, DeletionTimestamp: &now})
	s.observeVMI(contract.VMIObservation{UID: "new", ResourceVersion: "2"})
	s.refresh(now)
	require.Equal(t, actNone, s.decide(now).Action, "the earlier guest may still run")
	ended := *s.Pod
	ended.Phase, ended.ResourceVersion = "Succeeded", "3"
	s.observePod(ended)
	require.Equal(t, actRemovePodFinalizer, s.decide(now).Action)
	s.Failure = &entity.Failure{Step: string(actRemovePodFinalizer), RetryAt: now.Add(time.Second)}
	require.Equal(t, decision{WakeAt: now.Add(time.Second), Waiting: "another attempt to remove the finalizer of the launcher pod: "}, s.decide(now))
	s.observePod(contract.PodObservation{UID: "p", Gone: true})
	require.Equal(t, actNext, s.decide(now).Action)
	s = s.next()
	require.Equal(t, "new", s.Object.UID)
	require.Nil(t, s.Pod)
}

func TestThePodOfAnEarlierObjectIsNotTakenForItsOwn(t *testing.T) {
	s := State{}
	s.observePod(contract.PodObservation{UID: "p", VMIUID: "old", ResourceVersion: "5", Phase: "Succeeded"})
	s.found(nil)
	s.observeVMI(contract.VMIObservation{UID: "new", ResourceVersion: "10", Phase: "Pending"})
	s.refresh(time.Time{})
	require.Equal(t, actCreatePod, s.decide(time.Time{}).Action)
}

func TestAnEntityThatCameTooLateEnds(t *testing.T) {
	s := State{}
	s.observeVMI(contract.VMIObservation{UID: "i", Gone: true})
	require.Equal(t, actFinish, s.decide(time.Time{}).Action)
}
