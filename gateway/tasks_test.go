package gateway

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSeal(t *testing.T) {
	now := time.Now()
	token := task{"StartDomain", []byte("temporal's token")}
	sealed := seal(sealTestKey, "node1", token, now)
	opened, refused := open(sealTestKey, "node1", sealed, now.Add(sealLife-time.Minute))
	require.Nil(t, refused)
	require.Equal(t, token, opened)
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		_, refused := open(sealTestKey, "node1", changed, now)
		require.NotNil(t, refused, "byte %d", i)
	}
	other := bytes.Clone(sealTestKey)
	other[0]++
	for name, c := range map[string]struct {
		key    []byte
		node   string
		sealed []byte
		at     time.Time
	}{
		"another node":                {sealTestKey, "node2", sealed, now},
		"a node whose name continues": {sealTestKey, "node1t", sealed, now},
		"another key":                 {other, "node1", sealed, now},
		"no key":                      {nil, "node1", sealed, now},
		"too late":                    {sealTestKey, "node1", sealed, now.Add(sealLife + time.Minute)},
		"nothing":                     {sealTestKey, "node1", nil, now},
		"a seal without a token":      {sealTestKey, "node1", seal(sealTestKey, "node1", task{activity: "a"}, now), now},
		"a token that is not sealed":  {sealTestKey, "node1", bytes.Repeat([]byte{1}, 300), now},
		"a token that is far too large": {sealTestKey, "node1",
			seal(sealTestKey, "node1", task{token: make([]byte, maxTaskToken)}, now), now},
	} {
		t.Run(name, func(t *testing.T) {
			_, refused := open(c.key, c.node, c.sealed, c.at)
			require.NotNil(t, refused)
			require.Equal(t, ReasonTaskToken, refused.Reason)
		})
	}
}
