package vm_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/vm"
)

// answer collects the result of an Update.
type answer struct {
	done    bool
	refused error
	summary string
}

func (a *answer) Accept()          {}
func (a *answer) Reject(err error) { a.done, a.refused = true, err }
func (a *answer) Complete(v any, err error) {
	a.done, a.refused = true, err
	if r, ok := v.(contract.ControlAnswer); ok {
		a.summary = r.Summary
	}
}

// update sends a control, and checks a moment later that it was accepted (refusal ""), or refused with these words.
func (w *world) update(t *testing.T, control string, r contract.ControlRequest, refusal string) {
	t.Helper()
	a := &answer{}
	w.updates++
	w.env.UpdateWorkflow(control, fmt.Sprint("update-", w.updates), a, r)
	w.at(5*time.Millisecond, func() {
		require.True(t, a.done, "%s was not answered", control)
		if refusal != "" {
			require.ErrorContains(t, a.refused, refusal, "%s", control)
			return
		}
		require.NoError(t, a.refused, "%s", control)
		require.NotEmpty(t, a.summary)
	})
}

func (w *world) condition(kind string) contract.Condition {
	c, _ := conditions.Get(w.VMStatus.Conditions, kind)
	return c
}

func (w *world) history(t *testing.T) []contract.OperationRecord {
	t.Helper()
	v, err := w.env.QueryWorkflow(contract.QueryHistory)
	require.NoError(t, err)
	var list []contract.OperationRecord
	require.NoError(t, v.Get(&list))
	return list
}

// needsApproval sets the annotation with which a user requires approvals.
func needsApproval(of string) func(*kubevirt.VirtualMachine) {
	return func(vm *kubevirt.VirtualMachine) { vm.Annotations[contract.AnnotationApproval] = of }
}

func alice(reason string) contract.ControlRequest {
	return contract.ControlRequest{Actor: "alice", Reason: reason}
}

func TestHoldBlocksStartUntilRelease(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Halted") })
	w.at(time.Second, func() {
		w.update(t, contract.ControlRelease, alice(""), "not held")
		w.update(t, contract.ControlHold, contract.ControlRequest{}, "actor: required")
		w.update(t, contract.ControlHold, contract.ControlRequest{Actor: "a", Reason: "two\nlines"}, "one line")
		w.update(t, contract.ControlHold, alice("maintenance"), "")
	})
	w.at(2*time.Second, func() {
		require.Equal(t, "True", w.condition(contract.ConditionHeld).Status)
		require.Contains(t, w.condition(contract.ConditionHeld).Message, "held by alice (claimed): maintenance")
		w.SetStrategy("Always")
	})
	w.at(time.Hour, func() {
		require.Nil(t, w.VMI(), "a VM that is held is not started")
		w.update(t, contract.ControlHold, alice(""), "held already")
		w.update(t, contract.ControlRelease, alice("done"), "")
	})
	w.at(time.Hour+time.Second, func() {
		require.NotNil(t, w.VMI())
		require.Empty(t, w.condition(contract.ConditionHeld).Type)
		list := w.history(t)
		require.Equal(t, contract.Operation(contract.ControlHold), list[0].Operation)
		require.True(t, list[0].Claimed)
		require.Equal(t, "alice", list[0].Actor)
		start := list[len(list)-1]
		require.Equal(t, contract.OperationStart, start.Operation)
		require.True(t, start.Until.IsZero(), "it continues")
	})
	w.deleteVM(2 * time.Hour)
	w.run(t)
}

func TestHeldVMCanBeDeleted(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.SetPhase("Running"); w.update(t, contract.ControlHold, alice(""), "") })
	w.deleteVM(time.Minute)
	w.run(t)
}

func TestCancelTransitionCompensatesAndHolds(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.update(t, contract.ControlCancelTransition, alice("wrong image"), "") })
	w.at(2*time.Second, func() {
		require.NotNil(t, w.VMI().DeletionTimestamp, "a start that is cancelled takes its instance away")
		w.RemoveVMI()
	})
	w.at(time.Hour, func() {
		require.Nil(t, w.VMI(), "what was cancelled is not begun again by itself")
		require.Contains(t, w.condition(contract.ConditionHeld).Message, "its start was cancelled")
		w.update(t, contract.ControlCancelTransition, alice(""), "no transition is open")
		w.update(t, contract.ControlRelease, alice(""), "")
	})
	w.at(time.Hour+time.Second, func() {
		require.NotNil(t, w.VMI())
		require.Contains(t, w.history(t)[0].Outcome, "cancelled by alice (claimed)")
	})
	w.deleteVM(2 * time.Hour)
	w.run(t)
}

func TestWaitsForApproval(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() {
		w.CreateVM("Halted", needsApproval("start,stop"))
	})
	w.at(time.Second, func() { w.SetStrategy("Always") })
	w.at(time.Minute, func() {
		require.Nil(t, w.VMI())
		require.Contains(t, w.condition(contract.ConditionApprovalRequired).Message, "the start waits for approval")
		w.update(t, contract.ControlApprove, contract.ControlRequest{Actor: "bob", Operation: "stop"},
			"stop does not wait for approval; start does")
		w.update(t, contract.ControlApprove, contract.ControlRequest{Actor: "bob"}, "")
	})
	w.at(2*time.Minute, func() {
		require.NotNil(t, w.VMI())
		require.Empty(t, w.condition(contract.ConditionApprovalRequired).Type)
		w.SetPhase("Running")
	})
	w.at(3*time.Minute, func() {
		list := w.history(t)
		require.Equal(t, "bob", list[len(list)-1].ApprovedBy)
		w.update(t, contract.ControlApprove, alice(""), "nothing waits for approval")
		w.SetPhase("Failed") // ended by itself: its deletion needs no approval, its start does
	})
	w.at(4*time.Minute, func() { w.RemoveVMI() })
	w.at(5*time.Minute, func() {
		require.Nil(t, w.VMI())
		require.Contains(t, w.condition(contract.ConditionApprovalRequired).Message, "the start waits for approval")
	})
	w.deleteVM(time.Hour)
	w.run(t)
}

