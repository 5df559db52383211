package migration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDowntimeLimitGrowsWithEachRound(t *testing.T) {
	for name, c := range map[string]struct {
		most time.Duration
		want []time.Duration // by iteration, from 0
	}{
		"QEMU's own": {0, []time.Duration{37 * time.Millisecond, 37 * time.Millisecond, 75 * time.Millisecond,
			150 * time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond}},
		"what is asked for": {80 * time.Millisecond, []time.Duration{10 * time.Millisecond, 10 * time.Millisecond,
			20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 80 * time.Millisecond}},
		"nearly nothing": {2 * time.Millisecond, []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond,
			time.Millisecond, 2 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			for iteration, want := range c.want {
				require.Equal(t, want, downtimeLimit(c.most, iteration), "round %d", iteration)
			}
		})
	}
}
