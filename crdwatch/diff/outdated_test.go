package diff

import (
	"testing"

	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// outdatedSent returns what waits for the workload update; -1: nothing does.
func outdatedSent(t *testing.T, d *Differ) (n int, starts bool) {
	t.Helper()
	n = -1
	for _, x := range outbox(d).pending[contract.WorkloadUpdateID] {
		o, ok := x.Payload.(contract.OutdatedObservation)
		require.True(t, ok)
		require.Equal(t, contract.SignalObserveOutdated, x.Signal)
		require.Equal(t, "launcher:new", o.Image)
		n, starts = o.Outdated, x.Start != nil
	}
	delete(outbox(d).pending, contract.WorkloadUpdateID)
	return n, starts
}

// TestSendsNumberOfOutdatedLaunchers: the number is sent, and starts the workload update, if there are outdated
// launchers. Otherwise nothing is sent.
func TestSendsNumberOfOutdatedLaunchers(t *testing.T) {
	d := newTestDiffer(t)
	instances := map[string]*kubevirt.VirtualMachineInstance{}
	set := func(name, image string, phase kubevirt.VirtualMachineInstancePhase) {
		vmi := &kubevirt.VirtualMachineInstance{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name)},
			Status:     kubevirt.VirtualMachineInstanceStatus{Phase: phase, LauncherContainerImageVersion: image},
		}
		instances[name] = vmi
		require.NoError(t, d.informers.VMIs.GetStore().Update(vmi))
		d.entities.vmi.sendChanged("a/"+name, change)
	}
	requireSent := func(want int, started bool, why string) {
		t.Helper()
		n, starts := outdatedSent(t, d)
		require.Equal(t, want, n, why)
		require.Equal(t, started, starts, why)
	}
	set("x", "launcher:new", kubevirt.Running)
	set("y", "", kubevirt.Pending)
	set("z", "launcher:old", kubevirt.Succeeded)
	requireSent(-1, false, "none is")
	set("a", "launcher:old", kubevirt.Running)
	requireSent(1, true, "one is")
	set("a", "launcher:old", kubevirt.Running)
	requireSent(-1, false, "nothing has changed")
	set("b", "launcher:older", kubevirt.Running)
	requireSent(2, true, "two are")
	set("b", "launcher:new", kubevirt.Running)
	requireSent(1, true, "one was moved")
	require.NoError(t, d.informers.VMIs.GetStore().Delete(instances["a"]))
	d.entities.vmi.sendGone(instances["a"], change)
	requireSent(0, false, "none is left")

	// It is found missing, and started again.
	set("c", "launcher:old", kubevirt.Running)
	requireSent(1, true, "another one is")
	v := &visible{running: map[string]string{contract.WorkloadUpdateID: contract.WorkflowWorkloadUpdate,
		"vmi/a/x": contract.WorkflowVMI, "vmi/a/y": contract.WorkflowVMI, "vmi/a/z": contract.WorkflowVMI,
		"vmi/a/b": contract.WorkflowVMI, "vmi/a/c": contract.WorkflowVMI}}
	l := newTestResyncer(d, Clients{Temporal: v})
	d = l.differ
	_, err := l.TakeCensus(t.Context())
	require.NoError(t, err)
	requireSent(-1, false, "it runs")
	delete(v.running, contract.WorkloadUpdateID)
	for range 2 {
		_, err = l.TakeCensus(t.Context())
		require.NoError(t, err)
	}
	requireSent(1, true, "it is lost")

	v.executions = []*workflowpb.WorkflowExecutionInfo{running(t, contract.WorkloadUpdateID, nil)}
	_, err = l.Resync(t.Context(), false)
	require.NoError(t, err)
	requireSent(-1, false, "it runs again")

	// Another leader also sends it that none is outdated: it may continue from a restored database.
	set("a", "launcher:new", kubevirt.Running)
	set("c", "launcher:new", kubevirt.Running)
	requireSent(0, false, "none is left")
	l = newTestResyncer(d, Clients{Temporal: v})
	require.NoError(t, l.SendAll(t.Context()))
	requireSent(0, false, "a new leader says so again")

	d.informers.Image = ""
	require.Zero(t, d.informers.CountOutdated(), "the image of new launchers is unknown")
}
