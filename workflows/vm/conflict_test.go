package vm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// TestReadsObjectAfterConflict: the API server's object may have a lower version than the observed one, for example
// after a restore of etcd.
func TestReadsObjectAfterConflict(t *testing.T) {
	w := newWorld(t)
	before := 0
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second, func() {
		before = w.Count(contract.ActivityPatchVM)
		w.Kube.SetResourceVersion(7)
		w.Unseen(func() { w.EditVM(func(vm *kubevirt.VirtualMachine) { vm.Labels = map[string]string{"a": "b"} }) })
		w.Kube.SetResourceVersion(1000)
		w.SetPhase("Running")
	})
	w.at(2*time.Second, func() {
		w.status(t, "Running")
		require.LessOrEqual(t, w.Count(contract.ActivityPatchVM)-before, 4)
	})
	w.deleteVM(3 * time.Second)
	w.run(t)
}

// TestBacksOffAfterRepeatedConflict: no write that conflicts with nothing new is repeated at once.
func TestBacksOffAfterRepeatedConflict(t *testing.T) {
	for name, finalizers := range map[string][]string{"status": {contract.FinalizerVM}, "finalizer": {}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before := 0
			w.at(0, func() { w.CreateVM("Halted") })
			w.at(time.Second, func() {
				before = w.Count(contract.ActivityPatchVM)
				w.EditVM(func(vm *kubevirt.VirtualMachine) { vm.Finalizers = finalizers })
				w.Conflicts("virtualmachines", true)
				w.SetStrategy("WaitAsReceiver")
			})
			w.at(time.Hour, func() {
				require.Less(t, w.Count(contract.ActivityPatchVM)-before, 50, "a pause that doubles up to two minutes")
				w.Conflicts("virtualmachines", false)
			})
			w.at(time.Hour+3*time.Minute, func() {
				require.Contains(t, w.VM().Finalizers, contract.FinalizerVM)
				require.Equal(t, "UnsupportedSyncError", w.condition("Failure").Reason)
			})
			w.deleteVM(2 * time.Hour)
			w.run(t)
		})
	}
}
