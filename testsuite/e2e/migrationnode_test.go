//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/turns"
)

// lose has a node vanish as far as the cluster can tell: its kubelet and its node worker stand still, so that they
// report, carry and end nothing, and their connections hang. The pod whose UID is said ends with its processes, as when
// the plug is pulled. What the returned function does is the node's coming back.
func lose(t *testing.T, node, pod string) (back func()) {
	t.Helper()
	workers := workersOn(t, node)
	freeze(t, workers)
	restart := silence(t, node)
	kill(t, inPod(pod))
	done := false
	back = func() {
		if !done {
			done = true
			kill(t, workers)
			restart()
		}
	}
	t.Cleanup(back)
	return back
}

// podUID is that of a pod of the VM.
func (m *machine) podUID(name string) string {
	m.t.Helper()
	uid := m.kubectl("get", "pod", name, "-o", "jsonpath={.metadata.uid}")
	require.NotEmpty(m.t, uid, "pod %s", name)
	return uid
}

// TestMigrationNodeLost: a node is lost while a guest is copied. If it is the source's, the guest is lost with it, and
// what has come to the target never runs; the VM is started again only when a person calls the node out of service. If
// it is the target's, the guest runs on. Neither is in the way of the next migration.
func TestMigrationNodeLost(t *testing.T) {
	turns.Take(t, 5)
	untilHealthy(t)
	node := idleNode(t)
	m, first := bootOn(t, node, "between")
	v := &virtctl{t, m.namespace}
	slowMigrations(t, m.namespace)
	m.counts()

	v.well("migrate", m.name)
	migration := m.untilCopying()
	state := m.mustVMI().Status.MigrationState
	require.Equal(t, node, state.SourceNode)
	back := lose(t, node, m.podUID(state.SourcePod))
	m.untilLost()
	now := m.mustVMI()
	require.Equal(t, first.UID, now.UID, "nothing proves that the guest is off")
	require.Equal(t, node, now.Status.NodeName)
	if one := m.newest(); one != nil {
		require.NotEqual(t, kubevirt.MigrationSucceeded, one.Status.Phase, "%+v", one.Status)
	}
	require.Empty(t, m.counted(state.TargetPod), "the guest goes on at the target, without a proof")
	t.Cleanup(func() { _, _ = try("taint", "node", node, "node.kubernetes.io/out-of-service-") })
	kubectl(t, "taint", "node", node, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
	second := m.untilAnother(first)
	require.NotEqual(t, node, second.Status.NodeName)
	require.Equal(t, kubevirt.MigrationFailed, m.untilFinal(migration).Status.Phase)
	kubectl(t, "taint", "node", node, "node.kubernetes.io/out-of-service-")
	back()
	untilLabel(t, node, "true")
	untilHealthy(t)
	m.counts()
	m.onlyOnce(string(second.UID))

	source := m.domains()
	require.Len(t, source, 1)
	v.well("migrate", m.name)
	migration = m.untilCopying()
	state = m.mustVMI().Status.MigrationState
	require.Equal(t, node, state.TargetNode)
	back = lose(t, node, m.podUID(state.TargetPod))
	last := m.untilFinal(migration)
	require.Equal(t, kubevirt.MigrationFailed, last.Status.Phase, "%+v", last.Status)
	count := len(m.counted(state.SourcePod))
	until(t, time.Minute, "the guest counts on while the node is lost", func() error {
		if here := m.counted(state.SourcePod); len(here) < count+2 {
			return fmt.Errorf("counted: %v", here)
		}
		return nil
	})
	require.Contains(t, m.domains(), source[0])
	back()
	untilLabel(t, node, "true")
	untilHealthy(t)
	m.onlyOnce(string(second.UID))
	require.Equal(t, source, m.domains())

	kubectl(t, "delete", "migrationpolicy", m.namespace)
	v.well("migrate", m.name)
	require.Equal(t, node, m.untilMigrated().Status.NodeName)
	m.remove()
}
