package launchers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMembersOfAPod(t *testing.T) {
	proc := t.TempDir()
	for pid, cgroup := range map[string]string{"7": "0::/a\n", "8": "0::/a\n", "9": "0::/a/b\n", "self": "0::/a\n"} {
		require.NoError(t, os.Mkdir(filepath.Join(proc, pid), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(proc, pid, "cgroup"), []byte(cgroup), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(proc, "10"), 0o700), "it ends meanwhile")
	pids, err := members(proc, []byte("0::/a\n"))
	require.NoError(t, err)
	require.Equal(t, []int{7, 8}, pids)
}

func TestAllowLocking(t *testing.T) {
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	require.NoError(t, unix.Prlimit(child.Process.Pid, unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 4096, Max: 4096}, nil))
	limit := func() (now unix.Rlimit) {
		require.NoError(t, unix.Prlimit(child.Process.Pid, unix.RLIMIT_MEMLOCK, nil, &now))
		return now
	}
	require.NoError(t, allowLocking("/proc", child.Process.Pid, []byte("0::/another-pod\n")))
	require.Equal(t, unix.Rlimit{Cur: 4096, Max: 4096}, limit(), "another process has the ID now")
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", child.Process.Pid))
	require.NoError(t, err)
	err = allowLocking("/proc", child.Process.Pid, own)
	if mayRaiseLimits(t) {
		require.NoError(t, err)
		require.Equal(t, unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, limit())
	} else {
		require.ErrorContains(t, err, "lock memory")
	}
	require.NoError(t, in.Close())
	require.NoError(t, child.Wait())
	require.NoError(t, allowLocking("/proc", child.Process.Pid, own), "it has ended")
}

// mayRaiseLimits reports whether this process has CAP_SYS_RESOURCE, as the node worker's privileged container has.
func mayRaiseLimits(t *testing.T) bool {
	t.Helper()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	require.NoError(t, unix.Capget(&header, &data[0]))
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}
