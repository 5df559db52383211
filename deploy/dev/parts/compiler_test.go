package parts

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompilerEnvironmentFitsMachine(t *testing.T) {
	for name, test := range map[string]struct {
		meminfo    string
		processors int
		want       []string
	}{
		"two cores, 24 GiB": {"MemTotal: 25165824 kB\nMemAvailable: 23068672 kB\n", 2,
			[]string{"GOGC=off", "GOMEMLIMIT=7509MiB"}},
		"many cores for little memory": {"MemAvailable: 16777216 kB\n", 16, nil},
		"no such line":                 {"MemTotal: 25165824 kB\n", 2, nil},
		"not a number":                 {"MemAvailable: much kB\n", 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			available := availableMemory(bufio.NewScanner(strings.NewReader(test.meminfo)))
			require.Equal(t, test.want, compilerEnvironment(available, test.processors))
		})
	}
}
