package vmi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
)

// The Paused condition has KubeVirt's words.
func TestPausedCondition(t *testing.T) {
	for why, want := range map[string][2]string{
		"":                       {"PausedByUser", "VMI was paused by user"},
		contract.PausedIOError:   {"PausedIOError", "VMI was paused, low-level IO error detected"},
		contract.PausedNoSpace:   {"PausedIOError", "no space left"},
		contract.PausedMigration: {"PausedByMigrationMonitor", "migration monitor"},
		contract.PausedOther:     {"PausedByHypervisor", "its hypervisor"},
	} {
		s := State{
			Phase: PhaseRunning, VMIObject: VMIObject{VMI: &contract.VMIObservation{UID: "u"}},
			Launchers: Launchers{Launcher: Launcher{
				Pod:    &contract.PodObservation{UID: "p"},
				Domain: &contract.DomainObservation{PodUID: "p", State: contract.DomainPaused, Reason: why},
			}},
		}
		s.refresh(time.Unix(1, 0))
		c, ok := conditions.Get(s.Conditions, "Paused")
		require.True(t, ok)
		require.Equal(t, want[0], c.Reason)
		require.Contains(t, c.Message, want[1])
	}
}
