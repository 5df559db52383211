package vmi

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

// TestNodeObservationsInAnyOrder: twice, late or out of order, they end in the same state.
func TestNodeObservationsInAnyOrder(t *testing.T) {
	at := func(version string, ready bool) contract.NodeState {
		return contract.NodeState{PodUID: "p", Name: "n", UID: "n1", ResourceVersion: version, Ready: ready,
			Since: noon}
	}
	gone := contract.NodeState{PodUID: "p", Name: "n", UID: "n1", Gone: true}
	recreated := contract.NodeState{PodUID: "p", Name: "n", UID: "n2", ResourceVersion: "30", Ready: true, Since: noon}
	for name, c := range map[string]struct {
		observed []contract.NodeState
		ready    bool
		gone     bool
		uid      string
	}{
		"silent, then back":       {[]contract.NodeState{at("10", false), at("20", true)}, true, false, "n1"},
		"silent, then deleted":    {[]contract.NodeState{at("10", false), gone}, false, true, "n1"},
		"deleted, then recreated": {[]contract.NodeState{at("10", false), gone, recreated}, true, false, "n2"},
	} {
		t.Run(name, func(t *testing.T) {
			want := func(s *State) {
				require.NotNil(t, s.node())
				require.Equal(t, c.ready, s.node().Ready)
				require.Equal(t, c.gone, s.node().Gone)
				require.Equal(t, c.uid, s.node().UID)
			}
			play := func(list []contract.NodeState) *State {
				s := seen(contract.VMIObservation{Phase: "Running"},
					contract.PodObservation{Phase: "Running", NodeName: "n", ComputeRunning: true})
				for _, o := range list {
					s.observeNode(o)
				}
				return s
			}
			want(play(c.observed))
			twice := play(c.observed)
			for _, o := range c.observed { // all of it again, late
				if !o.Gone {
					twice.observeNode(o)
				}
			}
			want(twice)
			if !slices.ContainsFunc(c.observed, func(o contract.NodeState) bool { return o.Gone }) {
				back := slices.Clone(c.observed)
				slices.Reverse(back)
				want(play(back))
			}
		})
	}
}

// TestRecreatedNodeIsNoProof: a restarted kubelet creates its Node again, with the guest alive.
func TestRecreatedNodeIsNoProof(t *testing.T) {
	s := seen(contract.VMIObservation{Phase: "Running"},
		contract.PodObservation{Phase: "Running", NodeName: "n", ComputeRunning: true})
	s.observeNode(contract.NodeState{PodUID: "p", Name: "n", UID: "n1", Gone: true})
	s.refresh(noon)
	require.False(t, s.isFenced(), "its kubelet may be there yet")
	s.observeNode(contract.NodeState{PodUID: "p", Name: "n", UID: "n2", ResourceVersion: "30", Ready: true,
		Since: noon})
	s.refresh(noon.Add(time.Hour))
	require.False(t, s.isFenced())
	require.Equal(t, PhaseRunning, s.Phase)
}

// TestIgnoresNodeOfEarlierPod: an observation of an earlier pod's node is not about this pod.
func TestIgnoresNodeOfEarlierPod(t *testing.T) {
	s := seen(contract.VMIObservation{Phase: "Running"},
		contract.PodObservation{Phase: "Running", NodeName: "n", ComputeRunning: true})
	s.observeNode(contract.NodeState{PodUID: "earlier", Name: "n", UID: "n1", Gone: true})
	s.refresh(noon.Add(time.Hour))
	require.Nil(t, s.node())
	require.Equal(t, PhaseRunning, s.Phase)
	s.observeNode(contract.NodeState{PodUID: "p", Name: "n", UID: "n1", ResourceVersion: "3", Since: noon})
	s.observeNode(contract.NodeState{PodUID: "earlier", Name: "n", UID: "n1", ResourceVersion: "4", Ready: true,
		Since: noon})
	require.False(t, s.node().Ready)
}

// TestTaintObservationsInAnyOrder: whether a taint is left over does not depend on the order in which the versions of
// the Node are observed.
func TestTaintObservationsInAnyOrder(t *testing.T) {
	at := func(version string, ready, tainted bool) contract.NodeState {
		return contract.NodeState{PodUID: "p", Name: "n", UID: "n1", ResourceVersion: version, Ready: ready,
			OutOfService: tainted, Since: noon}
	}
	for name, c := range map[string]struct {
		observed []contract.NodeState
		fenced   bool
	}{
		"set in the outage": {
			[]contract.NodeState{at("9", true, false), at("10", false, false), at("11", false, true)}, true},
		"left over": {
			[]contract.NodeState{at("9", true, true), at("10", false, true), at("11", false, true)}, false},
		"left over, and set again": {
			[]contract.NodeState{at("9", true, true), at("10", false, false), at("11", false, true)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
				s := seen(contract.VMIObservation{Phase: "Running"},
					contract.PodObservation{Phase: "Running", NodeName: "n", ComputeRunning: true})
				for _, i := range order {
					s.observeNode(c.observed[i])
				}
				s.refresh(noon.Add(lostAfter - time.Second))
				require.False(t, s.isFenced())
				s.refresh(noon.Add(lostAfter))
				require.Equal(t, c.fenced, s.isFenced(), "%v", order)
			}
		})
	}
}
