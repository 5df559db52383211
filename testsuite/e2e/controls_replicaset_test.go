//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// TestControlsOfReplicaSets calls the controls of a replica set, and of a node, with the temporal CLI and tctl.
func TestControlsOfReplicaSets(t *testing.T) {
	suite.TakeTurn(t, 7)
	r := newReplicas(t, newNamespace(t), "farm", 0)
	id := contract.ReplicaSetID(r.namespace, r.name)
	until(t, time.Minute, "the set's entity answers", func() error {
		_, err := cli("temporal", "workflow", "query", "--workflow-id", id, "--type", "plan")
		return err
	})

	// hold and release.
	_, err := control(id, "release", `{"actor": "alice"}`)
	refused(t, err, "the replica set is not held")
	_, err = control(id, "approve", `{"actor": "alice"}`)
	refused(t, err, "approve")
	_, err = control(id, "hold", `{"actor": "alice", "reason": "storage maintenance"}`)
	require.NoError(t, err)
	r.untilCondition("Held", "held by alice (claimed): storage maintenance")
	r.kubectl("scale", "vmirs", r.name, "--replicas=1")
	r.untilWaiting(id, "a person: the replica set is held by alice")
	list, err := r.instances()
	require.NoError(t, err)
	require.Empty(t, list, "a set that is held creates nothing")
	signal(t, id, "hold", `{"actor": "bob"}`)
	r.untilCondition("ControlRefused", "hold was refused: the replica set is held already")

	// retry-now: a quota forbids the instance that the released set creates.
	apply(t, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: none, namespace: `+r.namespace+
		`}, spec: {hard: {count/virtualmachineinstances.kubevirt.io: "0"}}}`)
	until(t, time.Minute, "the quota is in force", func() error {
		if out, err := try("-n", r.namespace, "get", "resourcequota", "none", "-o",
			"jsonpath={.status.hard}"); err != nil || out == "" {
			return fmt.Errorf("its status is %q: %w", out, err)
		}
		return nil
	})
	_, err = control(id, "retry-now", `{"actor": "alice"}`)
	refused(t, err, "nothing failed")
	_, err = control(id, "release", `{"actor": "alice"}`)
	require.NoError(t, err)
	r.untilCondition("ReplicaFailure", "exceeded quota")
	r.kubectl("delete", "resourcequota", "none")
	// A transition that still retries by itself refuses retry-now.
	if _, err = control(id, "retry-now", `{"actor": "alice"}`); err != nil {
		refused(t, err, "nothing failed")
	}
	r.until(1)

	// cancel-transition: the instances are unschedulable and never run, so the scale stays open.
	_, err = control(id, "cancel-transition", `{"actor": "alice"}`)
	refused(t, err, "no transition is open")
	r.kubectl("patch", "vmirs", r.name, "--type=merge", "-p",
		`{"spec":{"replicas":2,"template":{"spec":{"nodeSelector":{"e2e.virtflow.io/nowhere":"true"}}}}}`)
	r.untilWaiting(id, "the replicate transition")
	_, err = control(id, "cancel-transition", `{"actor": "alice", "reason": "wrong selector"}`)
	require.NoError(t, err)
	r.untilCondition("Held", "its replication was cancelled, held by alice (claimed): wrong selector")
	r.kubectl("scale", "vmirs", r.name, "--replicas=1")
	_, err = control(id, "release", `{"actor": "alice"}`)
	require.NoError(t, err)
	r.until(1)

	// repair: it waits for the open transition.
	until(t, time.Minute, "a made-up transition is refused", func() error {
		_, err := control(id, "repair", `{"actor": "alice", "state": {"open": {"id": "made up"}}}`)
		if err != nil && strings.Contains(err.Error(), "a transition is open: cancel it first") {
			return err
		}
		refused(t, err, "a transition cannot be made up")
		return nil
	})
	_, err = control(id, "repair", `{"actor": "alice", "reason": "count from forty", "state": {"count": 40}}`)
	require.NoError(t, err)
	var state struct {
		Count int `json:"count"`
	}
	until(t, time.Minute, "the next run has the corrected state", func() error {
		if query(t, id, "state", &state); state.Count != 40 {
			return fmt.Errorf("it counts %d", state.Count)
		}
		return nil
	})

	// A node's entity has the same controls.
	node := contract.NodeID(strings.Fields(kubectl(t, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"))[0])
	_, err = control(node, "retry-now", `{"actor": "alice"}`)
	refused(t, err, "nothing failed")
	_, err = control(node, "repair", `{"actor": "alice", "state": {"name": "other"}}`)
	refused(t, err, "cannot make this the entity of another node")
	r.kubectl("delete", "vmirs", r.name, "--timeout=100s")
}

func (r *replicas) untilCondition(kind, want string) {
	r.t.Helper()
	until(r.t, time.Minute, "replica set "+r.name+" has the condition "+kind+" saying "+want, func() error {
		set, err := r.get()
		if err != nil {
			return err
		}
		for _, c := range set.Status.Conditions {
			if string(c.Type) == kind && strings.Contains(c.Message, want) {
				return nil
			}
		}
		return fmt.Errorf("its conditions: %+v", set.Status.Conditions)
	})
}

func (r *replicas) untilWaiting(id, want string) {
	r.t.Helper()
	until(r.t, time.Minute, "the plan waits for "+want, func() error {
		var plan struct {
			Waiting string `json:"waiting"`
		}
		if query(r.t, id, "plan", &plan); !strings.Contains(plan.Waiting, want) {
			return fmt.Errorf("it waits for %q", plan.Waiting)
		}
		return nil
	})
}
