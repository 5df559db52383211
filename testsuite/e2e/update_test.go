//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// moveTime is the limit until the entities run with an update's logic: two checks by crdwatch, and the delay of
// visibility.
const moveTime = 3 * time.Minute

// replayTime is the limit until an entity that cannot be replayed is started again: Temporal reports it after five
// attempts, which time out one by one, and then crdwatch checks.
const replayTime = 9 * time.Minute

// TestUpdateUnderLoad updates the whole system to a release whose entities have other logic, and back, while VMs are
// started and stopped: none of that fails, no guest is affected, and idle entities move to the other logic as well. A
// migration that is held meanwhile moves its guest when it is released: it asks nothing of node workers before.
func TestUpdateUnderLoad(t *testing.T) {
	suite.TakeTurn(t, 0)
	untilHealthy(t)
	g := bootGuest(t, "runs")
	idle := newMachine(t, "idle", "Halted", "")
	idle.untilStatus("Stopped")
	var busy load
	for i := range 3 {
		busy = append(busy, newMachine(t, fmt.Sprintf("busy%d", i), "Halted", ""))
	}
	busy.halt()
	t.Cleanup(func() { require.NoError(t, <-deployed(t, "")) })
	moves := newMachine(t, "moves", "Always", "")
	instance := moves.untilBooted()
	moves.startCounting()
	moves.createMigration("before", "", "") // there is a queue to hold from the cluster's first migration on
	moves.untilMigrated()
	source := moves.domains()
	require.Len(t, source, 1)
	moves.createHeld("across")

	busy.cyclesUntil(t, deployed(t, nextRelease(t)))
	untilHealthy(t)
	until(t, moveTime, "all entities have the new logic", func() error {
		without := countWorkflows(t, "(TemporalChangeVersion IS NULL OR TemporalChangeVersion != 'logic:e2e-update-1')")
		with := countWorkflows(t, "TemporalChangeVersion = 'logic:e2e-update-1'")
		if without != 0 || with < 8 { // six VMs, and the instances of two
			return fmt.Errorf("%d entities with the old logic, %d with the new", without, with)
		}
		return nil
	})
	g.checkUntouched(healTime)
	_, err := control(contract.MigrationID(moves.namespace, "across"), contract.ControlRelease, alice)
	require.NoError(t, err)
	moves.untilMigrated()
	moves.checkRunsOnce(string(instance.UID))
	require.NotEqual(t, source[0].pid, moves.domains()[0].pid)
	moves.remove()
	busy.cyclesUntil(t, nil)

	// Requests wait until the runs that the previous release cannot replay have ended. They are carried out then.
	busy.each(func(m *machine) { m.strategy("Always") })
	require.NoError(t, <-deployed(t, ""))
	untilHealthy(t)
	until(t, replayTime, "all entities have the old logic, those that it cannot replay in a new run", func() error {
		with := countWorkflows(t, "TemporalChangeVersion = 'logic:e2e-update-1'")
		if with != 0 {
			return fmt.Errorf("%d entities with the new logic", with)
		}
		return nil
	})
	g.checkUntouched(healTime)
	idle.strategy("Always")
	idle.untilBooted()
	idle.remove()
	busy.each(func(m *machine) { m.untilBooted() })
	busy.halt()
	busy.each((*machine).remove)
	g.stopCleanly()
}

// load are VMs that start and stop at the same time.
type load []*machine

func (l load) each(do func(*machine)) {
	for _, m := range l {
		do(m)
	}
}

func (l load) halt() {
	l.each(func(m *machine) { m.strategy("Halted") })
	l.each(func(m *machine) { m.untilStatus("Stopped") })
}

// cyclesUntil starts and stops them at least once, and until the deployment beside it has ended.
func (l load) cyclesUntil(t *testing.T, ended <-chan error) {
	t.Helper()
	for {
		l.each(func(m *machine) { m.strategy("Always") })
		l.each(func(m *machine) { m.untilBooted() })
		l.halt()
		if ended == nil {
			return
		}
		select {
		case err := <-ended:
			require.NoError(t, err)
			return
		default:
		}
	}
}

// nextRelease returns an overlay of this release's source with other logic.
func nextRelease(t *testing.T) string {
	t.Helper()
	replace := map[string]string{}
	for file, by := range map[string]string{
		"../../contract/changes.go":         "testdata/update/changes.go.txt",
		"../../workflows/entity/changes.go": "testdata/update/logic.go.txt",
	} {
		from, err := filepath.Abs(file)
		require.NoError(t, err)
		_, err = os.Stat(from)
		require.NoError(t, err)
		replace[from], err = filepath.Abs(by)
		require.NoError(t, err)
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(overlay, data, 0o600))
	return overlay
}

// deployed deploys this checkout in the background, with an overlay or without.
func deployed(t *testing.T, overlay string) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		out, err := exec.Command("go", "run", "-C", "../../deploy/dev", "-trimpath", "-buildvcs=false", ".",
			"deploy", "--overlay", overlay).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("deploying: %w\n%s", err, strings.TrimSpace(string(out)))
		}
		ended <- err
	}()
	return ended
}

// countWorkflows counts the running entities that match the query.
func countWorkflows(t *testing.T, query string) int64 {
	t.Helper()
	answer, err := temporal(t).CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
		Query: "ExecutionStatus = 'Running' AND " +
			"WorkflowType IN ('VirtualMachine', 'VirtualMachineInstance', 'ReplicaSet', 'Node') AND " + query,
	})
	require.NoError(t, err)
	return answer.GetCount()
}
