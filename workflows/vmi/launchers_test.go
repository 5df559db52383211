package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// orders returns all permutations of a list.
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

// uids returns the UIDs of the entity's pods, that of the current one first ("" where there is none).
func (s *State) uids() []string {
	out := []string{""}
	if s.hasPod() {
		out[0] = s.Pod.UID
	}
	for _, l := range s.Others {
		out = append(out, l.Pod.UID)
	}
	return out
}

// An entity without history chooses the current pod, from observations or a read, in any order.
func TestChoosesCurrentPod(t *testing.T) {
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
		"one":                        {"n1", pods{first}, "a"},
		"one, and it is elsewhere":   {"n1", pods{elsewhere}, "a"},
		"one, status without node":   {"", pods{first}, "a"},
		"before a move":              {"n1", pods{first, target}, "a"},
		"a target without a node":    {"n1", pods{first, unplaced}, "a"},
		"after a move":               {"n2", pods{first, target}, "b"},
		"after a move, a is gone":    {"n2", pods{target}, "b"},
		"before a second move":       {"n2", pods{first, target, next}, "b"},
		"after a second move":        {"n3", pods{target, next}, "c"},
		"a target, a is gone":        {"n1", pods{target}, ""},
		"second of another instance": {"n1", pods{first, foreign}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			vmi := contract.VMIObservation{UID: "i", ResourceVersion: "1", Phase: "Running", NodeName: c.node}
			check := func(s *State) {
				t.Helper()
				s.refresh(noon)
				if s.decide(noon).Action == actFindPod {
					s.applyFoundPods(c.pods)
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
				found.applyFoundPods(list)
				read.observePod(list[0])
				read.applyRead(contract.ReadVMIResult{VMI: &vmi, FindPodResult: contract.FoundPods(list...)})
				for _, s := range []*State{before, after, found, read} {
					check(s)
				}
			}
		})
	}
}

// No guest is booted in the pod of a migration before the VMI is known to have moved.
func TestDoesNotBootInMigrationPod(t *testing.T) {
	s := &State{}
	target := contract.PodObservation{UID: "b", VMIUID: "i", ResourceVersion: "5", Phase: "Running", NodeName: "n2",
		Migration: "j", ComputeRunning: true}
	s.observePod(target)
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "1", Phase: "Running", NodeName: "n1"})
	s.refresh(noon)
	require.Equal(t, actFindPod, s.decide(noon).Action)
	s.applyFoundPods([]contract.PodObservation{target})
	s.refresh(noon)
	require.Equal(t, PhaseFailed, s.Phase, "its own pod has vanished")
	require.NotEqual(t, actStartDomain, s.decide(noon).Action)
	require.Equal(t, map[string]string{"b": "n2"}, s.status().ActivePods)
}

// A pod of another UID is ignored, whatever its name is.
func TestIgnoresPodOfAnotherUID(t *testing.T) {
	s := seen(contract.VMIObservation{Phase: "Running", NodeName: "n"},
		contract.PodObservation{Phase: "Running", NodeName: "n"})
	s.observePod(contract.PodObservation{UID: "q", Name: "launcher", VMIUID: "j", ResourceVersion: "9", NodeName: "n"})
	require.Equal(t, []string{"p"}, s.uids())
	s.observeDomain(contract.DomainObservation{PodUID: "q", Sequence: 9, State: contract.DomainShutoff})
	require.Nil(t, s.Domain)
}

// both returns a running VMI with a second pod.
func both() *State {
	s := seen(contract.VMIObservation{Phase: "Running", NodeName: "n"},
		contract.PodObservation{Phase: "Running", NodeName: "n", ComputeRunning: true, Unpaused: "True"})
	s.observeDomain(contract.DomainObservation{PodUID: "p", Sequence: 1, State: contract.DomainRunning})
	s.observePod(contract.PodObservation{UID: "q", Name: "second", VMIUID: "i", ResourceVersion: "3", Phase: "Running",
		NodeName: "m", ComputeRunning: true, Finalizers: []string{contract.FinalizerPod}, Migration: "j"})
	s.refresh(noon)
	return s
}

// TestDeletesTwoPodsIndependently: each pod's finalizer is removed by itself, and the VMI stays until both pods are
// gone.
func TestDeletesTwoPodsIndependently(t *testing.T) {
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
				require.Len(t, s.knownPods(""), 1-i, "a pod whose end was seen needs no search")
				if i == 0 {
					step(entity.ActNone, "")
					require.Equal(t, 1, len(s.status().ActivePods))
					require.ElementsMatch(t, []string{uid, "z"}, s.vanishedPods(s.status()))
				}
			}
			step(actRemoveFinalizers, "")
		})
	}
}

