//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/turns"
	"github.com/virtflow/virtflow/workflows/contract"
)

// TestAPodRunsOutOfMemory: the kernel ends what takes more memory than the pod may have, and the instance's workflow
// says that this was why.
func TestAPodRunsOutOfMemory(t *testing.T) {
	turns.Take(t, 6)
	m := newMachine(t, "greedy", "Manual", "")
	_, err := cli("virtctl", "start", m.name, "-n", m.namespace)
	require.NoError(t, err)
	m.untilBooted()
	m.untilAgentAnswers()
	exhaust(t, m.domains()[0].pid)
	var state struct{ Phase, Explanation string }
	until(t, time.Minute, "the instance says why it has failed", func() error {
		if err := queried(contract.VMIID(m.namespace, m.name), contract.QueryState, &state); err != nil {
			return err
		}
		if state.Phase != "Failed" || !strings.Contains(state.Explanation, "OOMKilled") {
			return fmt.Errorf("%+v", state)
		}
		return nil
	})
	m.remove()
}

// exhaust has something in the container of a process ask for more memory than the container may have. The kernel ends
// what gives it the most; a guest has not enough memory of its own for that.
func exhaust(t *testing.T, pid int) {
	t.Helper()
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	require.NoError(t, err)
	dir, used, limit := "", "memory.usage_in_bytes", "memory.limit_in_bytes"
	if v1 := regexp.MustCompile(`(?m)^\d+:memory:(.+)$`).FindSubmatch(groups); v1 != nil {
		dir = filepath.Join("/sys/fs/cgroup/memory", string(v1[1]))
	} else {
		v2 := regexp.MustCompile(`(?m)^0::(.+)$`).FindSubmatch(groups)
		require.NotNil(t, v2, "%s", groups)
		dir, used, limit = filepath.Join("/sys/fs/cgroup", string(v2[1])), "memory.current", "memory.max"
	}
	text, err := os.ReadFile(filepath.Join(dir, used))
	require.NoError(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, limit), []byte(strconv.Itoa(n+16<<20)), 0))
	// It may be ended, too.
	_ = exec.Command("sh", "-c", "echo $$ >"+dir+"/cgroup.procs && exec dd if=/dev/zero of=/dev/null bs=256M count=1").Run()
}
