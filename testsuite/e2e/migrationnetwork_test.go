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
	"github.com/virtflow/virtflow/testsuite/turns"
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

// disrupt has a node do something to the migrations' packets that leave it.
func disrupt(t *testing.T, node, rule string) (end func() int) {
	t.Helper()
	return filters(t, node, fmt.Sprintf("tcp dport %d %s", migration.Port, rule))
}

// filters has a node do something to packets that it forwards; "counter" is in the rule so that it can be known whether
// it met any. What the returned function does is to end that, and it returns how many packets there were.
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

// slowLink has everything that leaves a node wait for its turn at that rate, in tc's words. What the returned function
// does is to say how that went, in tc's words as well, and to end it.
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

// TestMigrationOnABadNetwork: a network between the nodes that swallows what is large, which nobody else would notice,
// or that ends connections, ends the migration, and the guest stays. One that is slow takes its time.
func TestMigrationOnABadNetwork(t *testing.T) {
	turns.Take(t, 7)
	untilHealthy(t)
	m := newMachine(t, "remote", "Always", "")
	v := &virtctl{t, m.namespace}
	first := m.untilBooted()
	m.counts()
	slowMigrations(t, m.namespace)
	source := m.domains()
	require.Len(t, source, 1)
	for _, c := range []struct{ name, rule, why string }{
		// Keep-alives go through, and answers: only the memory's own stream hangs.
		{"it swallows what is large", "meta length > 600 counter drop", "stalled: nothing was copied for"},
		{"it ends connections", "counter reject with tcp reset", "migrating: "},
	} {
		if !t.Run(c.name, func(t *testing.T) {
			v.well("migrate", m.name)
			name := m.untilCopying()
			end := disrupt(t, first.Status.NodeName, c.rule)
			last := m.untilFinal(name)
			require.Positive(t, end(), "packets that this has met")
			require.Equal(t, kubevirt.MigrationFailed, last.Status.Phase, "%+v", last.Status)
			require.NotNil(t, last.Status.MigrationState)
			require.Contains(t, last.Status.MigrationState.FailureReason, c.why)
			t.Logf("failed: %s", last.Status.MigrationState.FailureReason)
			m.onlyOnce(string(first.UID))
			require.Equal(t, source, m.domains(), "the guest has never left")
		}) {
			return
		}
	}
	kubectl(t, "delete", "migrationpolicy", m.namespace)
	end := slowLink(t, first.Status.NodeName, "16mbit")
	v.well("migrate", m.name)
	now := m.untilMigrated()
	said := end()
	require.NotContains(t, said, "overlimits 0 ", "nothing had to wait")
	require.NotEqual(t, first.Status.NodeName, now.Status.NodeName)
	last := m.newest()
	t.Logf("moved at 16 Mbit/s, in %s to %s: %v", last.CreationTimestamp.Format(time.TimeOnly),
		time.Now().UTC().Format(time.TimeOnly), last.Annotations)
	m.onlyOnce(string(first.UID))
	m.remove()
}
