//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// slowMigrations limits the bandwidth of a namespace's migrations, so that a fault can be injected during the copy. A
// guest of 128 MiB has some 40 MiB that are not empty.
func slowMigrations(t *testing.T, namespace string) {
	t.Helper()
	kubectl(t, "label", "namespace", namespace, "bandwidth=low")
	apply(t, "{apiVersion: migrations.kubevirt.io/v1alpha1, kind: MigrationPolicy, metadata: {name: "+namespace+
		"}, spec: {bandwidthPerMigration: 4Mi, selectors: {namespaceSelector: {bandwidth: low}, "+
		"virtualMachineInstanceSelector: {}}}}")
	t.Cleanup(func() { _, _ = try("delete", "migrationpolicy", namespace, "--ignore-not-found") })
}

// untilCopying waits until libvirt copies, and returns the migration's name.
func (m *machine) untilCopying() string {
	m.t.Helper()
	var name string
	until(m.t, migrationTime, "the guest of "+m.name+" is being copied", func() error {
		all := m.migrations()
		if len(all) == 0 {
			return fmt.Errorf("there is no migration")
		}
		last := all[len(all)-1]
		require.False(m.t, last.IsFinal(), "%s: %+v", last.Name, last.Status)
		if name = last.Name; last.Status.Phase != kubevirt.MigrationRunning || len(m.domains()) != 2 {
			return fmt.Errorf("%s is %s, with %d domains", name, last.Status.Phase, len(m.domains()))
		}
		return nil
	})
	return name
}

// untilFinal waits until a migration has ended, and returns its last state. A cancelled one has failed and is gone, and
// is returned without a name.
func (m *machine) untilFinal(name string) kubevirt.VirtualMachineInstanceMigration {
	m.t.Helper()
	var last kubevirt.VirtualMachineInstanceMigration
	until(m.t, 5*time.Minute, "migration "+name+" has ended", func() error {
		all := m.migrations()
		i := slices.IndexFunc(all, func(one kubevirt.VirtualMachineInstanceMigration) bool { return one.Name == name })
		if i < 0 {
			last = kubevirt.VirtualMachineInstanceMigration{}
			last.Status.Phase = kubevirt.MigrationFailed
			return nil
		}
		if last = all[i]; !last.IsFinal() {
			return fmt.Errorf("it is %s", last.Status.Phase)
		}
		return nil
	})
	return last
}

// target returns the domain that is not the source.
func (m *machine) target(source proc) []proc {
	return slices.DeleteFunc(m.domains(), func(p proc) bool { return p.pid == source.pid })
}

// inPod returns the processes of a pod, by their cgroup.
func inPod(uid string) []proc {
	return processes(func(p proc) bool {
		group, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.pid))
		return strings.Contains(strings.ReplaceAll(string(group), "_", "-"), uid)
	})
}

// workersOn returns the node worker's processes on a node.
func workersOn(t *testing.T, node string) []proc {
	t.Helper()
	uid := kubectl(t, "-n", "virtflow", "get", "pods", "-l", "app.kubernetes.io/name=virtflow-node-worker",
		"--field-selector", "spec.nodeName="+node, "-o", "jsonpath={.items[0].metadata.uid}")
	found := slices.DeleteFunc(inPod(uid), func(p proc) bool { return p.comm != "node-worker" })
	require.Len(t, found, 1)
	return found
}

// freeze stops processes: they answer no request, and keep their connections. The returned function continues them.
func freeze(t *testing.T, ps []proc) (thaw func()) {
	t.Helper()
	for _, p := range ps {
		require.NoError(t, syscall.Kill(p.pid, syscall.SIGSTOP))
	}
	thaw = func() {
		for _, p := range ps {
			_ = syscall.Kill(p.pid, syscall.SIGCONT) // it may have been killed
		}
	}
	t.Cleanup(thaw)
	return thaw
}

// checkRunsOnce checks the result of a migration with a fault: one guest, in one pod, which continues to count.
func (m *machine) checkRunsOnce(uid string) {
	m.t.Helper()
	pod := m.onePod()
	until(m.t, time.Minute, "there is one domain", func() error {
		if ps := m.domains(); len(ps) != 1 {
			return fmt.Errorf("there are %v", ps)
		}
		return nil
	})
	vmi, err := m.vmi()
	require.NoError(m.t, err)
	require.Equal(m.t, uid, string(vmi.UID))
	node := m.kubectl("get", "pod", pod, "-o", "jsonpath={.spec.nodeName}")
	require.Equal(m.t, node, vmi.Status.NodeName, "the status names the node where the guest is")
	count := len(m.counted(pod))
	until(m.t, time.Minute, "the guest continues to count", func() error {
		if now := m.counted(pod); len(now) < count+2 {
			return fmt.Errorf("counted: %v", now)
		}
		return nil
	})
	m.untilStatus("Running")
}

// checkRunsOnceAfter also checks that the guest is where the outcome of its last migration requires it: source is its
// domain from before.
func (m *machine) checkRunsOnceAfter(last kubevirt.VirtualMachineInstanceMigration, uid string, source proc) {
	m.t.Helper()
	m.checkRunsOnce(uid)
	moved := m.domains()[0].pid != source.pid
	require.Equal(m.t, last.Status.Phase == kubevirt.MigrationSucceeded, moved, "its phase is %s", last.Status.Phase)
}

