//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/streams/migration"
	"github.com/virtflow/virtflow/testsuite/suite"
)

const alice = `{"actor": "alice", "reason": "a test"}`

// createMigration creates a migration of that name. Metadata and spec are added to its own, each with a comma before
// it.
func (m *machine) createMigration(name, metadata, spec string) {
	m.t.Helper()
	apply(m.t, fmt.Sprintf("{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstanceMigration, metadata: {name: %s, "+
		"namespace: %s%s}, spec: {vmiName: %s%s}}", name, m.namespace, metadata, m.name, spec))
}

// nowhere is a part of a migration's spec that makes its target unschedulable.
const nowhere = ", addedNodeSelector: {no: such-node}"

// untilPhase waits until the newest migration has reached a phase.
func (m *machine) untilPhase(want kubevirt.VirtualMachineInstanceMigrationPhase) {
	m.t.Helper()
	until(m.t, time.Minute, "the migration of "+m.name+" is "+string(want), func() error {
		one := m.newest()
		if one == nil {
			return fmt.Errorf("there is none")
		}
		if one.Status.Phase != want {
			require.False(m.t, one.IsFinal(), "%s: %+v", one.Name, one.Status)
			return fmt.Errorf("%s is %q: %+v", one.Name, one.Status.Phase, one.Status.Conditions)
		}
		return nil
	})
}

// untilQueued waits until the newest migration is in the queue, and returns the message of its condition.
func (m *machine) untilQueued() (message string) {
	m.t.Helper()
	until(m.t, time.Minute, "the migration is in the queue", func() error {
		one := m.newest()
		require.NotNil(m.t, one)
		i := slices.IndexFunc(one.Status.Conditions, func(c kubevirt.VirtualMachineInstanceMigrationCondition) bool {
			return c.Type == "virtflow.io/Queued"
		})
		if i < 0 {
			return fmt.Errorf("%s is %q: %+v", one.Name, one.Status.Phase, one.Status.Conditions)
		}
		message = one.Status.Conditions[i].Message
		return nil
	})
	return message
}

// holdQueue lets no migration begin until the returned function is called.
func holdQueue(t *testing.T) (release func()) {
	t.Helper()
	_, err := control(contract.AdmissionID, contract.ControlHold, alice)
	require.NoError(t, err)
	done := false
	release = func() {
		if !done {
			done = true
			_, err := control(contract.AdmissionID, contract.ControlRelease, alice)
			require.NoError(t, err)
		}
	}
	t.Cleanup(release)
	return release
}

// createHeld creates a migration that continues only until its target's pod runs. The functions in before get the ID of
// its workflow before the pod exists.
func (m *machine) createHeld(name string, before ...func(id string)) {
	m.t.Helper()
	release := holdQueue(m.t)
	m.createMigration(name, "", "")
	m.untilQueued()
	for _, do := range before {
		do(contract.MigrationID(m.namespace, name))
	}
	_, err := control(contract.MigrationID(m.namespace, name), contract.ControlHold, alice)
	require.NoError(m.t, err)
	release()
	m.untilPhase(kubevirt.MigrationScheduled)
}

// releaseTo releases a migration that is held at Scheduled, while the node worker of the target is stopped.
func (m *machine) releaseTo(name, target string) (thaw func()) {
	m.t.Helper()
	thaw = freeze(m.t, workersOn(m.t, target))
	_, err := control(contract.MigrationID(m.namespace, name), contract.ControlRelease, alice)
	require.NoError(m.t, err)
	m.untilPhase(kubevirt.MigrationPreparingTarget)
	return thaw
}

// untilOffered waits until a migration has its source's offer.
func (m *machine) untilOffered(name string) {
	m.t.Helper()
	until(m.t, time.Minute, "the source has made its offer", func() error {
		var state struct {
			Offer *contract.MigrationOffer `json:"offer"`
		}
		if err := tryQuery(contract.MigrationID(m.namespace, name), contract.QueryState, &state); err != nil {
			return err
		}
		if state.Offer == nil {
			return fmt.Errorf("not yet")
		}
		return nil
	})
}

// otherNode returns the node, of two, on which the guest does not run.
func (m *machine) otherNode() string {
	m.t.Helper()
	here := m.mustVMI().Status.NodeName
	nodes := strings.Fields(strings.ReplaceAll(kubectl(m.t, "get", "nodes", "-o", "name"), "node/", ""))
	i := slices.IndexFunc(nodes, func(n string) bool { return n != here })
	require.GreaterOrEqual(m.t, i, 0)
	return nodes[i]
}

// isListening reports whether the node worker of a node listens for other nodes' streams.
func isListening(t *testing.T, node string) bool {
	t.Helper()
	listens := regexp.MustCompile(fmt.Sprintf(`(?m)^ *\d+: [0-9A-F]+:%04X [0-9A-F]+:0000 0A `, migration.Port))
	for _, file := range []string{"tcp", "tcp6"} {
		sockets, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", workersOn(t, node)[0].pid, file))
		require.NoError(t, err)
		if listens.Match(sockets) {
			return true
		}
	}
	return false
}

