//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// migrationTime is the limit for a migration, its target's pod included.
const migrationTime = 3 * time.Minute

// startCounting lets the guest count on its console, once a second, from 1.
func (m *machine) startCounting() {
	m.t.Helper()
	types, leave := m.login(m.t)
	types("i=0; while sleep 1; do i=$((i+1)); echo \"count $i.\"; done\n", "count 2.")
	leave()
}

// counted returns all numbers in the log of the launcher in that pod.
func (m *machine) counted(pod string) []int {
	m.t.Helper()
	log, err := try("-n", m.namespace, "logs", pod, "-c", "compute")
	if err != nil {
		return nil
	}
	var all []int
	for _, found := range regexp.MustCompile(`count (\d+)\.`).FindAllStringSubmatch(log, -1) {
		n, err := strconv.Atoi(found[1])
		require.NoError(m.t, err)
		all = append(all, n)
	}
	return all
}

// migrations returns all migrations of the namespace, the oldest first.
func (m *machine) migrations() []kubevirt.VirtualMachineInstanceMigration {
	m.t.Helper()
	var list kubevirt.VirtualMachineInstanceMigrationList
	require.NoError(m.t, json.Unmarshal([]byte(m.kubectl("get", "vmim", "--sort-by=.metadata.creationTimestamp", "-o",
		"json")), &list))
	return list.Items
}

// newest returns the VM's last migration, or nil.
func (m *machine) newest() *kubevirt.VirtualMachineInstanceMigration {
	m.t.Helper()
	all := m.migrations()
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Spec.VMIName == m.name {
			return &all[i]
		}
	}
	return nil
}

// untilMigrated waits until the newest migration of the VM has ended, and requires that it has succeeded.
func (m *machine) untilMigrated() *kubevirt.VirtualMachineInstance {
	m.t.Helper()
	until(m.t, migrationTime, "the migration of "+m.name+" has ended", func() error {
		switch one := m.newest(); {
		case one == nil:
			return fmt.Errorf("there is none")
		case one.Status.Phase == kubevirt.MigrationFailed:
			require.Fail(m.t, "the migration failed", "%s: %+v", one.Name, one.Status)
		case one.Status.Phase != kubevirt.MigrationSucceeded:
			return fmt.Errorf("%s is %q", one.Name, one.Status.Phase)
		}
		return nil
	})
	vmi, err := m.vmi()
	require.NoError(m.t, err)
	return vmi
}

// onePod waits until only the guest's own launcher is left, and returns its pod.
func (m *machine) onePod() string {
	m.t.Helper()
	var pod string
	until(m.t, time.Minute, "one pod of "+m.name+" is left", func() error {
		if pod = m.pod(); pod == "" || strings.Contains(pod, " ") {
			return fmt.Errorf("there are %q", pod)
		}
		return nil
	})
	return pod
}

