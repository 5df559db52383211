//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/restore"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// healTime is how long the control plane may take to recover after Temporal answers again.
const healTime = 2 * time.Minute

// guest is one running guest that must not be affected.
type guest struct {
	*machine
	uid  string
	qemu int
}

// bootGuest creates a machine and waits until its guest runs.
func bootGuest(t *testing.T, name string) guest {
	t.Helper()
	m := newMachine(t, name, "Always", "")
	vmi := m.untilBooted()
	domains := m.domains()
	require.Len(t, domains, 1)
	return guest{machine: m, uid: string(vmi.UID), qemu: domains[0].pid}
}

// checkUntouched checks for some time that the guest runs on, that its VM's status stays Running once it is, and that
// its workflows run.
func (g guest) checkUntouched(limit time.Duration) {
	g.t.Helper()
	same := func() error {
		vmi, err := g.vmi()
		if err != nil {
			return err
		}
		if string(vmi.UID) != g.uid || vmi.DeletionTimestamp != nil {
			return fmt.Errorf("the instance is %s (deleted: %v), and was %s", vmi.UID, vmi.DeletionTimestamp, g.uid)
		}
		if ps := g.domains(); len(ps) != 1 || ps[0].pid != g.qemu {
			return fmt.Errorf("QEMU is %v, and was %d", ps, g.qemu)
		}
		return nil
	}
	until(g.t, limit, "VM "+g.name+" has its workflows and is Running", func() error {
		require.NoError(g.t, same())
		for _, id := range []string{g.workflow(), contract.VMIID(g.namespace, g.name)} {
			out, err := cli("temporal", "workflow", "describe", "--workflow-id", id, "--output", "json")
			if err != nil {
				return err
			}
			if !strings.Contains(out, "WORKFLOW_EXECUTION_STATUS_RUNNING") {
				return fmt.Errorf("workflow %s does not run", id)
			}
			var knows struct {
				VMI *contract.VMIObservation `json:"vmi"`
			}
			if err := tryQuery(id, contract.QueryState, &knows); err != nil {
				return err
			}
			if knows.VMI == nil || knows.VMI.UID != g.uid || knows.VMI.Gone {
				return fmt.Errorf("workflow %s does not know the instance", id)
			}
		}
		vm, err := g.vm()
		if err != nil {
			return err
		}
		if vm.Status.PrintableStatus != "Running" || !vm.Status.Ready {
			return fmt.Errorf("it is %s, ready: %v", vm.Status.PrintableStatus, vm.Status.Ready)
		}
		return nil
	})
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		require.NoError(g.t, same())
		var open struct {
			Open *struct{ ID string } `json:"open"`
		}
		query(g.t, g.workflow(), contract.QueryState, &open)
		require.Nil(g.t, open.Open, "a transition is open for a VM whose guest runs as it should")
	}
}

// stopCleanly stops the VM, whose guest must shut down: its control plane works normally.
func (g guest) stopCleanly() {
	g.t.Helper()
	log := g.follow()
	g.strategy("Halted")
	g.untilStatus("Stopped")
	<-log.done
	require.Contains(g.t, log.String(), "guest: clean shutdown")
	g.remove()
}

// TestEntitiesTerminated: terminating a VM's workflows, as a last resort, does not affect its guest, and they start
// again soon.
func TestEntitiesTerminated(t *testing.T) {
	suite.TakeTurn(t, 4)
	untilHealthy(t)
	g := bootGuest(t, "ended")
	for _, ids := range [][]string{
		{g.workflow()},
		{contract.VMIID(g.namespace, g.name)},
		{g.workflow(), contract.VMIID(g.namespace, g.name)},
	} {
		for _, id := range ids {
			_, err := cli("temporal", "workflow", "terminate", "--workflow-id", id, "--reason", "a test")
			require.NoError(t, err)
		}
		g.checkUntouched(healTime)
	}
	g.stopCleanly()
}

// TestEntityTerminatedDuringStart: the start continues, and no guest is deleted.
func TestEntityTerminatedDuringStart(t *testing.T) {
	suite.TakeTurn(t, 3)
	untilHealthy(t)
	m := &machine{t: t, namespace: newNamespace(t), name: "starting"}
	most := watchDomains(m)
	m.apply("Always", "")
	until(t, time.Minute, "the start has begun", func() error {
		_, err := m.vmi()
		return err
	})
	vmi, err := m.vmi()
	require.NoError(t, err)
	_, err = cli("temporal", "workflow", "terminate", "--workflow-id", m.workflow(), "--reason", "a test")
	require.NoError(t, err)
	now := m.untilBooted()
	require.Equal(t, vmi.UID, now.UID)
	domains := m.domains()
	require.Len(t, domains, 1)
	guest{machine: m, uid: string(now.UID), qemu: domains[0].pid}.checkUntouched(healTime)
	require.Equal(t, 1, most())
	m.remove()
}

// TestTemporalPutBack: Temporal's database is put back to a copy from before a VM was started. Its guest runs on, and
// is not started again.
func TestTemporalPutBack(t *testing.T) {
	suite.TakeTurn(t, 2)
	untilHealthy(t)
	m := newMachine(t, "putback", "Halted", "")
	m.untilStatus("Stopped")
	back := copyOfTemporal(t)
	m.strategy("Always")
	vmi := m.untilBooted()
	domains := m.domains()
	require.Len(t, domains, 1)
	g := guest{machine: m, uid: string(vmi.UID), qemu: domains[0].pid}
	back()
	g.checkUntouched(healTime + bootTime)
	requireOlderCopyEvent(t, epoch(t))
	g.stopCleanly()
}