func TestRetryNowSkipsBackOff(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() {
		w.update(t, contract.ControlRetryNow, alice(""), "nothing failed")
		w.SetPhase("Failed")
	})
	w.at(2*time.Second, func() { w.RemoveVMI() })
	w.at(3*time.Second, func() {
		w.status(t, "CrashLoopBackOff")
		w.update(t, contract.ControlRetryNow, alice(""), "")
	})
	w.at(4*time.Second, func() { require.NotNil(t, w.VMI(), "ten seconds are not waited for") })
	w.deleteVM(time.Minute)
	w.run(t)
}

func TestShowsRefusedControlSignal(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVM("Halted") })
	w.at(time.Second, func() { w.env.SignalWorkflow(contract.ControlRelease, alice("")) })
	w.at(2*time.Second, func() {
		require.Equal(t, "release was refused: the VM is not held",
			w.condition(contract.ConditionControlRefused).Message)
	})
	w.at(time.Hour, func() {
		require.Empty(t, w.condition(contract.ConditionControlRefused).Type, "it does not stand there for ever")
	})
	w.at(time.Hour+time.Second, func() { w.env.SignalWorkflow(contract.ControlHold, alice("by signal")) })
	w.at(time.Hour+2*time.Second, func() {
		require.Contains(t, w.condition(contract.ConditionHeld).Message, "by signal")
	})
	w.deleteVM(2 * time.Hour)
	w.run(t)
}

func TestRepairContinuesFromCorrectedState(t *testing.T) {
	w := newWorld(t)
	patch := func(s string) contract.ControlRequest {
		return contract.ControlRequest{Actor: "alice", Reason: "a stuck count", State: json.RawMessage(s)}
	}
	w.at(0, func() { w.CreateVM("Halted") })
	w.at(time.Second, func() {
		for body, why := range map[string]string{
			"":                          "state: required",
			`[]`:                        "state:",
			`{"object": {"name": "a"}}`: "entity of another object",
			`{"nonsense": 1}`:           "unknown field",
			`{"vm": null}`:              "cannot be removed",
			`{"vm": {"uid": "other"}}`:  "vm.uid: is not that of the object",
			`{"vmi": {"uid": "i", "ownerUID": "other"}}`: "vmi: must be null or have the same owner",
			`{"vmi": {"uid": "i"}}`:                      "vmi: must be null or have the same owner",
			`{"next": {"uid": "other"}}`:                 "next: is another object",
			`{"count": "a few"}`:                         "does not give a state",
			`{"open": {"operation": ""}}`:                "only null is possible",
		} {
			w.update(t, contract.ControlRepair, patch(body), why)
		}
		w.update(t, contract.ControlRepair, patch(`{"count": 41}`), "")
	})
	w.env.ExecuteWorkflow(vm.Workflow, contract.EntityInput{Namespace: "default", Name: "web"})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, w.env.GetWorkflowError(), &again)
	require.Equal(t, contract.WorkflowVM, again.WorkflowType.Name)
	payload := string(again.Input.GetPayloads()[0].GetData())
	var in contract.EntityInput
	require.NoError(t, json.Unmarshal([]byte(payload), &in))
	var state vm.State
	require.NoError(t, json.Unmarshal(in.Carried, &state))
	require.Equal(t, 41, state.Count)
	require.Equal(t, w.VM().UID, state.Object.UID)
	last := state.Records[len(state.Records)-1]
	require.Equal(t, contract.Operation(contract.ControlRepair), last.Operation)
	require.Equal(t, "alice", last.Actor)
	require.True(t, strings.HasPrefix(last.Why, "a stuck"))
}

// TestApprovalIsForOneGeneration: a VM that was changed or held since waits for another approval.
func TestApprovalIsForOneGeneration(t *testing.T) {
	for name, change := range map[string]func(*world){
		"changed": func(w *world) { w.EditVM(cores) },
		"held":    func(w *world) { w.env.SignalWorkflow(contract.ControlHold, alice("")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			approve := func() { w.update(t, contract.ControlApprove, alice(""), "") }
			w.at(0, func() { w.CreateVM("Halted", needsApproval("start")) })
			w.at(500*time.Millisecond, func() { w.SetStrategy("Always") })
			w.at(time.Second, approve)
			w.at(2*time.Second, func() { w.SetPhase("Failed") })
			w.at(3*time.Second, func() { w.RemoveVMI() })
			w.at(4*time.Second, func() { w.status(t, "CrashLoopBackOff"); approve() })
			w.at(5*time.Second, func() {
				require.Empty(t, w.condition(contract.ConditionApprovalRequired).Type)
				change(w)
			})
			w.at(6*time.Second, func() {
				if name == "held" {
					w.env.SignalWorkflow(contract.ControlRelease, alice(""))
				}
			})
			w.at(time.Hour, func() {
				require.Nil(t, w.VMI(), "the changed VM is not approved")
				require.NotEmpty(t, w.condition(contract.ConditionApprovalRequired).Type)
				approve()
			})
			w.at(time.Hour+time.Second, func() { require.Equal(t, 2, w.Instance()) })
			w.deleteVM(2 * time.Hour)
			w.run(t)
		})
	}
}
