package vm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
)

// TestWhoDeletesIsNamed, whoever asks again for a deletion that goes on. What is said of another object changes
// nothing.
func TestWhoDeletesIsNamed(t *testing.T) {
	w := newWorld(t)
	report := func(uid, actor string) {
		w.env.SignalWorkflow(contract.SignalReportRequest,
			contract.RequestReport{UID: uid, Operation: contract.OperationDelete, Actor: actor})
	}
	actors := map[string]string{}
	w.env.SetOnChildWorkflowStartedListener(
		func(info *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
			var in contract.TransitionInput
			_ = args.Get(&in)
			actors[strings.SplitN(info.WorkflowExecution.ID, "/", 5)[4]] = in.Actor
		})
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.SetPhase("Running") })
	w.at(2*time.Second, func() {
		report("another", "mallory")
		report(w.VM().UID, "dave")
		report(w.VM().UID, "carol")
		report(w.VM().UID, "dave\n")
	})
	w.at(3*time.Second, w.DeleteVM)
	w.at(4*time.Second, func() {
		w.env.SignalWorkflow(contract.SignalReportRequest, contract.RequestReport{
			UID: w.VM().UID, Operation: contract.OperationDelete, Actor: "again", Again: true,
		})
	})
	w.at(5*time.Second, w.RemoveVMI)
	w.run(t)
	require.Equal(t, "dave", actors["stop/2"])
	require.NotEqual(t, "dave", actors["start/1"])
	answer, err := w.env.QueryWorkflow(contract.QueryHistory)
	require.NoError(t, err)
	var records []contract.OperationRecord
	require.NoError(t, answer.Get(&records))
	var asked []string
	for _, r := range records {
		if r.Operation == contract.OperationDelete {
			require.False(t, r.Claimed)
			asked = append(asked, r.Actor)
		}
	}
	require.Equal(t, []string{"carol", "dave"}, asked)
}

// TestALateReportNamesWhoDeletes: nobody waits for reports. An earlier one was about a deletion that was refused.
func TestALateReportNamesWhoDeletes(t *testing.T) {
	w := newWorld(t)
	report := func(actor string) {
		w.env.SignalWorkflow(contract.SignalReportRequest,
			contract.RequestReport{UID: w.VM().UID, Operation: contract.OperationDelete, Actor: actor})
	}
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.SetPhase("Running") })
	w.at(2*time.Second, func() { report("refused") })
	w.at(3*time.Second, w.DeleteVM)
	w.at(4*time.Second, func() { report("carol") })
	w.at(5*time.Second, w.RemoveVMI)
	w.run(t)
	answer, err := w.env.QueryWorkflow(contract.QueryHistory)
	require.NoError(t, err)
	var records []contract.OperationRecord
	require.NoError(t, answer.Get(&records))
	var asked []string
	for _, r := range records {
		if r.Operation == contract.OperationDelete {
			asked = append(asked, r.Actor)
		}
	}
	require.Equal(t, []string{"refused", "carol"}, asked)
}
