package vmi_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/cluster"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// TestDeletionShowsGuestsEnd: between the deletion and the patch that removes the finalizers, nothing is written but
// how the guest ended: at once if its node worker reports it, or else when its pod has ended.
func TestDeletionShowsGuestsEnd(t *testing.T) {
	const remove, release, write = contract.ActivityDeletePod, contract.ActivityRemovePodFinalizer,
		contract.ActivityPatchVMI
	reports := func(w *world) { w.DomainChanges(contract.DomainShutoff, contract.ReasonShutdown) }
	for name, c := range map[string]struct {
		boots    bool
		reported func(*world) // the guest's end, before its pod ends
		reason   string
		last     kubevirt.VirtualMachineInstancePhase // that the instance shows before it is gone
		want     []string
	}{
		"guest shuts down": {true, reports, contract.ReasonShutdown, kubevirt.Succeeded,
			[]string{remove, write, release, write}},
		"only its pod ends": {true, nil, contract.ReasonShutdown, kubevirt.Succeeded,
			[]string{remove, release, write, write}},
		"guest is killed": {true, nil, contract.ReasonDestroyed, kubevirt.Failed,
			[]string{remove, release, write, write}},
		"guest never ran": {false, nil, contract.ReasonNeverRan, kubevirt.Scheduling,
			[]string{remove, release, write}},
		"end cannot be written": {true, func(w *world) {
			w.Fail = func(a string) error {
				if a == write && w.Pod() != nil {
					return temporal.NewNonRetryableApplicationError("refused", "", errors.New("refused"))
				}
				return nil
			}
			reports(w)
		}, contract.ReasonShutdown, kubevirt.Running, []string{remove, release, write}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			shown := kubevirt.VmPhaseUnset
			w.Kube.Intercept(func(kube.Request) *kube.Fault {
				vmi := kube.Get[kubevirt.VirtualMachineInstance](w.Kube, cluster.Namespace, cluster.Name)
				if vmi != nil {
					shown = vmi.Status.Phase
				}
				return nil
			})
			if c.boots {
				w.boot()
			} else {
				w.at(0, func() { w.CreateVMI() })
			}
			calls := 0
			w.at(10*time.Second, func() {
				calls = len(w.Calls)
				w.DeleteVMI()
			})
			w.at(12*time.Second, func() {
				if c.boots {
					w.DomainChanges(contract.DomainShutdown, "")
				}
			})
			w.at(14*time.Second, func() {
				if c.reported != nil {
					c.reported(w)
				}
			})
			w.at(14*time.Second+500*time.Millisecond, func() {
				if c.reported != nil {
					require.Equal(t, c.last, w.vmi().Status.Phase)
					require.NotNil(t, w.Pod(), "its pod is still there")
				}
			})
			w.at(15*time.Second, func() { w.EndPod(c.reason, c.boots, 0) })
			w.run(t)
			own := slices.DeleteFunc(slices.Clone(w.Calls[calls:]), func(call string) bool {
				return !slices.Contains([]string{remove, release, write, contract.ActivityFindPod}, call)
			})
			require.Equal(t, c.want, own)
			require.Equal(t, c.last, shown)
		})
	}
}