// TestMigrate moves a guest ten times from node to node. It continues to count, never boots again, and a Service
// reaches it on each node.
func TestMigrate(t *testing.T) {
	untilHealthy(t)
	m := newMachine(t, "mover", "Always", "")
	v := &virtctl{t, m.namespace}
	first := m.untilBooted()
	m.startCounting()
	apply(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: mover, namespace: %s}, spec: {selector: `+
		`{app: mover}, ports: [{port: 80}]}}`, m.namespace))
	most := watchDomains(m)
	before, pod := first, m.pod()
	for i := range 10 {
		counted := m.counted(pod)
		require.NotEmpty(t, counted)
		v.mustRun("migrate", m.name)
		now := m.untilMigrated()
		require.Equal(t, first.UID, now.UID)
		require.NotEqual(t, before.Status.NodeName, now.Status.NodeName)
		require.Equal(t, now.Status.NodeName, now.Labels[contract.LabelNodeName])
		require.Equal(t, kubevirt.Running, now.Status.Phase)
		require.True(t, now.Status.MigrationState.Completed)
		require.False(t, now.Status.MigrationState.Failed)
		pod = m.onePod()
		ip := m.kubectl("get", "pod", pod, "-o", "jsonpath={.status.podIP}")
		until(t, time.Minute, "the guest continues to count on its new node", func() error {
			vmi, err := m.vmi()
			if err != nil {
				return err
			}
			if len(vmi.Status.Interfaces) != 1 || vmi.Status.Interfaces[0].IP != ip {
				return fmt.Errorf("its interfaces are %+v, its pod has %s", vmi.Status.Interfaces, ip)
			}
			if len(vmi.Status.ActivePods) != 1 {
				return fmt.Errorf("its pods are %v", vmi.Status.ActivePods)
			}
			here := m.counted(pod)
			if len(here) < 2 {
				return fmt.Errorf("counted so far: %v", here)
			}
			require.GreaterOrEqual(t, here[0], counted[len(counted)-1], "it has started to count again")
			require.LessOrEqual(t, here[0], counted[len(counted)-1]+60, "it has skipped numbers")
			return nil
		})
		if i == 0 || i == 9 {
			until(t, time.Minute, "the Service reaches the guest", func() error {
				page := m.fromPod("service", fetchCommand("mover."+m.namespace+".svc.cluster.local", 80, "/"))
				if !strings.Contains(page, "hello from mover") {
					return fmt.Errorf("it answers %q", page)
				}
				return nil
			})
		}
		require.Len(t, m.domains(), 1)
		before = now
	}
	require.LessOrEqual(t, most(), 2, "domains at a time: source and target")
	// The API server checks periodically whether each Service's address is allocated, and warns about a newer one.
	require.Empty(t, m.kubectl("get", "events", "--field-selector", "type=Warning,involvedObject.kind!=Service", "-o",
		`jsonpath={range .items[*]}{.reason}: {.message}{"\n"}{end}`))
	m.strategy("Halted")
	m.untilStatus("Stopped")
	m.remove()
}

// TestMigrateTwoAtOnce moves two guests at once, one of them paused, which stays paused.
func TestMigrateTwoAtOnce(t *testing.T) {
	suite.TakeTurn(t, 7)
	untilHealthy(t)
	a := newMachine(t, "one", "Always", "")
	b := &machine{t: t, namespace: a.namespace, name: "two", taps: a.taps}
	b.apply("Always", "")
	v := &virtctl{t, a.namespace}
	beforeA, beforeB := a.untilBooted(), b.untilBooted()
	b.startCounting()
	v.mustRun("pause", "vm", b.name)
	b.untilStatus("Paused")
	v.mustRun("migrate", a.name)
	v.mustRun("migrate", b.name)
	require.NotEqual(t, beforeA.Status.NodeName, a.untilMigrated().Status.NodeName)
	require.NotEqual(t, beforeB.Status.NodeName, b.untilMigrated().Status.NodeName)
	b.untilStatus("Paused")
	pod := b.onePod()
	time.Sleep(3 * time.Second) // time for a count, if it continued
	require.Empty(t, b.counted(pod), "a guest that its user had paused has continued")
	v.mustRun("unpause", "vm", b.name)
	b.untilStatus("Running")
	until(t, time.Minute, "it continues to count", func() error {
		if len(b.counted(pod)) == 0 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	a.remove()
	b.remove()
}

// TestMigrationRefused: a guest that cannot migrate is refused at once. A cancelled migration leaves only the guest,
// and does not prevent the next one.
func TestMigrationRefused(t *testing.T) {
	suite.TakeTurn(t, 7)
	untilHealthy(t)
	m := newMachine(t, "stays", "Halted", "")
	v := &virtctl{t, m.namespace}
	m.untilStatus("Stopped")
	v.refused("migrate "+m.name, `virtualmachineinstance.kubevirt.io "stays" not found`)
	v.refused("migrate missing", `virtualmachine.kubevirt.io "missing" not found`)
	m.strategy("Always")
	before := m.untilBooted()
	qemu := m.domains()
	require.Len(t, qemu, 1)

	v.mustRun("migrate", m.name, "--addedNodeSelector", "no=such-node")
	until(t, time.Minute, "the target's pod waits for a node", func() error {
		all := m.migrations()
		if len(all) != 1 || all[0].Status.Phase != kubevirt.MigrationScheduling {
			return fmt.Errorf("there are %+v", all)
		}
		return nil
	})
	_, err := tryWith(fmt.Sprintf(`{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstanceMigration, metadata: `+
		`{name: second, namespace: %s}, spec: {vmiName: %s}}`, m.namespace, m.name), "create", "-f", "-")
	refused(t, err, "in-flight migration detected")
	v.mustRun("migrate-cancel", m.name)
	until(t, time.Minute, "nothing of the migration is left", func() error {
		if all := m.migrations(); len(all) > 0 {
			return fmt.Errorf("%s is %s", all[0].Name, all[0].Status.Phase)
		}
		return nil
	})
	m.onePod()
	require.Equal(t, qemu[0].pid, m.domains()[0].pid)
	v.refused("migrate-cancel "+m.name, "Found no migration to cancel for "+m.name)

	v.mustRun("migrate", m.name)
	require.NotEqual(t, before.Status.NodeName, m.untilMigrated().Status.NodeName)
	m.remove()
}
