package entity

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAdvanceObjectEpoch reports the object's first observation in a new epoch, also after another object's.
func TestAdvanceObjectEpoch(t *testing.T) {
	t.Parallel()
	var m Memory
	require.False(t, m.AdvanceObjectEpoch(1), "nothing was known before")
	require.False(t, m.AdvanceObjectEpoch(1))
	require.False(t, m.Stale)
	require.True(t, m.AdvanceObjectEpoch(2))
	require.True(t, m.Stale)
	require.False(t, m.AdvanceObjectEpoch(2))
	require.True(t, m.AdvanceEpoch(3), "of something else")
	require.True(t, m.AdvanceObjectEpoch(3))
	require.False(t, m.AdvanceObjectEpoch(3))
	require.False(t, m.AdvanceObjectEpoch(2), "a late observation of an earlier epoch")
	require.Equal(t, Memory{Epoch: 3, ObjectEpoch: 3}, m.Next())
}
