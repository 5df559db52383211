//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// TestDrain drains a node with three guests and another pod. The first time the drain is paused and cancelled half-way,
// and each guest stays where it is by then; the second time all guests leave, and kubectl drain ends by itself. The
// taint then brings them back.
func TestDrain(t *testing.T) {
	suite.TakeTurn(t, 4)
	untilHealthy(t)
	node := idleNode(t)
	others := strings.Fields(strings.ReplaceAll(kubectl(t, "get", "nodes", "-o", "name"), "node/", ""))
	for _, n := range append(others, node) {
		uncordon(t, n)
	}
	for _, n := range others {
		if n != node {
			kubectl(t, "cordon", n)
		}
	}
	namespace, names := newNamespace(t), []string{"first", "second", "third"}
	guests := map[string]*kubevirt.VirtualMachineInstance{}
	machines := map[string]*machine{}
	for _, name := range names {
		machines[name] = &machine{t: t, namespace: namespace, name: name}
		machines[name].apply("Always", "      evictionStrategy: LiveMigrate")
	}
	for _, name := range names {
		guests[name] = machines[name].untilBooted()
		require.Equal(t, node, guests[name].Status.NodeName)
	}
	for _, n := range others {
		kubectl(t, "uncordon", n)
		untilLabel(t, n, "true")
	}
	bystander(t, namespace, node, names[0])
	// drain runs kubectl drain for the pods of this test.
	drain := func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, "kubectl", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data",
			"--force", "--timeout=5m", "--pod-selector", "app in ("+strings.Join(names, ",")+")")
	}
	one := machines[names[0]]
	open := func() (list []string) {
		for _, m := range one.migrations() {
			if !m.IsFinal() {
				list = append(list, m.Name)
			}
		}
		return list
	}
	left := func() (list []string) {
		for _, name := range names {
			vmi, err := machines[name].vmi()
			require.NoError(t, err)
			require.Equal(t, guests[name].UID, vmi.UID)
			if vmi.Status.NodeName == node {
				list = append(list, name)
			}
		}
		return list
	}
	number := func(node string) int {
		var state struct {
			Count int `json:"count"`
		}
		query(t, contract.NodeID(node), contract.QueryState, &state)
		return state.Count
	}

	slowMigrations(t, namespace)
	before := number(node)
	ctx, cancel := context.WithCancel(context.Background())
	cordoning := drain(ctx)
	require.NoError(t, cordoning.Start())
	until(t, 2*time.Minute, "a drain moves the first guests", func() error {
		if n := number(node); n == before || len(open()) == 0 {
			return fmt.Errorf("%d drains so far, %v", n-before, open())
		}
		return nil
	})
	id := contract.DrainID(node, number(node))
	_, err := control(id, contract.ControlPauseDrain, `{"actor": "alice", "reason": "the network is busy"}`)
	require.NoError(t, err)
	until(t, migrationTime, "the migrations under way have ended", func() error {
		if list := open(); len(list) > 0 {
			return fmt.Errorf("there are %v", list)
		}
		return nil
	})
	paused := left()
	require.NotEmpty(t, paused, "two move at a time, so one is left")
	time.Sleep(8 * time.Second) // kubectl tries again meanwhile
	require.Empty(t, open(), "a paused drain starts no migration")
	_, err = control(id, contract.ControlCancelDrain, `{"actor": "alice"}`)
	require.NoError(t, err)
	cancel()
	_ = cordoning.Wait()
	kubectl(t, "uncordon", node)
	untilLabel(t, node, "true")
	require.Equal(t, paused, left())
	until(t, time.Minute, "no instance is marked for evacuation", func() error {
		for _, name := range names {
			vmi, err := machines[name].vmi()
			if err == nil && vmi.Status.EvacuationNodeName != "" {
				err = fmt.Errorf("%s is", name)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})

	kubectl(t, "delete", "migrationpolicy", namespace)
	ctx, cancel = context.WithTimeout(context.Background(), 6*time.Minute)
	defer cancel()
	out, err := drain(ctx).CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, landscape())
	require.Empty(t, left())
	_, err = try("-n", namespace, "get", "pod", "bystander")
	require.ErrorContains(t, err, "not found")
	run := func() {
		for _, name := range names {
			machines[name].untilStatus("Running")
			machines[name].onePod()
			require.Len(t, machines[name].domains(), 1)
		}
	}
	run()
	kubectl(t, "uncordon", node)
	untilLabel(t, node, "true")

	there := one.mustVMI().Status.NodeName
	before = number(there)
	t.Cleanup(func() { _, _ = try("taint", "node", there, contract.TaintDrain+"-") })
	kubectl(t, "taint", "node", there, contract.TaintDrain+":NoSchedule")
	until(t, time.Minute, "the taint begins a drain", func() error {
		if number(there) == before {
			return fmt.Errorf("there is none")
		}
		return nil
	})
	ctx, cancel = context.WithTimeout(context.Background(), 2*migrationTime)
	defer cancel()
	var result contract.DrainResult
	require.NoError(t, temporal(t).GetWorkflow(ctx, contract.DrainID(there, before+1), "").Get(ctx, &result),
		landscape())
	require.Equal(t, len(names), result.Moved, "%+v", result)
	kubectl(t, "taint", "node", there, contract.TaintDrain+"-")
	require.ElementsMatch(t, names, left(), "they are back, the same instances")
	run()
	for _, name := range names {
		machines[name].remove()
	}
}
