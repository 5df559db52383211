package vm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStrategyTable checks the table itself: every supported strategy answers every situation, and says why when it asks for something.
func TestStrategyTable(t *testing.T) {
	for _, strategy := range []Strategy{Always, Halted, Once} {
		for _, situation := range []Situation{Absent, Alive, Deleting, Succeeded, Failed} {
			rows := 0
			for _, r := range Strategies() {
				if r.Strategy != strategy || r.Situation != situation {
					continue
				}
				if r.Request == NoRequest {
					rows++
				}
				if r.Wish.Operation != "" || r.Wish.Always {
					require.NotEmpty(t, r.Wish.Why, "%v", r)
				}
			}
			require.Equal(t, 1, rows, "%s × %s needs exactly one row for no request", strategy, situation)
		}
	}
	_, known := wish("Manual", Absent, NoRequest)
	require.False(t, known)
}

// TestBackOff: 10 s × count², up to half as much again, at most 300 s (KubeVirt's figures), and the same for the same instance.
func TestBackOff(t *testing.T) {
	for _, tc := range []struct {
		count    int
		min, max time.Duration
	}{{1, 10 * time.Second, 15 * time.Second}, {2, 40 * time.Second, 60 * time.Second}, {3, 90 * time.Second, 135 * time.Second}, {6, 300 * time.Second, 300 * time.Second}, {1000, 300 * time.Second, 300 * time.Second}} {
		d := backOff(tc.count, "some-uid")
		require.GreaterOrEqual(t, d, tc.min, "count %d", tc.count)
		require.LessOrEqual(t, d, tc.max, "count %d", tc.count)
		require.Equal(t, d, backOff(tc.count, "some-uid"))
	}
}
