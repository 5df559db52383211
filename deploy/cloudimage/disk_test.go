package cloudimage

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStagesSayWhereNextLies(t *testing.T) {
	boot, core := make([]byte, sector), make([]byte, 3*sector)
	boot[bootCode], core[sector] = 1, 2
	code, rest, err := linked(boot, core)
	require.NoError(t, err)
	require.Len(t, code, bootCode, "the partition table stays")
	require.EqualValues(t, biosBegins, binary.LittleEndian.Uint64(code[0x5c:]))
	require.EqualValues(t, biosBegins+1, binary.LittleEndian.Uint64(rest[0x1f4:]))
	require.Len(t, rest, len(core))
	require.EqualValues(t, 2, rest[sector])
	require.Zero(t, core[restOfCore], "what was read stays as it is")

	for name, c := range map[string][2]int{
		"no first stage": {0, 2 * sector}, "no second stage": {sector, sector},
		"more than there is space for": {sector, (biosSectors + 1) * sector},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := linked(make([]byte, c[0]), make([]byte, c[1]))
			require.ErrorContains(t, err, "GRUB's stages")
		})
	}
}

func TestPartitionsDoNotOverlap(t *testing.T) {
	require.GreaterOrEqual(t, biosBegins, 34, "the partition table")
	require.Equal(t, espBegins, biosBegins+biosSectors)
	require.Equal(t, rootBegins, espBegins+espSectors)
}
