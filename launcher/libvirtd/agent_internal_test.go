package libvirtd

import (
	"testing"

	"github.com/stretchr/testify/require"
	"libvirt.org/go/libvirt"

	"github.com/virtflow/virtflow/launcher/guest"
)

// TestLateAgentIsSilent: the guest may still carry out the command.
func TestLateAgentIsSilent(t *testing.T) {
	for code, silent := range map[libvirt.ErrorNumber]bool{
		libvirt.ERR_AGENT_UNRESPONSIVE:    true,
		libvirt.ERR_AGENT_COMMAND_TIMEOUT: true,
		libvirt.ERR_AGENT_COMMAND_FAILED:  false,
		libvirt.ERR_OPERATION_INVALID:     false,
	} {
		err := agentFailure(libvirt.Error{Code: code, Message: "it did not answer"})
		require.ErrorIs(t, err, code)
		if silent {
			require.ErrorIs(t, err, guest.ErrSilent)
		} else {
			require.NotErrorIs(t, err, guest.ErrSilent)
		}
	}
}
