//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// as returns kubectl's flags for an administrator of that name.
func as(user string) []string { return []string{"--as=" + user, "--as-group=system:masters"} }

// actorsOf returns the recorded actors of an operation of an entity.
func actorsOf(t *testing.T, workflow string, op contract.Operation) []string {
	t.Helper()
	var answer json.RawMessage
	query(t, workflow, contract.QueryHistory, &answer)
	var records []contract.OperationRecord
	if bytes.HasPrefix(bytes.TrimSpace(answer), []byte("[")) { // an empty list has another form
		require.NoError(t, json.Unmarshal(answer, &records))
	}
	var who []string
	for _, r := range records {
		if r.Operation == op && !r.Claimed {
			who = append(who, r.Actor)
		}
	}
	return who
}

// TestDrainWithEvictionWebhook: the eviction of a guest that can migrate is refused, and its instance is marked;
// another pod of the node is evicted. virtctl removes the mark, except while the node has the taint. Then the VM is
// deleted, and its history has the user who did it.
func TestDrainWithEvictionWebhook(t *testing.T) {
	suite.TakeTurn(t, 0)
	untilHealthy(t)
	m := newMachine(t, "moving", "Always", "      evictionStrategy: External")
	vmi := m.untilBooted()
	node := vmi.Status.NodeName
	uncordon(t, node)
	bystander(t, m.namespace, node, m.name)
	drain := func(more ...string) error {
		_, err := try(append([]string{"drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force",
			"--pod-selector", "app=" + m.name}, more...)...)
		return err
	}
	first := fmt.Sprintf("Eviction triggered evacuation of VMI \"%s/%s\"", m.namespace, m.name)
	marked := func() string {
		v, err := m.vmi()
		require.NoError(t, err)
		require.Equal(t, vmi.UID, v.UID)
		return v.Status.EvacuationNodeName
	}
	rehearsal := fmt.Sprintf(
		`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": %q, "namespace": %q}, "deleteOptions": `+
			`{"dryRun": ["All"]}}`, m.pod(), m.namespace)
	_, err := tryWith(rehearsal, "create", "--raw",
		"/api/v1/namespaces/"+m.namespace+"/pods/"+m.pod()+"/eviction?dryRun=All", "-f", "-")
	require.ErrorContains(t, err, first)
	if err := drain("--dry-run=server", "--timeout=10s"); err != nil {
		require.ErrorContains(t, err, first)
	}
	require.Empty(t, marked(), "a dry run marks nothing")

	err = drain("--timeout=12s")
	require.ErrorContains(t, err, first)
	require.ErrorContains(t, err, "Evacuation in progress: "+first, "again, as kubectl retries")
	require.Equal(t, node, marked())
	_, err = try("-n", m.namespace, "get", "pod", "bystander")
	require.ErrorContains(t, err, "not found", "other pods do not wait for virtflow")
	require.Len(t, m.domains(), 1)

	v, taint := &virtctl{t, m.namespace}, contract.TaintDrain+":NoSchedule"
	t.Cleanup(func() { _, _ = try("taint", "node", node, taint+"-") })
	kubectl(t, "taint", "node", node, taint)
	v.refused("evacuate-cancel vm "+m.name, fmt.Sprintf("Node %q has NodeDrainTaintKey %q", node, taint))
	require.Equal(t, node, marked())
	kubectl(t, "taint", "node", node, taint+"-")
	v.mustRun("evacuate-cancel", "vm", m.name)
	require.Empty(t, marked())
	kubectl(t, "uncordon", node)

	// A dry run of a deletion is not recorded.
	m.kubectl(append(as("dora"), "delete", "vm", m.name, "--dry-run=server")...)
	m.kubectl(append(as("carol"), "delete", "vm", m.name, "--timeout=110s")...)
	require.Equal(t, []string{"carol"}, actorsOf(t, m.workflow(), contract.OperationDelete))
	stops := actorsOf(t, m.workflow(), contract.OperationStop)
	require.NotEmpty(t, stops)
	require.Equal(t, "carol", stops[len(stops)-1], "the user who deletes a VM stops its guest")
}

// TestReplicaSetScaleRecordsUser: the history has the user, although no webhook can write a name into the object when
// the scale subresource is used.
func TestReplicaSetScaleRecordsUser(t *testing.T) {
	r := newReplicas(t, newNamespace(t), "scaled", 0)
	id := contract.ReplicaSetID(r.namespace, r.name)
	until(t, time.Minute, "the set's entity answers", func() error {
		_, err := cli("temporal", "workflow", "query", "--workflow-id", id, "--type", "plan")
		return err
	})
	r.kubectl(append(as("erin"), "scale", "vmirs", r.name, "--replicas=1")...)
	until(t, time.Minute, "the history has the user", func() error {
		if who := actorsOf(t, id, contract.OperationReplicate); !slices.Equal(who, []string{"erin"}) {
			return fmt.Errorf("it has %v", who)
		}
		return nil
	})
	r.kubectl(append(as("frank"), "delete", "vmirs", r.name, "--timeout=110s")...)
	require.Equal(t, []string{"frank"}, actorsOf(t, id, contract.OperationDelete))
}