// TestTemporalLost: Temporal's database is lost. Guests run on, their workflows start again without a person, and new
// VMs can be started.
func TestTemporalLost(t *testing.T) {
	suite.TakeTurn(t, 6)
	untilHealthy(t)
	g := bootGuest(t, "lost")
	halted := newMachine(t, "halted", "Halted", "")
	halted.untilStatus("Stopped")
	withoutTemporal(t, func(folder string) { require.NoError(t, os.RemoveAll(folder)) })
	g.checkUntouched(healTime + bootTime)
	halted.strategy("Always")
	halted.untilBooted()
	halted.remove()
	g.stopCleanly()
}

// TestEtcdPutBack: etcd is put back to an older copy, so that resourceVersions run backwards. The API server and the
// rest of Kubernetes are restarted, as after any restore; virtflow is not. The guest runs on, and later requests are
// carried out.
func TestEtcdPutBack(t *testing.T) {
	suite.TakeTurn(t, 0)
	untilHealthy(t)
	g := bootGuest(t, "etcd")
	copied, before := t.TempDir(), epoch(t)
	withoutEtcd(t, func(folder string) { copyTree(t, folder, copied) })
	untilHealthy(t)
	require.Equal(t, before, epoch(t), "an API server that was restarted is no older copy")
	kubectl(t, "patch", "vm", "-n", g.namespace, g.name, "--type", "merge", "-p",
		`{"spec":{"template":{"metadata":{"annotations":{"e2e/lost":"soon"}}}}}`)
	until(t, time.Minute, "the VM's workflow has observed the change that will be lost", func() error {
		vm, err := g.vm()
		if err != nil {
			return err
		}
		var knows struct {
			VM struct {
				Generation int64 `json:"generation"`
			} `json:"vm"`
		}
		if err := tryQuery(g.workflow(), contract.QueryState, &knows); err != nil {
			return err
		}
		if knows.VM.Generation != vm.Generation {
			return fmt.Errorf("it has observed generation %d of %d", knows.VM.Generation, vm.Generation)
		}
		return nil
	})
	withoutEtcd(t, func(folder string) { putBack(t, copied, folder) })
	restartKubernetes(t)
	untilHealthy(t)
	g.checkUntouched(healTime)
	require.Equal(t, before+1, epoch(t))
	requireOlderCopyEvent(t, before+1)
	g.stopCleanly()
}

// requireOlderCopyEvent requires the event on the KubeVirt object that gives an older copy as the reason for an epoch.
func requireOlderCopyEvent(t *testing.T, epoch int) {
	t.Helper()
	require.Equal(t, "Warning OlderCopy KubeVirt/kubevirt", kubectl(t, "get", "event", "-n", "virtflow",
		fmt.Sprintf("kubevirt.older-copy-%d", epoch), "-o",
		`jsonpath={.type} {.reason} {.involvedObject.kind}/{.involvedObject.name}`))
}

// epoch returns crdwatch's epoch.
func epoch(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(kubectl(t, "get", "lease", "-n", "virtflow", restore.LeaseName, "-o",
		`jsonpath={.metadata.annotations.virtflow\.io/fencing-epoch}`))
	require.NoError(t, err)
	return n
}

// restartKubernetes restarts the parts of Kubernetes that watch the API server, as its instructions for a restore of
// etcd require: kube-proxy, for one, gets the API server's address from a watch, and virtflow's pods reach it only by
// that.
func restartKubernetes(t *testing.T) {
	t.Helper()
	for _, p := range []string{
		"kube-controller-manager", "kube-scheduler", "node1-kubelet", "node2-kubelet", "node1-kube-proxy", "node2-kube-proxy",
	} {
		dev(t, "restart", p)
	}
}

// withoutEtcd calls do with etcd's folder while neither etcd nor the API server runs.
func withoutEtcd(t *testing.T, do func(folder string)) {
	t.Helper()
	dev(t, "stop", "kube-apiserver")
	defer untilReachable(t)
	defer dev(t, "start", "kube-apiserver")
	dev(t, "stop", "etcd")
	defer dev(t, "start", "etcd")
	do(filepath.Join(nodeState(t), "etcd"))
}

// copyOfTemporal copies Temporal's database. The returned function restores the copy.
func copyOfTemporal(t *testing.T) (back func()) {
	t.Helper()
	copied := t.TempDir()
	withoutTemporal(t, func(folder string) { copyTree(t, folder, copied) })
	return func() {
		withoutTemporal(t, func(folder string) { putBack(t, copied, folder) })
	}
}

// putBack replaces a folder by a copy.
func putBack(t *testing.T, copied, folder string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(folder))
	copyTree(t, copied, folder)
}

// copyTree copies a folder, with owners and modes.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(to, 0o700))
	out, err := exec.Command("cp", "--archive", from+"/.", to).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// withoutTemporal calls do with the folder of Temporal's database while neither it nor Temporal's server runs.
func withoutTemporal(t *testing.T, do func(folder string)) {
	t.Helper()
	processes, folder := []string{"temporal"}, filepath.Join(nodeState(t), "temporal")
	if postgres := filepath.Join(nodeState(t), "postgres"); exists(postgres) { // make up TEMPORAL_DB=postgres
		processes, folder = append(processes, "postgres"), filepath.Join(postgres, "data")
	}
	for _, p := range processes {
		dev(t, "stop", p)
	}
	defer func() {
		for _, p := range slices.Backward(processes) {
			dev(t, "start", p)
		}
	}()
	do(folder)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
