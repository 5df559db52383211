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

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// TestPodOutOfMemory: the kernel kills a process that takes more memory than the pod may have, and the instance's
// workflow has that reason.
func TestPodOutOfMemory(t *testing.T) {
	suite.TakeTurn(t, 6)
	m := newMachine(t, "greedy", "Manual", "")
	_, err := cli("virtctl", "start", m.name, "-n", m.namespace)
	require.NoError(t, err)
	m.untilBooted()
	m.untilAgentAnswers()
	exhaust(t, m.domains()[0].pid)
	var state struct{ Phase, Explanation string }
	until(t, time.Minute, "the instance has the reason of its failure", func() error {
		if err := tryQuery(contract.VMIID(m.namespace, m.name), contract.QueryState, &state); err != nil {
			return err
		}
		if state.Phase != "Failed" || !strings.Contains(state.Explanation, "OOMKilled") {
			return fmt.Errorf("%+v", state)
		}
		return nil
	})
	m.remove()
}

// exhaust starts a process in the container of another one that takes more memory than the container may have. The
// kernel kills the process whose end frees the most; a guest's own memory is too small for this test.
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
	// The kernel may kill it, too.
	_ = exec.Command("sh", "-c", "echo $$ >"+dir+"/cgroup.procs && exec dd if=/dev/zero of=/dev/null bs=256M count=1").Run()
}
