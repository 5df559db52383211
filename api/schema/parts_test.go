package schema

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParts(t *testing.T) {
	for raw, parts := range map[string]int{
		``: 0, `1`: 0, `{}`: 1, `[1,2,3]`: 3, `{"a":{"b":[{},{}]}}`: 6, `"a,b"`: 1,
	} {
		require.Equal(t, parts, Parts([]byte(raw)), raw)
	}
	require.NoError(t, CheckParts([]byte(strings.Repeat("[", MaxParts))))
	require.ErrorContains(t, CheckParts([]byte(strings.Repeat("[", MaxParts+1))),
		"the object has more than 100000 parts")
}
