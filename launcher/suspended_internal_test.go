package launcher

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/launcher/domainstate"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// TestProbesOfSuspendedGuestPass: the kubelet kills a guest whose liveness probe fails, also one that was paused.
func TestProbesOfSuspendedGuestPass(t *testing.T) {
	const paused, running = rpc.DomainState_DOMAIN_STATE_PAUSED, rpc.DomainState_DOMAIN_STATE_RUNNING
	for name, c := range map[string]struct {
		state      rpc.DomainState
		reason     rpc.PauseReason
		annotation string
		want       bool
	}{
		"running":               {state: running},
		"paused by a user":      {state: paused, reason: rpc.PauseReason_PAUSE_REASON_USER, want: true},
		"paused by a migration": {state: paused, reason: rpc.PauseReason_PAUSE_REASON_MIGRATION, want: true},
		"paused by an error":    {state: paused, reason: rpc.PauseReason_PAUSE_REASON_IO_ERROR},
		"probes are paused":     {state: running, annotation: "true", want: true},
		"probes are not paused": {state: running, annotation: "false"},
		"not a truth value":     {state: running, annotation: "please"},
	} {
		t.Run(name, func(t *testing.T) {
			l := &Launcher{vmi: &v1.VirtualMachineInstance{}, domain: domainstate.New()}
			if c.annotation != "" {
				l.vmi.Annotations = map[string]string{v1.PauseGuestAgentProbesAnnotation: c.annotation}
			}
			l.domain.Update(func(d *rpc.Domain) { d.State, d.PauseReason = c.state, c.reason })
			require.Equal(t, c.want, l.isSuspended())
		})
	}
}
