//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// idleTime is how long every request is counted while nothing is done. It is the measurement, not a wait for something.
const idleTime = time.Minute

// TestIdleSystemPollsNothing: while a VM runs and no user acts, no process of virtflow may send a request, except to
// renew a leader's lease and to reopen watches that API servers end now and then, and no workflow may wake up. One
// exception is counted apart: the node gateway reviews a node's token again every five minutes, and when its kubelet
// has renewed it. That is at most twice a minute for each node.
func TestIdleSystemPollsNothing(t *testing.T) {
	suite.TakeTurn(t, 3)
	untilHealthy(t)
	m := newMachine(t, "idle", "Always", "")
	m.untilBooted()
	m.untilCondition("AgentConnected", "")
	settled(t, m.namespace, time.Now().Add(-time.Minute))
	c := temporal(t)
	_, before, _ := history(t, c, m.namespace)
	begun := time.Now()
	time.Sleep(idleTime)
	_, after, _ := history(t, c, m.namespace)
	var asked []string
	leases, reviews := 0, 0
	for _, call := range ownCalls(t, begun) {
		switch {
		case call.Object.Resource == "leases":
			leases++
		case call.Object.Resource == "tokenreviews" && strings.HasPrefix(call.UserAgent, "virtflow-node-gateway"):
			reviews++
		case call.Verb == "watch":
		default:
			asked = append(asked, fmt.Sprintf("%s %s %s/%s %s/%s", call.UserAgent, call.Verb, call.Object.Resource,
				call.Object.Subresource, call.Object.Namespace, call.Object.Name))
		}
	}
	fmt.Printf("budget: %s of idling with one VM: own API calls %d, lease renewals %d, reviews of nodes' tokens %d, "+
		"Temporal events %d\n", idleTime, len(asked), leases, reviews, after-before)
	require.Empty(t, asked)
	nodes := len(strings.Fields(kubectl(t, "get", "nodes", "-o", "name")))
	require.LessOrEqual(t, reviews, 2*nodes, "reviews of the tokens of %d nodes", nodes)
	require.Zero(t, after-before, "events in the histories of a VM while no user acts")
	require.NotZero(t, leases, "the audit log has no request of virtflow at all: nothing was counted")
	m.remove()
}
