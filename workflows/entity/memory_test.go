package entity

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHeardObject: the first observation of the object in a new epoch is told, also when something else was observed in
// it before.
func TestHeardObject(t *testing.T) {
	t.Parallel()
	var m Memory
	require.False(t, m.HeardObject(1), "nothing was known before")
	require.False(t, m.HeardObject(1))
	require.False(t, m.Stale)
	require.True(t, m.HeardObject(2))
	require.True(t, m.Stale)
	require.False(t, m.HeardObject(2))
	require.True(t, m.Heard(3), "of something else")
	require.True(t, m.HeardObject(3))
	require.False(t, m.HeardObject(3))
	require.False(t, m.HeardObject(2), "late word of an epoch before")
	require.Equal(t, Memory{Epoch: 3, ObjectEpoch: 3}, m.Next())
}
