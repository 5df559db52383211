package replicaset

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/workflows/contract"
)

// TestWhoScales: the report and the new generation meet in whatever order, and a report of what came to nothing is
// nobody's.
func TestWhoScales(t *testing.T) {
	by := func(actor, version string, replicas int) func(*State) {
		return func(s *State) {
			s.scaling(contract.RequestReport{UID: me, ResourceVersion: version, Operation: contract.OperationReplicate,
				Replicas: replicas, Actor: actor})
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
