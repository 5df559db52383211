package entity_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/workflows/entity"
)

func TestBackOff(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	require.True(t, entity.BackOffEnd(0, noon).IsZero())
	require.True(t, entity.BackOffEnd(1, time.Time{}).IsZero())
	for failures, want := range map[int]time.Duration{1: 20 * time.Second, 2: 40 * time.Second, 3: 80 * time.Second,
		5: 320 * time.Second, 100: 320 * time.Second} {
		require.Equal(t, noon.Add(want), entity.BackOffEnd(failures, noon))
	}
}
