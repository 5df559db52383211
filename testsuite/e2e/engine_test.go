//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	g.stopsInGoodOrder()
}

// TestTemporalLost: Temporal's database is gone. Guests run on, their workflows are back without a person, and new VMs
// can be started.
func TestTemporalLost(t *testing.T) {
	untilHealthy(t)
	g := booted(t, "lost")
	halted := newMachine(t, "halted", "Halted", "")
	halted.untilStatus("Stopped")
	withoutTemporal(t, func(folder string) {
		for _, file := range databases(t, folder) {
			require.NoError(t, os.Remove(file))
		}
	})
	g.untouched(healTime + bootTime)
	halted.strategy("Always")
	halted.untilBooted()
	halted.remove()
	g.stopsInGoodOrder()
}

// copyOfTemporal copies Temporal's database as it is now. Back puts the copy in its place.
func copyOfTemporal(t *testing.T) (back func()) {
	t.Helper()
	copied := map[string][]byte{}
	withoutTemporal(t, func(folder string) {
		for _, file := range databases(t, folder) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			copied[file] = data
		}
		require.NotEmpty(t, copied)
	})
	return func() {
		withoutTemporal(t, func(folder string) {
			for _, file := range databases(t, folder) {
				require.NoError(t, os.Remove(file))
			}
			for file, data := range copied {
				require.NoError(t, os.WriteFile(file, data, 0o600))
			}
		})
	}
}

// withoutTemporal does something while Temporal's server is stopped.
func withoutTemporal(t *testing.T, do func(folder string)) {
	t.Helper()
	dev(t, "stop", "temporal")
	defer dev(t, "start", "temporal")
	do(filepath.Join(nodeState(t), "temporal"))
}

// databases are the files of Temporal's databases.
func databases(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.db*"))
	require.NoError(t, err)
	return files
}
