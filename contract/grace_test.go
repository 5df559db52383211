package contract_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

func TestGracePeriodsAreBounded(t *testing.T) {
	const week = 7 * 24 * time.Hour
	const years = 9_000_000_000
	for _, c := range []struct {
		seconds *int64
		wait    time.Duration
		pod     int64
	}{
		{nil, 30 * time.Second, 60},
		{new(int64(0)), 0, 30},
		{new(int64(-5)), 0, 30},
		{new(int64(180)), 3 * time.Minute, 210},
		{new(int64(9_300_000_000)), week, years + 30},
		{new(int64(math.MaxInt64)), week, years + 30},
		{new(int64(math.MinInt64)), 0, 30},
	} {
		require.Equal(t, c.wait, contract.GraceWait(c.seconds))
		require.Equal(t, c.pod, contract.PodGrace(c.seconds))
		require.GreaterOrEqual(t, contract.Grace(c.seconds)+time.Hour, time.Hour, "it must not overflow")
	}
}
