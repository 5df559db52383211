package vmi

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/waits"
)

func TestPodWithoutNodeEndsWhenDeleted(t *testing.T) {
	now := time.Unix(1000, 0)
	s := State{Phase: PhaseScheduling}
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "1", Phase: "Scheduling", DeletionTimestamp: &now,
		Finalizers: []string{contract.FinalizerVMI}})
	s.observePod(contract.PodObservation{UID: "p", VMIUID: "i", ResourceVersion: "2", Phase: "Pending",
		Finalizers: []string{contract.FinalizerPod}, DeletionTimestamp: &now})
	s.refresh(now)
	require.Equal(t, PhaseFailed, s.Phase)
	require.Equal(t, actRemovePodFinalizer, s.decide(now).Action, "no kubelet will report its end")

	placed := s
	pod := *s.Pod
	pod.NodeName = "node1"
	placed.Pod = &pod
	require.False(t, placed.hasPodEnded(), "a pod on a node may run: deleting it is no proof that it ended")
}

func TestNewerObjectProvesOldIsGone(t *testing.T) {
	s := State{}
	s.observeVMI(contract.VMIObservation{UID: "old", ResourceVersion: "1"})
	s.Pod = &contract.PodObservation{Gone: true}
	s.observeVMI(contract.VMIObservation{UID: "new", ResourceVersion: "2"})
	s.refresh(time.Unix(1000, 0))
	require.Equal(t, entity.ActNext, s.decide(time.Unix(1000, 0)).Action)
}

// TestReadsAfterUnknownVersionIsResent: Temporal has lost a version of the VMI that this run does not know.
func TestReadsAfterUnknownVersionIsResent(t *testing.T) {
	for version, stale := range map[string]bool{"1": false, "2": false, "3": true} {
		s := State{}
		s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "2"})
		s.Stale = false
		s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: version, Again: true})
		require.Equal(t, stale, s.Stale, version)
	}
}

// TestEarlierPodEndsFirst: a pod whose VMI was never observed exists when an object of the same name appears.
func TestEarlierPodEndsFirst(t *testing.T) {
	now := time.Unix(1000, 0)
	s := State{}
	s.observePod(contract.PodObservation{UID: "p", VMIUID: "old", ResourceVersion: "1", Phase: "Running",
		NodeName: "node1", Finalizers: []string{contract.FinalizerPod}, DeletionTimestamp: &now})
	s.observeVMI(contract.VMIObservation{UID: "new", ResourceVersion: "2"})
	s.refresh(now)
	require.Equal(t, entity.ActRead, s.decide(now).Action, "the earlier one was not observed")
	s.applyRead(contract.ReadVMIResult{FindPodResult: contract.FoundPods(*s.Pod)})
	s.FindPodAt = now.Add(findPodAfter)
	require.Equal(t, entity.ActNone, s.decide(now).Action, "the earlier guest may still run")
	ended := *s.Pod
	ended.Phase, ended.ResourceVersion = "Succeeded", "3"
	s.observePod(ended)
	require.Equal(t, actRemovePodFinalizer, s.decide(now).Action)
	s.Failure = &entity.Failure{Step: string(actRemovePodFinalizer), RetryAt: now.Add(time.Second)}
	require.Equal(t, decision{WakeAt: now.Add(time.Second),
		Waiting: waits.For(waits.NextAttempt, actRemovePodFinalizer, "")}, s.decide(now))
	s.observePod(contract.PodObservation{UID: "p", Gone: true})
	require.Equal(t, entity.ActNext, s.decide(now).Action)
	s = s.successor()
	require.Equal(t, "new", s.Object.UID)
	require.Nil(t, s.Pod)
}

func TestDropsPodOfEarlierObject(t *testing.T) {
	s := State{}
	s.observePod(contract.PodObservation{UID: "p", VMIUID: "old", ResourceVersion: "5", Phase: "Succeeded"})
	s.applyFoundPods(nil)
	s.observeVMI(contract.VMIObservation{UID: "new", ResourceVersion: "10", Phase: "Pending"})
	s.refresh(time.Time{})
	require.Equal(t, actCreatePod, s.decide(time.Time{}).Action)
}

func TestFinishesWhenInstanceIsAlreadyGone(t *testing.T) {
	s := State{}
	s.observeVMI(contract.VMIObservation{UID: "i", Gone: true})
	require.Equal(t, entity.ActFinish, s.decide(time.Time{}).Action)
}

// TestReadsFirstInNewEpoch: the state may be that of an older copy of the history.
func TestReadsFirstInNewEpoch(t *testing.T) {
	s := State{}
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "50", Phase: "Scheduling", Epoch: 1})
	s.observePod(contract.PodObservation{UID: "p", VMIUID: "i", ResourceVersion: "51", Phase: "Running", NodeName: "n",
		ComputeRunning: true})
	s.Fenced = &Fencing{PodUID: "p"}
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "9", Phase: "Running", Epoch: 2})
	require.Equal(t, entity.ActRead, s.decide(noon).Action, "also where versions run backwards")
	s.applyRead(contract.ReadVMIResult{
		VMI: &contract.VMIObservation{UID: "i", ResourceVersion: "10", Phase: "Running"},
		FindPodResult: contract.FoundPods(contract.PodObservation{UID: "p", VMIUID: "i", ResourceVersion: "11",
			Phase: "Running", NodeName: "n", ComputeRunning: true}),
	})
	require.Equal(t, PhaseRunning, s.Phase)
	require.Equal(t, "10", s.VMI.ResourceVersion)
	require.Nil(t, s.Fenced, "the proof that its node is off must be renewed")
	s.refresh(noon)
	require.Equal(t, actStartDomain, s.decide(noon).Action, "which finds the domain that runs")
}

