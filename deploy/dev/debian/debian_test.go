package debian

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMissing(t *testing.T) {
	installed := "runc installed\nnftables config-files\nlibc6:amd64 installed\n"
	require.Equal(t, []string{"nftables", "conntrack"}, missing(installed, []string{"runc", "nftables", "conntrack"}),
		"a package that was removed but left its configuration is missing")
	require.Empty(t, missing(installed, []string{"runc"}))
}

// TestServicesDoNotStart: services do not start while packages are installed, unless the machine has a policy of its
// own.
func TestServicesDoNotStart(t *testing.T) {
	failed := errors.New("apt has failed")
	for name, c := range map[string]struct {
		before string
		after  string
		err    error
	}{
		"no policy":                    {},
		"no policy, and apt fails":     {err: failed},
		"what a killed run left":       {before: forbid},
		"the machine's own":            {before: "#!/bin/sh\nexit 101\n", after: "#!/bin/sh\nexit 101\n"},
		"its own, and it lets it":      {before: "#!/bin/sh\nexit 0\n", after: "#!/bin/sh\nexit 0\n"},
		"the machine's own, and fails": {before: "#!/bin/sh\nexit 101\n", after: "#!/bin/sh\nexit 101\n", err: failed},
	} {
		t.Run(name, func(t *testing.T) {
			policy := filepath.Join(t.TempDir(), "policy-rc.d")
			if c.before != "" {
				require.NoError(t, os.WriteFile(policy, []byte(c.before), 0o755))
			}
			asked := 0
			require.ErrorIs(t, withoutServices(policy, func() error {
				asked++
				if c.after == "" {
					answer := exec.Command(policy, "prometheus.service", "start")
					require.Error(t, answer.Run())
					require.Equal(t, 101, answer.ProcessState.ExitCode())
				}
				return c.err
			}), c.err)
			require.Equal(t, 1, asked)
			left, err := os.ReadFile(policy)
			if c.after == "" {
				require.ErrorIs(t, err, os.ErrNotExist)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.after, string(left))
		})
	}
}