// TestOtherPodEndDoesNotEndGuest: that pod's finalizer is removed.
func TestOtherPodEndDoesNotEndGuest(t *testing.T) {
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

// TestFencesNodeOfOtherPod: that pod is force-deleted, and the guest continues.
func TestFencesNodeOfOtherPod(t *testing.T) {
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
	_, err := s.findFenceable()
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

// TestAddsUnknownPodFromRefusal: the entity waits for its end, and the current pod stays the current one.
func TestAddsUnknownPodFromRefusal(t *testing.T) {
	s := seen(contract.VMIObservation{Phase: "Running", NodeName: "n"},
		contract.PodObservation{Phase: "Running", NodeName: "n"})
	s.observePod(contract.PodObservation{UID: "p", Gone: true})
	x := contract.PodObservation{UID: "x", Name: "x", VMIUID: "i", ResourceVersion: "7", NodeName: "m"}
	require.NoError(t, s.adoptReadPod(&x, "it has not ended"))
	require.Equal(t, []string{"", "x"}, s.uids())
	require.Equal(t, []contract.Object{{Name: "launcher", UID: "p"}, {Name: "x", UID: "x"}}, s.knownPods(""))
	require.Error(t, s.adoptReadPod(&x, "it has not ended"), "which is known")
}

// TestKeepsNodeObservedBeforePod: the node is lost, and no later observation says so.
func TestKeepsNodeObservedBeforePod(t *testing.T) {
	s := &State{}
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "1"})
	lost := contract.NodeState{PodUID: "p", Name: "n", UID: "n1", ResourceVersion: "4", Since: noon}
	s.observeNode(lost)
	s.observePod(contract.PodObservation{UID: "p", VMIUID: "i", ResourceVersion: "5", Phase: "Running", NodeName: "n"})
	require.Equal(t, &lost, s.node())
	s.applyRead(contract.ReadVMIResult{VMI: s.VMI, FindPodResult: contract.FoundPods(*s.Pod)})
	require.Equal(t, &lost, s.node())
}

// TestRefusedCreatePodCorrectsPhase: the refusal has the phase of the VMI, even where nothing else is new.
func TestRefusedCreatePodCorrectsPhase(t *testing.T) {
	s := &State{}
	s.observeVMI(contract.VMIObservation{UID: "i", ResourceVersion: "1"})
	s.refresh(noon)
	now := contract.VMIObservation{UID: "i", ResourceVersion: "2", Phase: "Running", NodeName: "n"}
	s.observeVMI(now)
	require.Equal(t, actCreatePod, s.decide(noon).Action)
	require.NoError(t, s.adoptRead(&now, "never booted again"))
	require.Equal(t, actFindPod, s.decide(noon).Action)
	require.Error(t, s.adoptRead(&now, "never booted again"), "which is known by now")
}

// TestChooseCurrent: which of several pods the guest runs in, by the node in the VMI's status.
func TestChooseCurrent(t *testing.T) {
	pod := func(uid, node, migration string) Launcher {
		return Launcher{Pod: &contract.PodObservation{UID: uid, NodeName: node, Migration: migration}}
	}
	gone := Launcher{Pod: &contract.PodObservation{UID: "gone", NodeName: "n1", Gone: true}}
	for name, c := range map[string]struct {
		known []Launcher
		node  string
		all   bool
		want  string // "": none
	}{
		"no pod":             {},
		"none in the status": {known: []Launcher{pod("a", "n1", "")}, want: "a"},
		"on its node": {known: []Launcher{pod("a", "n2", ""), pod("b", "n1", "m")}, node: "n1",
			want: "b"},
		"gone from its node":          {known: []Launcher{gone}, node: "n1"},
		"elsewhere, others may exist": {known: []Launcher{pod("a", "n2", "")}, node: "n1"},
		"elsewhere, no other exists": {known: []Launcher{pod("a", "n2", "")}, node: "n1", all: true,
			want: "a"},
		"a target elsewhere, no other exists": {known: []Launcher{pod("a", "n2", "m")}, node: "n1", all: true},
		"a target, and the source is on no node": {known: []Launcher{pod("a", "n2", "m"), pod("b", "", "")}, node: "n1",
			all: true, want: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			ls := Launchers{Others: c.known}
			ls.chooseCurrent(c.node, c.all)
			if c.want == "" {
				require.Nil(t, ls.Pod)
				return
			}
			require.NotNil(t, ls.Pod)
			require.Equal(t, c.want, ls.Pod.UID)
			require.Len(t, ls.launchers(), len(c.known), "no pod is lost")
		})
	}
}

// TestTargetOfMigration: the pod that the guest may have moved to is alive, and the migration has made it.
func TestTargetOfMigration(t *testing.T) {
	alive := Launcher{Pod: &contract.PodObservation{UID: "q", Migration: "m"}}
	ended := Launcher{Pod: &contract.PodObservation{UID: "q", Migration: "m", Phase: "Failed"}}
	for name, c := range map[string]struct {
		other     Launcher
		migration string
		want      bool
		live      bool
	}{
		"its own":         {alive, "m", true, true},
		"another's":       {alive, "x", false, false},
		"any migration's": {alive, "", true, false},
		"made by none":    {Launcher{Pod: &contract.PodObservation{UID: "q"}}, "", false, true},
		"ended":           {ended, "m", false, false},
		"off in a pod that is there": {Launcher{Pod: alive.Pod, Domain: &contract.DomainObservation{PodUID: "q",
			State: contract.DomainShutoff}}, "m", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			ls := Launchers{Launcher: Launcher{Pod: &contract.PodObservation{UID: "p"}}, Others: []Launcher{c.other}}
			require.Equal(t, c.want, ls.target(c.migration) != nil)
			require.Equal(t, c.live, ls.hasLivePodOf(c.migration) && ls.launcher("q").Pod.Migration == c.migration)
			require.Equal(t, c.other.Pod.Migration == c.migration || c.migration == "", ls.hasPodOf(c.migration))
			if c.want && c.migration != "" {
				changed, known := ls.makeCurrent(c.migration)
				require.True(t, changed && known)
				require.Equal(t, "q", ls.Pod.UID)
				require.Equal(t, "p", ls.Others[0].Pod.UID, "the source's pod stays known")
			}
		})
	}
}