// checkNothingLeft checks the end of a migration without success: the guest is where it was, in the same QEMU, and
// nothing is left of the target, nor of the migration in the instance's status.
func (m *machine) checkNothingLeft(source []proc, target string) {
	m.t.Helper()
	pod := m.onePod()
	until(m.t, time.Minute, "nothing is left of the migration", func() error {
		if ps := m.domains(); !slices.Equal(ps, source) {
			return fmt.Errorf("there are %v, there were %v", ps, source)
		}
		if isListening(m.t, target) {
			return fmt.Errorf("the node worker of %s listens for guests", target)
		}
		vmi, err := m.vmi()
		if err != nil {
			return err
		}
		if s := vmi.Status.MigrationState; s != nil && (!s.Completed || !s.Failed) {
			return fmt.Errorf("the instance's status has %+v", s)
		}
		if to := vmi.Labels[kubevirt.MigrationTargetNodeNameLabel]; to != "" {
			return fmt.Errorf("the instance is labelled as on its way to %s", to)
		}
		if len(vmi.Status.ActivePods) != 1 || vmi.Status.NodeName == target {
			return fmt.Errorf("the instance is on %s, in %v", vmi.Status.NodeName, vmi.Status.ActivePods)
		}
		return nil
	})
	count := len(m.counted(pod))
	until(m.t, time.Minute, "the guest continues to count", func() error {
		if now := m.counted(pod); len(now) <= count {
			return fmt.Errorf("counted: %v", now)
		}
		return nil
	})
}

// requirePreference requires that the pod of the newest migration prefers a node, and is there.
func (m *machine) requirePreference(node string) {
	m.t.Helper()
	pod := m.kubectl("get", "pod", "-l", fmt.Sprintf("%s=%s", kubevirt.MigrationJobLabel, m.newest().UID), "-o",
		"jsonpath={.items[*].spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[*].preference"+
			".matchFields[*].values[*]}/{.items[*].spec.nodeName}")
	require.Equal(m.t, node+"/"+node, pod)
}

// TestMigrationDeletedInEachPhase: a migration that is deleted in any phase leaves the guest where it was and nothing
// else, and the next one may begin at once. A queued migration has its position in its condition, and one that should
// prefer a node has a pod that does. TargetReady has no case: the source is asked to begin as soon as the target is
// ready, so the phase after PreparingTarget is Running, before the source has received the request.
func TestMigrationDeletedInEachPhase(t *testing.T) {
	suite.TakeTurn(t, 5)
	untilHealthy(t)
	m := newMachine(t, "deleted", "Always", "")
	before := m.untilBooted()
	m.startCounting()
	source := m.domains()
	require.Len(t, source, 1)
	target := m.otherNode()
	slowMigrations(t, m.namespace)
	// Each case brings a migration of that name to its phase, and returns what to undo once its deletion has been
	// observed. The first needs no queue, which exists from a cluster's first migration on.
	for _, c := range []struct {
		name  string
		reach func(name string) (undo func())
	}{
		{"scheduling", func(name string) func() {
			m.createMigration(name, "", nowhere)
			m.untilPhase(kubevirt.MigrationScheduling)
			return func() {}
		}},
		{"pending", func(name string) func() {
			release := holdQueue(t)
			m.createMigration(name, "", "")
			m.untilPhase(kubevirt.MigrationPending)
			require.Contains(t, m.untilQueued(), "; it is next")
			return release
		}},
		{"scheduled", func(name string) func() {
			prefer := func(id string) error {
				_, err := control(id, contract.ControlPreferNode, fmt.Sprintf(`{"actor": "alice", "node": %q}`, target))
				return err
			}
			m.createHeld(name, func(id string) { require.NoError(t, prefer(id)) })
			m.requirePreference(target)
			require.ErrorContains(t, prefer(contract.MigrationID(m.namespace, name)), "the target has a pod already")
			return func() {}
		}},
		{"preparing-target", func(name string) func() {
			m.createHeld(name)
			return m.releaseTo(name, target)
		}},
		{"running-unheard", func(name string) func() {
			m.createHeld(name)
			thawTarget := m.releaseTo(name, target)
			m.untilOffered(name)
			thawSource := freeze(t, workersOn(t, before.Status.NodeName))
			thawTarget()
			m.untilPhase(kubevirt.MigrationRunning)
			return thawSource
		}},
		{"running", func(name string) func() {
			m.createMigration(name, "", "")
			m.untilCopying()
			return func() {}
		}},
	} {
		if !t.Run(c.name, func(t *testing.T) {
			undo := c.reach(c.name)
			m.kubectl("delete", "vmim", c.name, "--wait=false")
			until(t, time.Minute, "its deletion has been observed", func() error {
				one := m.newest()
				if one == nil || slices.ContainsFunc(one.Status.Conditions,
					func(c kubevirt.VirtualMachineInstanceMigrationCondition) bool {
						return c.Type == kubevirt.VirtualMachineInstanceMigrationAbortRequested
					}) {
					return nil
				}
				return fmt.Errorf("%s, deleted at %v: %+v", one.Status.Phase, one.DeletionTimestamp,
					one.Status.Conditions)
			})
			undo()
			until(t, 2*time.Minute, "it is gone", func() error {
				if one := m.newest(); one != nil {
					return fmt.Errorf("%s: %+v", one.Status.Phase, one.Status)
				}
				return nil
			})
			m.checkNothingLeft(source, target)
		}) {
			return
		}
	}
	untilHealthy(t)
	kubectl(t, "delete", "migrationpolicy", m.namespace)
	m.createMigration("next", "", "")
	require.Equal(t, target, m.untilMigrated().Status.NodeName)
	m.checkRunsOnce(string(before.UID))
	m.remove()
}
