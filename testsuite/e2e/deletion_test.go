//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// TestDeletionBudget counts the cost of a running VM's deletion. The guest shuts down by itself, which is one write of
// the VMI; if that takes longer than the VMI's status needs to settle, there is one more. Five of the calls read the
// current state before they delete: the VMI three times, the VM once, and the VMI's pods before its finalizers are
// removed. Two more are made where the pod changes while its own finalizer is removed.
func TestDeletionBudget(t *testing.T) {
	suite.TakeTurn(t, 3)
	untilHealthy(t)
	m := newMachine(t, "going", "Always", "")
	m.untilBooted()
	c := temporal(t)
	settled(t, m.namespace, time.Now().Add(-time.Minute))
	_, eventsUp, tasksUp := history(t, c, m.namespace)
	begun := time.Now()
	m.remove()
	took := time.Since(begun)
	list := settled(t, m.namespace, begun)
	table, total, recorded := sumOwnCalls(list, time.Now())
	_, events, tasks := history(t, c, m.namespace)
	fmt.Printf("budget: deletion of a running VM: own API calls %d, and %d events recorded; Temporal events %d in %d "+
		"workflow tasks; in %.1f s\n%s",
		total, recorded, events-eventsUp, tasks-tasksUp, took.Seconds(), table)
	require.LessOrEqual(t, total, 13, "API calls of a deletion, without recording events")
}
