package vmi_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

// TestEvictedReason: a guest that shuts down because its pod was deleted is evicted.
func TestEvictedReason(t *testing.T) {
	for name, c := range map[string]struct {
		deleted bool   // the pod, and not the instance
		end     string // of the guest
		phase   string
		reason  string
	}{
		"evicted, shut down": {true, contract.ReasonShutdown, "Succeeded", contract.ReasonEvicted},
		"evicted, killed":    {true, contract.ReasonDestroyed, "Failed", contract.ReasonEvicted},
		"powered off":        {false, contract.ReasonShutdown, "Succeeded", ""},
		"crashed":            {false, contract.ReasonCrashed, "Failed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.at(0, func() { w.CreateVMI() })
			w.at(time.Second, w.RunPod)
			w.at(time.Minute, func() {
				require.Equal(t, "Running", w.VMIStatus.Phase)
				if c.deleted {
					w.AskPodToEnd()
				}
			})
			w.at(2*time.Minute, func() { w.EndPod(c.end, true, 0) })
			w.at(3*time.Minute, func() {
				require.Equal(t, c.phase, w.VMIStatus.Phase)
				require.Equal(t, c.reason, w.VMIStatus.Reason)
				w.DeleteVMI()
			})
			w.run(t)
		})
	}
}

// TestStoppedInstanceIsNotEvicted: its pod is deleted because the instance is.
func TestStoppedInstanceIsNotEvicted(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() { w.CreateVMI() })
	w.at(time.Second, w.RunPod)
	w.at(time.Minute, w.DeleteVMI)
	w.at(2*time.Minute, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
	require.Equal(t, "Succeeded", w.VMIStatus.Phase)
	require.Empty(t, w.VMIStatus.Reason)
}
