package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// orders are all orders of a list.
func orders[T any](list []T) [][]T {
	if len(list) == 0 {
		return [][]T{nil}
	}
	var out [][]T
	for i := range list {
		rest := append(append([]T{}, list[:i]...), list[i+1:]...)
		for _, o := range orders(rest) {
			out = append(out, append([]T{list[i]}, o...))
		}
	}
	return out
}

// uids are those of the pods that an entity has, the one in hand first and "" where there is none.
func (s *State) uids() []string {
	out := []string{""}
	if s.podHeld() {
		out[0] = s.Pod.UID
	}
	for _, l := range s.Others {
		out = append(out, l.Pod.UID)
	}
	return out
}

// TestWhichPodTheGuestRunsIn, where an entity has no memory: however it learns of the pods, and in any order.
func TestWhichPodTheGuestRunsIn(t *testing.T) {
	pod := func(uid, node, migration string) contract.PodObservation {
		return contract.PodObservation{UID: uid, Name: "launcher-" + uid, VMIUID: "i", ResourceVersion: "5",
			Phase: "Running", NodeName: node, Migration: migration}
	}
	first, elsewhere, foreign := pod("a", "n1", ""), pod("a", "n2", ""), pod("x", "n2", "")
	target, unplaced, next := pod("b", "n2", "j"), pod("b", "", "j"), pod("c", "n3", "k")
	type pods []contract.PodObservation
	for name, c := range map[string]struct {
		node   string // in the VMI's status
		pods   pods
		inHand string
	}{
		"one":                      {"n1", pods{first}, "a"},
		"one, and it is elsewhere": {"n1", pods{elsewhere}, "a"},
		"one, nobody knows where":  {"", pods{first}, "a"},
		"before a move":            {"n1", pods{first, target}, "a"},
		"a target without a node":  {"n1", pods{first, unplaced}, "a"},
		"after a move":             {"n2", pods{first, target}, "b"},
		"after a move, a is gone":  {"n2", pods{target}, "b"},
		"before a second move":     {"n2", pods{first, target, next}, "b"},
		"after a second move":      {"n3", pods{target, next}, "c"},
		"a target, a is gone":      {"n1", pods{target}, ""},
		"somebody else's second":   {"n1", pods{first, foreign}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			vmi := contract.VMIObservation{UID: "i", ResourceVersion: "1", Phase: "Running", NodeName: c.node}
			check := func(s *State) {
				t.Helper()
				s.refresh(noon)
				if s.decide(noon).Action == actFindPod {
					s.found(c.pods)
				}
				got := s.uids()
				require.Equal(t, c.inHand, got[0])
				seen := len(got) - 1
				if got[0] != "" {
					seen++
				}
				require.Equal(t, len(c.pods), seen)
			}
			for _, list := range orders(c.pods) {
				before, after, found, read := &State{}, &State{}, &State{}, &State{}
				before.observeVMI(vmi)
				for _, o := range list {
					before.observePod(o)
					require.Contains(t, []string{"", c.inHand}, before.uids()[0], "at no time another one")
					after.observePod(o)
				}
				after.observeVMI(vmi)
				require.Contains(t, []string{"", c.inHand}, after.uids()[0])
				found.observeVMI(vmi)
				found.found(list)
				read.observePod(list[0])
				read.read(contract.ReadVMIResult{VMI: &vmi, FindPodResult: contract.FoundPods(list...)})
				for _, s := range []*State{before, after, found, read} {
					check(s)
				}
			}
		})
	}
}

// TestAMigrationsPodIsNotBootedIn: before its VMI is known to have moved, nothing is started in it.
func TestAMigrationsPodIsNotBootedIn(t *testing.T) {
	s := &State{}
	target := contract.PodObservation{UID: "b", VMIUID: "i", ResourceVersion: "5", Phase: "Running", NodeName: "n2",
		Migration: "j", ComputeRunning: true}
	s.observePod(target)
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "1", Phase: "Running", NodeName: "n1"})
	s.refresh(noon)
	require.Equal(t, actFindPod, s.decide(noon).Action)
	s.found([]contract.PodObservation{target})
	s.refresh(noon)
	require.Equal(t, PhaseFailed, s.Phase, "its own pod has vanished")
	require.NotEqual(t, actStartDomain, s.decide(noon).Action)
	require.Equal(t, map[string]string{"b": "n2"}, s.status().ActivePods)
}

