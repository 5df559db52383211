package replicaset

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

// TestAttributesScaleToUser: report and new generation arrive in any order, and the report of a refused scale counts
// for nothing.
func TestAttributesScaleToUser(t *testing.T) {
	by := func(actor, version string, replicas int) func(*State) {
		return func(s *State) {
			s.noteScaleReport(contract.RequestReport{UID: me, ResourceVersion: version,
				Operation: contract.OperationReplicate,
				Replicas:  replicas, Actor: actor})
		}
	}
	seen := func(version string, generation int64, replicas int, actor string) func(*State) {
		return func(s *State) {
			s.observeSet(contract.ReplicaSetObservation{UID: me, ResourceVersion: version, Generation: generation,
				Replicas: replicas, Actor: actor})
		}
	}
	for name, c := range map[string]struct {
		steps []func(*State)
		want  string
	}{
		"reported, then seen": {[]func(*State){by("bob", "1", 3), seen("2", 2, 3, "")}, "bob"},
		"seen, then reported": {[]func(*State){seen("2", 2, 3, ""), by("bob", "1", 3)}, "bob"},
		"the last of two": {
			[]func(*State){by("bob", "1", 3), by("eve", "1", 4), seen("3", 3, 4, "")}, "eve"},
		"not reported":                         {[]func(*State){seen("2", 2, 3, "")}, ""},
		"reported, and refused":                {[]func(*State){by("bob", "1", 3), seen("2", 2, 4, "")}, ""},
		"refused, and the same by another way": {[]func(*State){by("bob", "1", 3), seen("2", 2, 3, "eve")}, "eve"},
		"something else changes afterwards": {
			[]func(*State){by("bob", "1", 3), seen("2", 2, 3, ""), seen("3", 3, 5, "")}, ""},
		"only its status changes afterwards": {
			[]func(*State){by("bob", "1", 3), seen("2", 2, 3, ""), seen("3", 2, 3, "")}, "bob"},
	} {
		t.Run(name, func(t *testing.T) {
			s := settledState(1)
			for _, step := range c.steps {
				step(s)
			}
			require.Equal(t, c.want, s.actor())
		})
	}
}

// TestAttributesScaleOfOpenTransition: the report arrives after the transition was opened, which gets the user unless
// it is for another generation.
func TestAttributesScaleOfOpenTransition(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*State)
		want   string
	}{
		"a moment":                     {func(*State) {}, "bob"},
		"for another generation":       {func(s *State) { s.Open.Generation = 1 }, ""},
		"actor known":                  {func(s *State) { s.Open.Actor = "eve" }, "eve"},
		"and the transition has ended": {func(s *State) { s.Open = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := settledState(1)
			s.observeSet(contract.ReplicaSetObservation{UID: me, ResourceVersion: "2", Generation: 2, Replicas: 3})
			open, _ := s.newTransition(s.needs(), "another specification", time.Now())
			require.Empty(t, open.Actor)
			s.Open = &open
			c.change(s)
			s.noteScaleReport(contract.RequestReport{UID: me, ResourceVersion: "1",
				Operation: contract.OperationReplicate,
				Replicas:  3, Actor: "bob"})
			if s.Open != nil {
				require.Equal(t, c.want, s.Open.Actor)
			}
			require.Equal(t, "bob", s.actor())
		})
	}
}
