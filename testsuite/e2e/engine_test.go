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

	"github.com/virtflow/virtflow/crdwatch/fencing"
	"github.com/virtflow/virtflow/testsuite/turns"
	"github.com/virtflow/virtflow/workflows/contract"
)

// healTime is how long the control plane may take to be right again after Temporal has answered again.
const healTime = 2 * time.Minute

// guest is one running guest that must not be touched.
type guest struct {
	*machine
	uid  string
	qemu int
}

// booted is a machine whose guest runs.
func booted(t *testing.T, name string) guest {
	t.Helper()
	m := newMachine(t, name, "Always", "")
	vmi := m.untilBooted()
	domains := m.domains()
	require.Len(t, domains, 1)
	return guest{machine: m, uid: string(vmi.UID), qemu: domains[0].pid}
}

// untouched checks for some time that the guest runs on, that its VM never says otherwise once it is right, and that
// its workflows are there.
func (g guest) untouched(limit time.Duration) {
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
			if err := queried(id, contract.QueryState, &knows); err != nil {
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
		asked(g.t, g.workflow(), contract.QueryState, &open)
		require.Nil(g.t, open.Open, "a transition is open for a VM whose guest runs as it should")
	}
}

// stopsInGoodOrder ends the guest the ordinary way: its control plane works as ever.
func (g guest) stopsInGoodOrder() {
	g.t.Helper()
	log := g.follow()
	g.strategy("Halted")
	g.untilStatus("Stopped")
	<-log.done
	require.Contains(g.t, log.String(), "guest: clean shutdown")
	g.remove()
}

// TestEntitiesEndedByHand: who terminates a VM's workflows, as a last resort, does not touch its guest, and they are
// back soon.
func TestEntitiesEndedByHand(t *testing.T) {
	turns.Take(t, 4)
	untilHealthy(t)
	g := booted(t, "ended")
	for _, ids := range [][]string{
		{g.workflow()},
		{contract.VMIID(g.namespace, g.name)},
		{g.workflow(), contract.VMIID(g.namespace, g.name)},
	} {
		for _, id := range ids {
			_, err := cli("temporal", "workflow", "terminate", "--workflow-id", id, "--reason", "a test")
			require.NoError(t, err)
		}
		g.untouched(healTime)
	}
	g.stopsInGoodOrder()
}

// TestAnEntityEndedByHandWhileItStarts: the start goes on, and no guest is taken away.
func TestAnEntityEndedByHandWhileItStarts(t *testing.T) {
	turns.Take(t, 3)
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
	guest{machine: m, uid: string(now.UID), qemu: domains[0].pid}.untouched(healTime)
	require.Equal(t, 1, most())
	m.remove()
}

// TestTemporalPutBack: Temporal's database is put back to a copy from before a VM was started. Its guest runs on, and
// is not started again.
func TestTemporalPutBack(t *testing.T) {
	turns.Take(t, 2)
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
	g.untouched(healTime + bootTime)
	olderCopyShows(t, epoch(t))
	g.stopsInGoodOrder()
}

// TestTemporalLost: Temporal's database is gone. Guests run on, their workflows are back without a person, and new VMs
// can be started.
func TestTemporalLost(t *testing.T) {
	turns.Take(t, 6)
	untilHealthy(t)
	g := booted(t, "lost")
	halted := newMachine(t, "halted", "Halted", "")
	halted.untilStatus("Stopped")
	withoutTemporal(t, func(folder string) { require.NoError(t, os.RemoveAll(folder)) })
	g.untouched(healTime + bootTime)
	halted.strategy("Always")
	halted.untilBooted()
	halted.remove()
	g.stopsInGoodOrder()
}

