package vm_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/contract"
)

// TestShowsRefusedInstance: the first attempt shows the API server's refusal (a quota, a webhook, a terminating
// namespace). Further attempts change nothing that users see.
func TestShowsRefusedInstance(t *testing.T) {
	w := newWorld(t)
	refused := true
	w.Fail = func(a string) error {
		if refused && a == contract.ActivityCreateVMI {
			return temporal.NewNonRetryableApplicationError("exceeded quota", contract.ErrorForbidden, nil)
		}
		return nil
	}
	writes := 0
	w.at(0, func() { w.CreateVM("Always") })
	w.at(time.Second/2, func() {
		w.status(t, "Stopped")
		failure := w.condition("Failure")
		require.Equal(t, "FailedCreate: exceeded quota", failure.Reason+": "+failure.Message)
		writes = w.Count(contract.ActivityPatchVM)
	})
	w.at(3*time.Minute, func() {
		require.Len(t, w.transitions, 8, "after 1 s, doubled each time")
		require.Equal(t, writes, w.Count(contract.ActivityPatchVM), "the same failure is written once")
		w.status(t, "Stopped")
		refused = false
	})
	w.at(6*time.Minute, func() {
		require.Equal(t, 1, w.Instance())
		w.status(t, "Starting")
		w.SetPhase("Running")
	})
	w.at(7*time.Minute, func() { require.Empty(t, w.condition("Failure").Type) })
	w.deleteVM(time.Hour)
	w.run(t)
}