// TestMigrationDisturbed kills and stops the processes of a migration while it copies. The guest then runs once, at the
// source or the target as libvirt decides, and the next migration succeeds.
func TestMigrationDisturbed(t *testing.T) {
	suite.TakeTurn(t, 6)
	workerOf := func(end string) func(*testing.T, *machine, proc) {
		return func(t *testing.T, m *machine, _ proc) {
			kill(t, workersOn(t, m.kubectl("get", "vmi", m.name, "-o", "jsonpath={.status.migrationState."+end+"}")))
		}
	}
	cases := map[string]struct {
		strike func(t *testing.T, m *machine, source proc)
		phase  kubevirt.VirtualMachineInstanceMigrationPhase // "": either; the guest is where that says
	}{
		"the source's node worker is killed": {strike: workerOf("sourceNode")},
		"the target's node worker is killed": {strike: workerOf("targetNode")},
		"the control worker is killed": {phase: kubevirt.MigrationSucceeded,
			strike: func(t *testing.T, _ *machine, _ proc) { kill(t, program("control-worker")) }},
		"the target's QEMU is killed": {phase: kubevirt.MigrationFailed,
			strike: func(t *testing.T, m *machine, source proc) { kill(t, m.target(source)) }},
		"it is cancelled": {phase: kubevirt.MigrationFailed, strike: func(t *testing.T, m *machine, _ proc) {
			(&virtctl{t, m.namespace}).mustRun("migrate-cancel", m.name)
		}},
		"Temporal is away for a minute": {phase: kubevirt.MigrationSucceeded,
			strike: func(t *testing.T, _ *machine, _ proc) {
				dev(t, "stop", "temporal")
				time.Sleep(time.Minute)
				dev(t, "start", "temporal")
			}},
		"Temporal's database is lost": {strike: func(t *testing.T, _ *machine, _ proc) {
			withoutTemporal(t, func(folder string) { require.NoError(t, os.RemoveAll(folder)) })
		}},
		"its workflow is terminated": {strike: func(t *testing.T, m *machine, _ proc) {
			all := m.migrations()
			_, err := cli("temporal", "workflow", "terminate", "--workflow-id",
				contract.MigrationID(m.namespace, all[len(all)-1].Name))
			require.NoError(t, err)
		}},
	}
	untilHealthy(t)
	m := newMachine(t, "disturbed", "Always", "")
	slowMigrations(t, m.namespace)
	first := m.untilBooted()
	m.startCounting()
	v := &virtctl{t, m.namespace}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		if !t.Run(name, func(t *testing.T) {
			untilHealthy(t)
			source := m.domains()
			require.Len(t, source, 1)
			v.mustRun("migrate", m.name)
			migration := m.untilCopying()
			cases[name].strike(t, m, source[0])
			untilHealthy(t)
			last := m.untilFinal(migration)
			require.True(t, last.Name != "" || name == "it is cancelled", "the migration is gone")
			if cases[name].phase != "" {
				require.Equal(t, cases[name].phase, last.Status.Phase, "%+v", last.Status)
			}
			m.checkRunsOnceAfter(last, string(first.UID), source[0])
		}) {
			break
		}
	}
	kubectl(t, "delete", "migrationpolicy", m.namespace)
	v.mustRun("migrate", m.name)
	m.untilMigrated()
	m.remove()
}

// TestMigrationGuestEnds: where a guest ends during its copy, or its VM is stopped or deleted, the guest has ended, and
// nothing is left of the target. The migration has failed, with the reason.
func TestMigrationGuestEnds(t *testing.T) {
	suite.TakeTurn(t, 7)
	cases := map[string]struct {
		strike func(t *testing.T, m *machine, source proc)
		then   func(t *testing.T, m *machine, first *kubevirt.VirtualMachineInstance)
		left   int // domains and pods
	}{
		"powered off by itself": {
			left:   1,
			strike: func(_ *testing.T, m *machine, _ proc) { m.inGuest("poweroff") },
			then: func(_ *testing.T, m *machine, first *kubevirt.VirtualMachineInstance) {
				m.untilAnother(first)
			}},
		"its QEMU is killed": {
			left:   1,
			strike: func(t *testing.T, _ *machine, source proc) { kill(t, []proc{source}) },
			then: func(_ *testing.T, m *machine, first *kubevirt.VirtualMachineInstance) {
				m.untilAnother(first)
			}},
		"stopped": {
			strike: func(_ *testing.T, m *machine, _ proc) { m.strategy("Halted") },
			then: func(_ *testing.T, m *machine, _ *kubevirt.VirtualMachineInstance) {
				m.untilStatus("Stopped")
			}},
		"deleted": {
			strike: func(_ *testing.T, m *machine, _ proc) { m.kubectl("delete", "vm", m.name, "--wait=false") },
			then: func(t *testing.T, m *machine, _ *kubevirt.VirtualMachineInstance) {
				until(t, 3*time.Minute, "the VM is gone", func() error {
					if _, err := m.vm(); err == nil {
						return fmt.Errorf("it is there")
					}
					return nil
				})
			}},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			untilHealthy(t)
			m := newMachine(t, "ending", "Always", "")
			slowMigrations(t, m.namespace)
			first := m.untilBooted()
			source := m.domains()
			require.Len(t, source, 1)
			(&virtctl{t, m.namespace}).mustRun("migrate", m.name)
			migration := m.untilCopying()
			cases[name].strike(t, m, source[0])
			if name != "deleted" { // a migration is deleted with its VM
				last := m.untilFinal(migration)
				require.Equal(t, kubevirt.MigrationFailed, last.Status.Phase, "%+v", last.Status)
				require.NotNil(t, last.Status.MigrationState, "%+v", last.Status)
				require.NotEmpty(t, last.Status.MigrationState.FailureReason)
			}
			cases[name].then(t, m, first)
			until(t, time.Minute, "nothing of the migration is left", func() error {
				ps, pods := m.domains(), strings.Fields(m.pod())
				if left := cases[name].left; len(ps) != left || len(pods) != left {
					return fmt.Errorf("there are %v and %q", ps, pods)
				}
				return nil
			})
			if name != "deleted" {
				m.remove()
			}
		})
	}
}
