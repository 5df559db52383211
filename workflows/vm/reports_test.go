package vm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// TestReportNamesDeletingUser: the last one counts. A report about another object changes nothing.
func TestReportNamesDeletingUser(t *testing.T) {
	w := newWorld(t)
	report := func(uid, actor string) {
		w.env.SignalWorkflow(contract.SignalReportRequest,
			contract.RequestReport{UID: uid, Operation: contract.OperationDelete, Actor: actor})
	}
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() { w.SetPhase("Running") })
	w.at(2*time.Second, func() {
		report("another", "mallory")
		report(w.VM().UID, "dave")
		report(w.VM().UID, "carol")
		report(w.VM().UID, "dave\n")
	})
	w.at(3*time.Second, w.DeleteVM)
	w.at(5*time.Second, w.RemoveVMI)
	w.run(t)
	answer, err := w.env.QueryWorkflow(contract.QueryHistory)
	require.NoError(t, err)
	var records []contract.OperationRecord
	require.NoError(t, answer.Get(&records))
	var asked []string
	stopped := false
	for _, r := range records {
		switch r.Operation {
		case contract.OperationDelete:
			require.False(t, r.Claimed)
			asked = append(asked, r.Actor)
		case contract.OperationStop:
			require.Equal(t, "dave", r.Actor)
			require.Equal(t, "the VirtualMachine is being deleted", r.Why)
			require.Equal(t, entity.OutcomeDone, r.Outcome)
			require.Equal(t, 2*time.Second, r.Until.Sub(r.Since).Round(time.Second))
			stopped = true
		default:
			require.NotEqual(t, "dave", r.Actor)
		}
	}
	require.Equal(t, []string{"carol", "dave"}, asked)
	require.True(t, stopped)
}

// A deletion without a report is attributed to the last requester. A much older report was about a refused deletion.
func TestDeletionWithoutReport(t *testing.T) {
	for name, c := range map[string]struct {
		at   time.Duration // of the report, from the VM's creation; 0: there is none
		late time.Duration // after the request
		want string
	}{
		"never":       {0, 0, "alice"},
		"long before": {13 * time.Minute, 0, "alice"},
		"just before": {15*time.Minute - 30*time.Second, 0, "mallory"},
		"long before, though it comes just before": {15*time.Minute - 30*time.Second, 5 * time.Minute, "alice"},
		"just before, though it comes after":       {15*time.Minute + time.Second/2, 20 * time.Second, "mallory"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.at(0, func() {
				w.CreateVM("Always", func(vm *kubevirt.VirtualMachine) {
					metav1.SetMetaDataAnnotation(&vm.ObjectMeta, contract.AnnotationRequestedBy, "alice")
				})
			})
			w.at(time.Second, func() { w.SetPhase("Running") })
			if c.at > 0 {
				w.at(c.at, func() {
					w.env.SignalWorkflow(contract.SignalReportRequest, contract.RequestReport{UID: w.VM().UID,
						Operation: contract.OperationDelete, Actor: "mallory", Asked: w.env.Now().Add(-c.late)})
				})
			}
			w.deleteVM(15 * time.Minute)
			w.run(t)
			var by []string
			for _, r := range w.history(t) {
				if r.Operation == contract.OperationStop {
					by = append(by, r.Actor)
				}
			}
			require.Equal(t, []string{c.want}, by)
		})
	}
}

// TestLateReportNamesDeletingUser: the entity does not wait for reports. An earlier one was about a refused deletion.
func TestLateReportNamesDeletingUser(t *testing.T) {
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
	var asked, stopped []string
	for _, r := range records {
		switch r.Operation {
		case contract.OperationDelete:
			asked = append(asked, r.Actor)
		case contract.OperationStop:
			stopped = append(stopped, r.Actor)
		default:
		}
	}
	require.Equal(t, []string{"refused", "carol"}, asked)
	require.Equal(t, []string{"carol"}, stopped)
}
