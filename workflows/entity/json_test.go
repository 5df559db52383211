package entity

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCompressesLongState: a long state is compressed and a short one is not: histories have both.
func TestCompressesLongState(t *testing.T) {
	for _, c := range []struct {
		long int
		most int
	}{{0, 9}, {1000, 1100}, {plainUpTo, plainUpTo / 10}, {20 << 20, 100 << 10}} {
		state := map[string]string{"a": strings.Repeat("b", c.long)}
		carried, err := Encode(state)
		require.NoError(t, err)
		require.LessOrEqual(t, len(carried), c.most)
		require.Equal(t, c.long < plainUpTo, carried[0] == '{')
		var again map[string]string
		require.NoError(t, Decode(carried, &again))
		require.Equal(t, state, again)
	}
	_, err := Encode(func() {})
	require.ErrorContains(t, err, "writing down the state")
	carried, err := Encode(strings.Repeat("b", plainUpTo))
	require.NoError(t, err)
	var again string
	require.ErrorContains(t, Decode(carried[:10], &again), "the run before")
	require.ErrorContains(t, Decode(carried[:len(carried)-9], &again), "the run before")
}