// TestEtcdPutBack: etcd is put back to an older copy, so that resourceVersions run backwards, and the API server and
// the rest of Kubernetes are started again, as after any restore; virtflow is not. The guest runs on, and what is asked
// for after that is done.
func TestEtcdPutBack(t *testing.T) {
	turns.Take(t, 0)
	untilHealthy(t)
	g := booted(t, "etcd")
	copied, before := t.TempDir(), epoch(t)
	withoutEtcd(t, func(folder string) { copyTree(t, folder, copied) })
	untilHealthy(t)
	require.Equal(t, before, epoch(t), "an API server that was restarted is no older copy")
	kubectl(t, "patch", "vm", "-n", g.namespace, g.name, "--type", "merge", "-p",
		`{"spec":{"template":{"metadata":{"annotations":{"e2e/lost":"soon"}}}}}`)
	until(t, time.Minute, "the VM's workflow knows the change that is going to be lost", func() error {
		vm, err := g.vm()
		if err != nil {
			return err
		}
		var knows struct {
			VM struct {
				Generation int64 `json:"generation"`
			} `json:"vm"`
		}
		if err := queried(g.workflow(), contract.QueryState, &knows); err != nil {
			return err
		}
		if knows.VM.Generation != vm.Generation {
			return fmt.Errorf("it knows generation %d, and there is %d", knows.VM.Generation, vm.Generation)
		}
		return nil
	})
	withoutEtcd(t, func(folder string) { putBack(t, copied, folder) })
	restartKubernetes(t)
	untilHealthy(t)
	g.untouched(healTime)
	require.Equal(t, before+1, epoch(t))
	olderCopyShows(t, before+1)
	g.stopsInGoodOrder()
}

// olderCopyShows on the KubeVirt object as the reason why an epoch has begun.
func olderCopyShows(t *testing.T, epoch int) {
	t.Helper()
	require.Equal(t, "Warning OlderCopy KubeVirt/kubevirt", kubectl(t, "get", "event", "-n", "virtflow",
		fmt.Sprintf("kubevirt.older-copy-%d", epoch), "-o",
		`jsonpath={.type} {.reason} {.involvedObject.kind}/{.involvedObject.name}`))
}

// epoch is crdwatch's.
func epoch(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(kubectl(t, "get", "lease", "-n", "virtflow", fencing.LeaseName, "-o",
		`jsonpath={.metadata.annotations.virtflow\.io/fencing-epoch}`))
	require.NoError(t, err)
	return n
}

// restartKubernetes restarts what watches the API server for Kubernetes, as its instructions for a restore of etcd say:
// kube-proxy, for one, has the API server's address from a watch, and virtflow's pods reach it by that alone.
func restartKubernetes(t *testing.T) {
	t.Helper()
	for _, p := range []string{
		"kube-controller-manager", "kube-scheduler", "node1-kubelet", "node2-kubelet", "node1-kube-proxy", "node2-kube-proxy",
	} {
		dev(t, "restart", p)
	}
}

// withoutEtcd does something with etcd's folder while neither it nor the API server runs.
func withoutEtcd(t *testing.T, do func(folder string)) {
	t.Helper()
	dev(t, "stop", "kube-apiserver")
	defer untilReachable(t)
	defer dev(t, "start", "kube-apiserver")
	dev(t, "stop", "etcd")
	defer dev(t, "start", "etcd")
	do(filepath.Join(nodeState(t), "etcd"))
}

// copyOfTemporal copies Temporal's database as it is now. Back puts the copy in its place.
func copyOfTemporal(t *testing.T) (back func()) {
	t.Helper()
	copied := t.TempDir()
	withoutTemporal(t, func(folder string) { copyTree(t, folder, copied) })
	return func() {
		withoutTemporal(t, func(folder string) { putBack(t, copied, folder) })
	}
}

// putBack puts a copy of a folder in its place.
func putBack(t *testing.T, copied, folder string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(folder))
	copyTree(t, copied, folder)
}

// copyTree makes the contents of one folder those of another one, with owners and modes.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(to, 0o700))
	out, err := exec.Command("cp", "--archive", from+"/.", to).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// withoutTemporal does something with the folder of Temporal's database while neither it nor Temporal's server runs.
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
