package launchers

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/rpc"
)

func TestMostVCPUsOfVMI(t *testing.T) {
	for name, c := range map[string]struct {
		domain string
		want   uint32
	}{
		"none":                {`{}`, 1},
		"topology":            {`{"cpu":{"sockets":2,"cores":3,"threads":2}}`, 12},
		"cores alone":         {`{"cpu":{"cores":4},"resources":{"limits":{"cpu":"9"}}}`, 4},
		"hot-pluggable":       {`{"cpu":{"sockets":1,"maxSockets":4,"cores":2}}`, 8},
		"fewer than present":  {`{"cpu":{"sockets":4,"maxSockets":2}}`, 4},
		"limit":               {`{"resources":{"limits":{"cpu":"1500m"},"requests":{"cpu":"4"}}}`, 2},
		"request":             {`{"resources":{"requests":{"cpu":"3"}}}`, 3},
		"limit, hot-plugged":  {`{"cpu":{"maxSockets":8},"resources":{"limits":{"cpu":2}}}`, 8},
		"more than QEMU has":  {`{"cpu":{"sockets":4294967295,"cores":4294967295,"threads":4294967295}}`, rpc.MaxVCPUs},
		"a limit without end": {`{"resources":{"limits":{"cpu":"9E"}}}`, rpc.MaxVCPUs},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := parseMachine("pod", []byte(`{"spec":{"domain":`+c.domain+`}}`))
			require.NoError(t, err)
			require.Equal(t, c.want, m.VCPUs)
		})
	}
}