// TestAPodOfAnotherUIDIsNotItsOwn, whatever its name.
func TestAPodOfAnotherUIDIsNotItsOwn(t *testing.T) {
	s := seen(contract.VMIObservation{Phase: "Running", NodeName: "n"},
		contract.PodObservation{Phase: "Running", NodeName: "n"})
	s.observePod(contract.PodObservation{UID: "q", Name: "launcher", VMIUID: "j", ResourceVersion: "9", NodeName: "n"})
	require.Equal(t, []string{"p"}, s.uids())
	s.observeDomain(contract.DomainObservation{PodUID: "q", Sequence: 9, State: contract.DomainShutoff})
	require.Nil(t, s.Domain)
}

// both is a running VMI with a second pod.
func both() *State {
	s := seen(contract.VMIObservation{Phase: "Running", NodeName: "n"},
		contract.PodObservation{Phase: "Running", NodeName: "n", ComputeRunning: true, Unpaused: "True"})
	s.observeDomain(contract.DomainObservation{PodUID: "p", Sequence: 1, State: contract.DomainRunning})
	s.observePod(contract.PodObservation{UID: "q", Name: "second", VMIUID: "i", ResourceVersion: "3", Phase: "Running",
		NodeName: "m", ComputeRunning: true, Finalizers: []string{contract.FinalizerPod}, Migration: "j"})
	s.refresh(noon)
	return s
}

// TestTwoPodsOfWhichOneEnds: each is deleted and released by itself, and the VMI stays until both are gone.
func TestTwoPodsOfWhichOneEnds(t *testing.T) {
	for _, first := range []string{"p", "q"} {
		t.Run(first+" ends first", func(t *testing.T) {
			s := both()
			require.Equal(t, map[string]string{"p": "n", "q": "m"}, s.status().ActivePods)
			o := *s.VMI
			o.DeletionTimestamp, o.ResourceVersion, o.ActivePods = &noon, "9", []string{"p", "q", "z"}
			s.observeVMI(o)
			step := func(a action, uid string) {
				t.Helper()
				s.refresh(noon)
				d := s.decide(noon)
				require.Equal(t, a, d.Action, "%+v", d)
				require.Equal(t, uid, d.Object)
			}
			for _, uid := range []string{"p", "q"} {
				step(actDeletePod, uid)
				s.launcher(uid).PodDeleted = true
			}
			step(entity.ActNone, "")
			second := map[string]string{"p": "q", "q": "p"}[first]
			for i, uid := range []string{first, second} {
				ended := *s.launcher(uid).Pod
				ended.Phase, ended.ResourceVersion, ended.DeletionTimestamp = "Succeeded", "10", &noon
				s.observePod(ended)
				step(actRemovePodFinalizer, uid)
				s.launcher(uid).FinalizerRemoved = true
				s.observePod(contract.PodObservation{UID: uid, VMIUID: "i", Gone: true})
				s.observePod(ended) // late
				require.Len(t, s.known(), 1-i, "nobody need look for what was seen to its end")
				if i == 0 {
					step(entity.ActNone, "")
					require.Equal(t, 1, len(s.status().ActivePods))
					require.ElementsMatch(t, []string{uid, "z"}, s.leftPods(s.status()))
				}
			}
			step(actRemoveFinalizers, "")
		})
	}
}

// TestTheEndOfAnotherPodIsNotTheGuests: it is released, and the guest goes on.
func TestTheEndOfAnotherPodIsNotTheGuests(t *testing.T) {
	s := both()
	ended := *s.launcher("q").Pod
	ended.Phase, ended.ResourceVersion = "Failed", "10"
	s.observePod(ended)
	s.refresh(noon)
	d := s.decide(noon)
	require.Equal(t, actRemovePodFinalizer, d.Action)
	require.Equal(t, "q", d.Object)
	require.Equal(t, PhaseRunning, s.Phase)
}

