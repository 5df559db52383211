package vmi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPhaseTable checks the table itself: every phase can be reached, every phase but the final ones has a way out, and
// no final one has.
func TestPhaseTable(t *testing.T) {
	all := []Phase{PhaseUnset, PhasePending, PhaseScheduling, PhaseScheduled, PhaseRunning, PhaseSucceeded, PhaseFailed}
	reached := map[Phase]bool{PhaseUnset: true}
	leaves := map[Phase]bool{}
	for _, r := range Rules() {
		require.NotEmpty(t, r.Name)
		reached[r.To] = true
		for _, f := range r.From {
			require.False(t, f.Final(), "%s: a final phase has no way out", r.Name)
			require.NotEqual(t, f, r.To)
			leaves[f] = true
		}
	}
	for _, p := range all {
		require.True(t, reached[p], "%q cannot be reached", p)
		require.Equal(t, !p.Final(), leaves[p], "way out of %q", p)
	}
}
