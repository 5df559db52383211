//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
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

// cli runs one of Temporal's own tools, unmodified, and returns all of its output.
func cli(tool string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, tool, args...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s", tool, strings.Join(args, " "), err,
			strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// control sends an Update to an entity with the temporal CLI.
func control(workflow, name, input string) (string, error) {
	return cli("temporal", "workflow", "update", "execute", "--workflow-id", workflow, "--name", name, "--input", input)
}

// signal sends a control as a signal, as tctl does.
func signal(t *testing.T, workflow, name, input string) {
	t.Helper()
	_, err := cli("tctl", "workflow", "signal", "--workflow_id", workflow, "--name", name, "--input", input)
	require.NoError(t, err)
}

// query queries an entity with the temporal CLI.
func query(t *testing.T, workflow, query string, answer any) {
	t.Helper()
	require.NoError(t, tryQuery(workflow, query, answer))
}

// tryQuery queries an entity that may not answer yet.
func tryQuery(workflow, query string, answer any) error {
	out, err := cli("temporal", "workflow", "query", "--workflow-id", workflow, "--type", query, "--output", "json")
	if err != nil {
		return err
	}
	var r struct{ QueryResult []json.RawMessage }
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if len(r.QueryResult) == 0 {
		return fmt.Errorf("no answer: %s", out)
	}
	return json.Unmarshal(r.QueryResult[0], answer)
}

func (m *machine) workflow() string { return contract.VMID(m.namespace, m.name) }

func (m *machine) untilCondition(kind, want string) {
	m.t.Helper()
	until(m.t, time.Minute, "VM "+m.name+" has the condition "+kind+" saying "+want, func() error {
		vm, err := m.vm()
		if err != nil {
			return err
		}
		for _, c := range vm.Status.Conditions {
			if string(c.Type) == kind && strings.Contains(c.Message, want) {
				return nil
			}
		}
		return fmt.Errorf("its conditions: %+v", vm.Status.Conditions)
	})
}

func (m *machine) untilNoCondition(kind string) {
	m.t.Helper()
	until(m.t, time.Minute, "VM "+m.name+" has lost the condition "+kind, func() error {
		vm, err := m.vm()
		if err != nil {
			return err
		}
		for _, c := range vm.Status.Conditions {
			if string(c.Type) == kind {
				return fmt.Errorf("it says: %s", c.Message)
			}
		}
		return nil
	})
}

func refused(t *testing.T, err error, why string) {
	t.Helper()
	require.Error(t, err)
	require.Contains(t, err.Error(), why)
}

// TestControls calls every control with the tools that administrators have: the temporal CLI for Updates and queries,
// tctl for signals.
func TestControls(t *testing.T) {
	suite.TakeTurn(t, 5)
	m := newMachine(t, "web", "Halted", "")
	m.untilStatus("Stopped")
	id := m.workflow()

	// hold and release.
	_, err := control(id, "release", `{"actor": "alice"}`)
	refused(t, err, "the VM is not held")
	_, err = control(id, "hold", `{"reason": "without an actor"}`)
	refused(t, err, "actor: required")
	out, err := control(id, "hold", `{"actor": "alice", "reason": "storage maintenance"}`)
	require.NoError(t, err)
	require.Contains(t, out, "No transition is opened")
	m.untilCondition("Held", "held by alice (claimed): storage maintenance")
	m.strategy("Always")
	var plan struct {
		Waiting string `json:"waiting"`
	}
	until(t, time.Minute, "the plan names what it waits for", func() error {
		if query(t, id, "plan", &plan); !strings.Contains(plan.Waiting, "a person: the VM is held by alice") {
			return fmt.Errorf("it waits for %q", plan.Waiting)
		}
		return nil
	})
	_, err = m.vmi()
	require.Error(t, err, "a VM that is held is not started")
	signal(t, id, "release", `{"actor": "alice", "reason": "done"}`)
	m.untilNoCondition("Held")
	m.untilStatus("Running")

	// A refused signal is visible in a condition.
	signal(t, id, "release", `{"actor": "bob"}`)
	m.untilCondition("ControlRefused", "release was refused: the VM is not held")

	// approve.
	m.kubectl("annotate", "vm", m.name, "virtflow.io/approval-required=start,stop")
	m.strategy("Halted")
	m.untilCondition("ApprovalRequired", "the stop waits for approval")
	_, err = control(id, "approve", `{"actor": "bob", "operation": "start"}`)
	refused(t, err, "start does not wait for approval; stop does")
	vmi, err := m.vmi()
	require.NoError(t, err)
	require.Nil(t, vmi.DeletionTimestamp)
	_, err = control(id, "approve", `{"actor": "bob", "reason": "agreed with the owner"}`)
	require.NoError(t, err)
	m.untilStatus("Stopped")
	m.untilNoCondition("ApprovalRequired")
	m.untilNoCondition("ControlRefused")

	// cancel-transition.
	m.kubectl("annotate", "vm", m.name, "virtflow.io/approval-required-")
	_, err = control(id, "cancel-transition", `{"actor": "alice"}`)
	refused(t, err, "no transition is open")
	m.kubectl("patch", "vm", m.name, "--type=merge", "-p",
		`{"spec": {"runStrategy": "Always", "template": {"spec": {"nodeSelector": {"no": "such-node"}}}}}`)
	m.untilStatus("ErrorUnschedulable")
	_, err = control(id, "cancel-transition", `{"actor": "alice", "reason": "wrong selector"}`)
	require.NoError(t, err)
	m.untilCondition("Held", "its start was cancelled, held by alice (claimed): wrong selector")
	until(t, time.Minute, "the instance is gone", func() error {
		if _, err := m.vmi(); err == nil {
			return fmt.Errorf("it is still there")
		}
		return nil
	})

	// retry-now, on the instance's entity: a pod that a quota forbids.
	apply(t, "{apiVersion: v1, kind: ResourceQuota, metadata: {name: none, namespace: "+m.namespace+
		"}, spec: {hard: {pods: 0}}}")
	m.kubectl("patch", "vm", m.name, "--type=json", "-p",
		`[{"op": "remove", "path": "/spec/template/spec/nodeSelector"}]`)
	_, err = control(id, "release", `{"actor": "alice"}`)
	require.NoError(t, err)
	m.untilCondition("Synchronized", "exceeded quota")
	instance := contract.VMIID(m.namespace, m.name)
	var before struct {
		Failure *struct {
			Step string `json:"step"`
		} `json:"failure"`
	}
	until(t, 3*time.Minute, "attempts have failed for long enough to be a failure", func() error {
		if query(t, instance, "state", &before); before.Failure == nil {
			return fmt.Errorf("it has none yet")
		}
		return nil
	})
	require.Equal(t, "create the launcher pod", before.Failure.Step)
	// The quota goes afterwards: the first back-offs are so short that the entity would retry before the control
	// arrives.
	_, err = control(instance, "retry-now", `{"actor": "alice"}`)
	require.NoError(t, err)
	m.kubectl("delete", "resourcequota", "none")
	m.untilStatus("Running")
	_, err = control(instance, "retry-now", `{"actor": "alice"}`)
	refused(t, err, "nothing failed")

	// repair: the next run of the entity begins with the corrected state.
	_, err = control(id, "repair", `{"actor": "alice", "state": {"object": {"name": "other"}}}`)
	refused(t, err, "cannot make this the entity of another object")
	run := m.run(t)
	_, err = control(id, "repair", `{"actor": "alice", "reason": "count from forty", "state": {"count": 40}}`)
	require.NoError(t, err)
	until(t, time.Minute, "the entity continues in a new run", func() error {
		if m.run(t) == run {
			return fmt.Errorf("it is still run %s", run)
		}
		return nil
	})
	var state struct {
		Count int `json:"count"`
	}
	query(t, id, "state", &state)
	require.Equal(t, 40, state.Count)
	vm, err := m.vm()
	require.NoError(t, err)
	require.Equal(t, kubevirt.VirtualMachineStatusRunning, vm.Status.PrintableStatus)

	// history: the operations with their actors.
	var list []contract.OperationRecord
	query(t, id, "history", &list)
	var operations []string
	for _, r := range list {
		who := r.Actor
		if r.Claimed {
			who += " (claimed)"
		}
		operations = append(operations, fmt.Sprintf("%s by %s: %s", r.Operation, who, r.Outcome))
	}
	all := strings.Join(operations, "\n")
	t.Logf("the history query answers:\n%s", all)
	for _, want := range []string{"hold by alice (claimed): done", "approve by bob (claimed): done",
		"cancel-transition by alice (claimed): done", "repair by alice (claimed): done", "cancelled by alice (claimed)"} {
		require.Contains(t, all, want)
	}
	m.strategy("Halted")
	m.untilStatus("Stopped")
	require.Equal(t, 41, func() int {
		query(t, id, "state", &state)
		return state.Count
	}(), "the next transition has the next number")
	m.remove()
}

// run returns the ID of the current run of the VM's entity.
func (m *machine) run(t *testing.T) string {
	t.Helper()
	out, err := cli("temporal", "workflow", "describe", "--workflow-id", m.workflow(), "--output", "json")
	require.NoError(t, err)
	var d struct {
		WorkflowExecutionInfo struct {
			Execution struct {
				RunID string `json:"runId"`
			} `json:"execution"`
		} `json:"workflowExecutionInfo"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &d), "%s", out)
	return d.WorkflowExecutionInfo.Execution.RunID
}
