package libvirtd

import (
	"errors"
	"fmt"
	"time"

	"libvirt.org/go/libvirt"

	"github.com/virtflow/virtflow/launcher/guest"
)

// AgentCommand sends one command to the guest's agent and returns its answer, both as JSON. Commands of one guest
// follow each other, and block no other calls: libvirt has a separate queue for the agent. The timeout is cut to whole
// seconds, with a minimum of one. The error wraps guest.ErrSilent when the agent did not answer, or disconnected before
// it did.
func (l *Libvirt) AgentCommand(command string, timeout time.Duration) (string, error) {
	d, err := l.handle()
	if err != nil {
		return "", err
	}
	defer d.Free() //nolint:errcheck // a handle
	seconds := libvirt.DomainQemuAgentCommandTimeout(max(1, timeout/time.Second))
	answer, err := d.QemuAgentCommand(command, seconds, 0)
	if err != nil {
		return "", agentFailure(err)
	}
	return answer, nil
}

// agentFailure classifies libvirt's errors about the agent. Newer versions of libvirt have a separate code for a
// command that the agent did not answer in time, after it had just answered another; both count as silence here.
func agentFailure(err error) error {
	if errors.Is(err, libvirt.ERR_AGENT_UNRESPONSIVE) || errors.Is(err, libvirt.ERR_AGENT_COMMAND_TIMEOUT) {
		return fmt.Errorf("%w: %w", guest.ErrSilent, err)
	}
	return fmt.Errorf("the guest's agent: %w", err)
}