// TestTheNodeOfAnotherPodIsFenced by itself: that pod is removed by force, and the guest goes on.
func TestTheNodeOfAnotherPodIsFenced(t *testing.T) {
	s := both()
	later := noon.Add(time.Hour)
	down := contract.NodeState{PodUID: "q", Name: "m", UID: "m1", ResourceVersion: "20", Since: noon}
	s.observeNode(down)
	down.OutOfService, down.ResourceVersion = true, "21"
	s.observeNode(down)
	require.Nil(t, s.Node, "its own node is another one")
	s.refresh(later)
	d := s.decide(later)
	require.Equal(t, actForceDeletePod, d.Action)
	require.Equal(t, "q", d.Object)
	require.Equal(t, PhaseRunning, s.Phase)
	_, err := s.fenceable()
	require.Error(t, err, "it counts as off already")

	s.unfence("q", &contract.NodeState{PodUID: "q", Name: "m", UID: "m1", ResourceVersion: "22", Ready: true})
	s.refresh(later)
	require.NotEqual(t, actForceDeletePod, s.decide(later).Action)
	s.observeNode(contract.NodeState{PodUID: "q", Name: "m", UID: "m1", ResourceVersion: "23", Since: noon})
	said, err := s.confirmFence(later, contract.ControlRequest{Actor: "ann"})
	require.NoError(t, err)
	require.Contains(t, said, "second")
	require.Equal(t, "q", s.decide(later).Object)
}

// TestARefusalNamesAPodThatWasNotKnown: it is waited for, and the one in hand stays so.
func TestARefusalNamesAPodThatWasNotKnown(t *testing.T) {
	s := seen(contract.VMIObservation{Phase: "Running", NodeName: "n"},
		contract.PodObservation{Phase: "Running", NodeName: "n"})
	s.observePod(contract.PodObservation{UID: "p", Gone: true})
	x := contract.PodObservation{UID: "x", Name: "x", VMIUID: "i", ResourceVersion: "7", NodeName: "m"}
	require.NoError(t, s.correctPod(&x, "it has not ended"))
	require.Equal(t, []string{"", "x"}, s.uids())
	require.Equal(t, []contract.Object{{Name: "launcher", UID: "p"}, {Name: "x", UID: "x"}}, s.known())
	require.Error(t, s.correctPod(&x, "it has not ended"), "which is known")
}

// TestWhatIsHeardBeforeThePodIsKept: its node is lost, and nobody says so again.
func TestWhatIsHeardBeforeThePodIsKept(t *testing.T) {
	s := &State{}
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "1"})
	lost := contract.NodeState{PodUID: "p", Name: "n", UID: "n1", ResourceVersion: "4", Since: noon}
	s.observeNode(lost)
	s.observePod(contract.PodObservation{UID: "p", VMIUID: "i", ResourceVersion: "5", Phase: "Running", NodeName: "n"})
	require.Equal(t, &lost, s.node())
	s.read(contract.ReadVMIResult{VMI: s.VMI, FindPodResult: contract.FoundPods(*s.Pod)})
	require.Equal(t, &lost, s.node())
}

// TestAnInstanceThatHasBegunIsNotMadeAPod: the refusal says in which phase it is, even where nothing else is new.
func TestAnInstanceThatHasBegunIsNotMadeAPod(t *testing.T) {
	s := &State{}
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "1"})
	s.refresh(noon)
	now := contract.VMIObservation{UID: "i", ResourceVersion: "2", Phase: "Running", NodeName: "n"}
	s.observeVMI(now)
	require.Equal(t, actCreatePod, s.decide(noon).Action)
	require.NoError(t, s.correct(&now, "never booted again"))
	require.Equal(t, actFindPod, s.decide(noon).Action)
	require.Error(t, s.correct(&now, "never booted again"), "which is known by now")
}
