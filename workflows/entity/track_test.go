package entity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

type pod = contract.PodObservation

func TestNewest(t *testing.T) {
	known := pod{UID: "a", ResourceVersion: "10", Phase: "Running"}
	gone := known
	gone.Gone = true
	for name, c := range map[string]struct {
		known *pod
		o     pod
		want  *pod
	}{
		"the first":                 {nil, known, &known},
		"the end of one never seen": {nil, pod{UID: "a", Gone: true}, nil},
		"the same once more":        {&known, pod{UID: "a", ResourceVersion: "10"}, &known},
		"an older version":          {&known, pod{UID: "a", ResourceVersion: "9"}, &known},
		"a newer version": {&known, pod{UID: "a", ResourceVersion: "11"},
			&pod{UID: "a", ResourceVersion: "11"}},
		"its end":                    {&known, pod{UID: "a", Gone: true}, &gone},
		"a late version of one gone": {&gone, pod{UID: "a", ResourceVersion: "11"}, &gone},
		"a newer object": {&known, pod{UID: "b", ResourceVersion: "11"},
			&pod{UID: "b", ResourceVersion: "11"}},
		"an older object":           {&known, pod{UID: "b", ResourceVersion: "9"}, &known},
		"the end of another object": {&known, pod{UID: "b", Gone: true}, &known},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, Newest(c.known, c.o))
			require.False(t, known.Gone, "what is known does not change under its holders")
		})
	}
}

func TestTrack(t *testing.T) {
	a, b, c := pod{UID: "a", ResourceVersion: "10"}, pod{UID: "b", ResourceVersion: "20"},
		pod{UID: "c", ResourceVersion: "30"}
	gone := a
	gone.Gone = true
	for name, x := range map[string]struct {
		current, next *pod
		o             pod
		want, then    *pod
	}{
		"a newer version": {&a, nil, pod{UID: "a", ResourceVersion: "11"},
			&pod{UID: "a", ResourceVersion: "11"}, nil},
		"its end":                   {&a, nil, pod{UID: "a", Gone: true}, &gone, nil},
		"the next proves its end":   {&a, nil, b, &gone, &b},
		"one after the next":        {&gone, &b, c, &gone, &c},
		"late word of an older one": {&a, nil, pod{UID: "z", ResourceVersion: "9"}, &a, nil},
		"the next, late":            {&gone, &c, b, &gone, &c},
		"the end of the next":       {&gone, &b, pod{UID: "b", Gone: true}, &gone, nil},
		"the end of another":        {&gone, &b, pod{UID: "c", Gone: true}, &gone, &b},
		"the next, none is known":   {nil, nil, b, nil, &b},
	} {
		t.Run(name, func(t *testing.T) {
			current, next := Track(x.current, x.next, x.o, false)
			require.Equal(t, x.want, current)
			require.Equal(t, x.then, next)
		})
	}
}

// TestTrackInNewEpoch: an observation of another object counts, although versions have run backwards, and a read shows
// whether the current one is gone. The next object of an older epoch is dropped.
func TestTrackInNewEpoch(t *testing.T) {
	a, later := pod{UID: "a", ResourceVersion: "10"}, pod{UID: "b", ResourceVersion: "20"}
	gone := a
	gone.Gone = true
	earlier := pod{UID: "z", ResourceVersion: "9"}
	current, next := Track(&a, &later, earlier, true)
	require.Equal(t, &a, current)
	require.Equal(t, &earlier, next)
	current, next = Track(nil, &later, earlier, true)
	require.Nil(t, current)
	require.Equal(t, &earlier, next)
	current, next = Track(&a, &later, pod{UID: "z", Gone: true}, true)
	require.Equal(t, &a, current)
	require.Equal(t, &later, next)
	before := pod{UID: "a", ResourceVersion: "8"}
	current, next = Track(&gone, &later, before, true)
	require.Equal(t, &before, current)
	require.Nil(t, next)
}

// TestStillNext: an observation from before the current object was read does not come after it.
func TestStillNext(t *testing.T) {
	current := pod{UID: "a", ResourceVersion: "10"}
	earlier, later := pod{UID: "z", ResourceVersion: "9"}, pod{UID: "b", ResourceVersion: "11"}
	require.Nil(t, StillNext(&earlier, &current))
	require.Equal(t, &later, StillNext(&later, &current))
	require.Equal(t, &earlier, StillNext(&earlier, nil))
	require.Nil(t, StillNext(nil, &current))
}

// An absent object may come back with a lower version, the same object or another one, as when etcd is put back; an
// object that was observed to vanish must not.
func TestAbsentObjectMayComeBack(t *testing.T) {
	known := &contract.VMIObservation{UID: "a", ResourceVersion: "150"}
	same := contract.VMIObservation{UID: "a", ResourceVersion: "120"}
	other := contract.VMIObservation{UID: "b", ResourceVersion: "120"}
	absent := AsAbsent(known)
	require.True(t, absent.Gone)
	require.Equal(t, "150", known.ResourceVersion, "what was answered to a query does not change")
	require.Equal(t, &same, Newest(absent, same))
	require.Equal(t, &other, Newest(absent, other))
	require.Equal(t, absent, Newest(absent, contract.VMIObservation{UID: "a", Gone: true}))
	gone := AsGone(known)
	require.Equal(t, gone, Newest(gone, same))
	require.Equal(t, gone, Newest(gone, other))
	require.Nil(t, AsAbsent[contract.VMIObservation](nil))
}
