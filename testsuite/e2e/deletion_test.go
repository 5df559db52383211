//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/turns"
)

// TestDeletionBudget counts what the deletion of a running VM costs. The guest shuts down by itself; what it takes
// longer than the VMI's status waits to be written adds one write. Five of the calls read what is true at the moment of
// deleting: the VMI three times, the VM once, and the VMI's pods before its finalizers are removed. Two more are made
// where the pod changes as its own finalizer is removed.
func TestDeletionBudget(t *testing.T) {
	turns.Take(t, 3)
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
	table, total, told := own(list, time.Now())
	_, events, tasks := history(t, c, m.namespace)
	fmt.Printf("budget: deletion of a running VM: own API calls %d, and %d events recorded; Temporal events %d in %d "+
		"workflow tasks; in %.1f s\n%s",
		total, told, events-eventsUp, tasks-tasksUp, took.Seconds(), table)
	require.LessOrEqual(t, total, 12, "API calls of a deletion, without recording events")
}
