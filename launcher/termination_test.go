package launcher_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher"
)

func TestCutsLongTerminationMessage(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("x", 5000), strings.Repeat("\"\n", 3000),
		strings.Repeat("ü", 3000)} {
		b, err := launcher.EncodeTermination(contract.TerminationMessage{Reason: contract.ReasonFailed, Message: text})
		require.NoError(t, err)
		require.LessOrEqual(t, len(b), 1024)
		var m contract.TerminationMessage
		require.NoError(t, json.Unmarshal(b, &m))
		require.True(t, strings.HasPrefix(text, m.Message))
		require.True(t, utf8.ValidString(m.Message))
		if len(text) > 100 {
			require.Greater(t, len(m.Message), 100)
		}
	}
}
