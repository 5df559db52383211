//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/streams/migration"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// inNetworkOf runs a command in the network namespace of a node of the local cluster.
func inNetworkOf(t *testing.T, node string, command ...string) (string, error) {
	t.Helper()
	enter := append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", kubelet(t, node).pid)}, command...)
	out, err := exec.Command("nsenter", enter...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%v on %s: %w: %s", command, node, err, out)
	}
	return string(out), nil
}

// disrupt applies a rule to the migration packets that leave a node.
func disrupt(t *testing.T, node, rule string) (end func() int) {
	t.Helper()
	return filters(t, node, fmt.Sprintf("tcp dport %d %s", migration.Port, rule))
}

// filters applies a rule to packets that a node forwards; the rule has "counter". The returned function removes the
// rule, and returns the number of packets that it matched.
func filters(t *testing.T, node, rule string) (end func() int) {
	t.Helper()
	const table = "virtflow-e2e"
	nft := func(arguments ...string) string {
		out, err := inNetworkOf(t, node, append([]string{"nft"}, arguments...)...)
		require.NoError(t, err)
		return out
	}
	nft(fmt.Sprintf("table inet %s { chain leaves { type filter hook forward priority -10; %s; }; }", table, rule))
	done := false
	end = func() int {
		if done {
			return 0
		}
		done = true
		met := regexp.MustCompile(`counter packets (\d+)`).FindStringSubmatch(nft("list", "table", "inet", table))
		nft("delete", "table", "inet", table)
		require.Len(t, met, 2)
		n, err := strconv.Atoi(met[1])
		require.NoError(t, err)
		return n
	}
	t.Cleanup(func() { end() })
	return end
}

// slowLink limits the rate of everything that leaves a node; rate is in tc's form. The returned function removes the
// limit, and returns tc's statistics.
func slowLink(t *testing.T, node, rate string) (end func() string) {
	t.Helper()
	tc := func(arguments ...string) string {
		out, err := inNetworkOf(t, node, append([]string{"tc"}, arguments...)...)
		require.NoError(t, err)
		return out
	}
	tc("qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "128kb", "latency", "200ms")
	done := false
	end = func() (said string) {
		if !done {
			done = true
			said = tc("-s", "qdisc", "show", "dev", "eth0")
			tc("qdisc", "del", "dev", "eth0", "root")
		}
		return said
	}
	t.Cleanup(func() { end() })
	return end
}

// TestMigrationOnBadNetwork: a network between the nodes that drops large packets, which affects nothing else, or that
// resets connections, fails the migration, and the guest stays. A slow network only prolongs it.
func TestMigrationOnBadNetwork(t *testing.T) {
	suite.TakeTurn(t, 7)
	untilHealthy(t)
	m := newMachine(t, "remote", "Always", "")
	v := &virtctl{t, m.namespace}
	first := m.untilBooted()
	m.startCounting()
	slowMigrations(t, m.namespace)
	source := m.domains()
	require.Len(t, source, 1)
	for _, c := range []struct{ name, rule, why string }{
		// Keep-alives and answers pass: only the memory stream hangs.
		{"it drops large packets", "meta length > 600 counter drop", "stalled: nothing was copied for"},
		{"it resets connections", "counter reject with tcp reset", "migrating: "},
	} {
		if !t.Run(c.name, func(t *testing.T) {
			v.mustRun("migrate", m.name)
			name := m.untilCopying()
			end := disrupt(t, first.Status.NodeName, c.rule)
			last := m.untilFinal(name)
			require.Positive(t, end(), "packets that matched the rule")
			require.Equal(t, kubevirt.MigrationFailed, last.Status.Phase, "%+v", last.Status)
			require.NotNil(t, last.Status.MigrationState)
			require.Contains(t, last.Status.MigrationState.FailureReason, c.why)
			t.Logf("failed: %s", last.Status.MigrationState.FailureReason)
			m.checkRunsOnce(string(first.UID))
			require.Equal(t, source, m.domains(), "the guest has not left its QEMU")
		}) {
			return
		}
	}
	kubectl(t, "delete", "migrationpolicy", m.namespace)
	end := slowLink(t, first.Status.NodeName, "16mbit")
	v.mustRun("migrate", m.name)
	now := m.untilMigrated()
	said := end()
	require.NotContains(t, said, "overlimits 0 ", "no packet was delayed")
	require.NotEqual(t, first.Status.NodeName, now.Status.NodeName)
	last := m.newest()
	t.Logf("moved at 16 Mbit/s, in %s to %s: %v", last.CreationTimestamp.Format(time.TimeOnly),
		time.Now().UTC().Format(time.TimeOnly), last.Annotations)
	m.checkRunsOnce(string(first.UID))
	m.remove()
}
