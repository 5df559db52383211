//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// loseNode makes a node vanish for the cluster: its kubelet and its node worker are stopped, so that they report, carry
// and end nothing, and their connections hang. The pod with that UID ends with its processes, as in a power failure.
// The returned function brings the node back.
func loseNode(t *testing.T, node, pod string) (back func()) {
	t.Helper()
	workers := workersOn(t, node)
	freeze(t, workers)
	restart := freezeKubelet(t, node)
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

// podUID returns the UID of a pod of the VM.
func (m *machine) podUID(name string) string {
	m.t.Helper()
	uid := m.kubectl("get", "pod", name, "-o", "jsonpath={.metadata.uid}")
	require.NotEmpty(m.t, uid, "pod %s", name)
	return uid
}

// TestMigrationNodeLost: a node is lost while a guest is copied. If it is the source's node, the guest is lost with it,
// and its copy at the target never runs; the VM is started again only after a person has declared the node out of
// service. If it is the target's node, the guest runs on. In both cases the next migration succeeds.
func TestMigrationNodeLost(t *testing.T) {
	suite.TakeTurn(t, 5)
	untilHealthy(t)
	node := idleNode(t)
	m, first := bootOn(t, node, "between")
	v := &virtctl{t, m.namespace}
	slowMigrations(t, m.namespace)
	m.startCounting()

	v.mustRun("migrate", m.name)
	migration := m.untilCopying()
	state := m.mustVMI().Status.MigrationState
	require.Equal(t, node, state.SourceNode)
	back := loseNode(t, node, m.podUID(state.SourcePod))
	m.untilLost()
	now := m.mustVMI()
	require.Equal(t, first.UID, now.UID, "nothing proves that the guest is off")
	require.Equal(t, node, now.Status.NodeName)
	if one := m.newest(); one != nil {
		require.NotEqual(t, kubevirt.MigrationSucceeded, one.Status.Phase, "%+v", one.Status)
	}
	require.Empty(t, m.counted(state.TargetPod), "the guest has resumed at the target without a proof")
	t.Cleanup(func() { _, _ = try("taint", "node", node, "node.kubernetes.io/out-of-service-") })
	kubectl(t, "taint", "node", node, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
	second := m.untilAnother(first)
	require.NotEqual(t, node, second.Status.NodeName)
	require.Equal(t, kubevirt.MigrationFailed, m.untilFinal(migration).Status.Phase)
	kubectl(t, "taint", "node", node, "node.kubernetes.io/out-of-service-")
	back()
	untilLabel(t, node, "true")
	untilHealthy(t)
	m.startCounting()
	m.checkRunsOnce(string(second.UID))

	source := m.domains()
	require.Len(t, source, 1)
	v.mustRun("migrate", m.name)
	migration = m.untilCopying()
	state = m.mustVMI().Status.MigrationState
	require.Equal(t, node, state.TargetNode)
	back = loseNode(t, node, m.podUID(state.TargetPod))
	last := m.untilFinal(migration)
	require.Equal(t, kubevirt.MigrationFailed, last.Status.Phase, "%+v", last.Status)
	count := len(m.counted(state.SourcePod))
	until(t, time.Minute, "the guest continues to count while the node is lost", func() error {
		if here := m.counted(state.SourcePod); len(here) < count+2 {
			return fmt.Errorf("counted: %v", here)
		}
		return nil
	})
	require.Contains(t, m.domains(), source[0])
	back()
	untilLabel(t, node, "true")
	untilHealthy(t)
	m.checkRunsOnce(string(second.UID))
	require.Equal(t, source, m.domains())

	kubectl(t, "delete", "migrationpolicy", m.namespace)
	v.mustRun("migrate", m.name)
	require.Equal(t, node, m.untilMigrated().Status.NodeName)
	m.remove()
}