// In a new epoch another object of the name comes after the known one, although its version is lower: etcd was
// restored. The entity reads whether the known object is gone. As long as it exists, the other one is outdated.
func TestAnotherObjectInNewEpoch(t *testing.T) {
	for name, there := range map[string]bool{"the known one is gone": false, "the known one is there": true} {
		t.Run(name, func(t *testing.T) {
			s := State{}
			s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "50", Phase: "Running", Epoch: 1})
			s.observeVMI(contract.VMIObservation{UID: "before", ResourceVersion: "9", Phase: "Running", Epoch: 2})
			require.False(t, s.VMI.Gone)
			require.Equal(t, entity.ActRead, s.decide(noon).Action)
			r := contract.ReadVMIResult{}
			if there {
				r.VMI = &contract.VMIObservation{UID: "i", ResourceVersion: "51", Phase: "Running"}
			}
			s.applyRead(r)
			if there {
				require.Nil(t, s.Next)
				return
			}
			require.Equal(t, actFindPod, s.decide(noon).Action)
			s.applyFoundPods(nil)
			require.Equal(t, entity.ActNext, s.decide(noon).Action)
			next := s.successor()
			require.Equal(t, "before", next.Object.UID)
		})
	}
}

// In a new epoch the pods of an instance that is gone are searched for at once: they may have gone with it without an
// observation.
func TestSearchesPodsOfGoneInstanceInNewEpoch(t *testing.T) {
	s := State{}
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "50", Phase: "Running", Epoch: 1})
	s.observePod(contract.PodObservation{UID: "p", VMIUID: "i", ResourceVersion: "51", Phase: "Running", Epoch: 1,
		Finalizers: []string{contract.FinalizerPod}})
	s.observeVMI(contract.VMIObservation{UID: "i", Gone: true, Epoch: 2})
	require.Equal(t, actFindPod, s.decide(noon).Action)
	s.applyFoundPods(nil)
	require.Equal(t, entity.ActFinish, s.decide(noon).Action)
}

// TestKeepsPVCsObservedDuringCreatePod: they are newer than what the activity has read.
func TestKeepsPVCsObservedDuringCreatePod(t *testing.T) {
	said := func(capacity string) []contract.VolumeClaim {
		return []contract.VolumeClaim{{Volume: "data", Claim: "data", UID: "c", Capacity: capacity}}
	}
	var s State
	s.Object.UID = "u"
	s.noteAttempt(contract.CreatePodResult{Claims: said("1Gi")}, noon)
	require.Equal(t, said("1Gi"), s.PVCs)
	s.observePVCs(contract.VMIObservation{UID: "u", Claims: said("2Gi")}, &s.VMIObject, true)
	s.noteAttempt(contract.CreatePodResult{Claims: said("1Gi")}, noon)
	require.Equal(t, said("2Gi"), s.PVCs)
}

// An OOMKilled pod is explained as soon as the kubelet reports it, also for a guest whose end was observed before.
func TestExplainsOOMKilledPod(t *testing.T) {
	one := int32(1)
	pod := contract.PodObservation{UID: "p", VMIUID: "i", ResourceVersion: "51", Phase: "Running", NodeName: "n",
		ComputeRunning: true}
	ended := pod
	ended.ResourceVersion, ended.Phase, ended.ComputeRunning, ended.ExitCode = "52", "Failed", false, &one
	ended.TerminationMessage, ended.ExitReason = `{"reason":"Crashed","ran":true}`, "OOMKilled"
	crashed := contract.DomainObservation{PodUID: "p", Sequence: 2, State: contract.DomainCrashed, Reason: "Crashed"}
	for name, seen := range map[string]func(*State){
		"the pod's end alone": func(s *State) { s.observePod(ended) },
		"the guest's before": func(s *State) {
			s.observeDomain(crashed)
			s.refresh(noon)
			require.Equal(t, PhaseFailed, s.Phase)
			require.NotContains(t, s.Explanation, "OOMKilled")
			s.observePod(ended)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := State{}
			s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "50", Phase: "Running"})
			s.observePod(pod)
			s.observeDomain(contract.DomainObservation{PodUID: "p", Sequence: 1, State: contract.DomainRunning})
			s.refresh(noon)
			seen(&s)
			s.refresh(noon)
			s.refresh(noon)
			require.Equal(t, PhaseFailed, s.Phase)
			require.Equal(t, 1, strings.Count(s.Explanation, "OOMKilled"), s.Explanation)
		})
	}
}
