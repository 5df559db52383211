package libvirtd

import (
	"errors"
	"fmt"
	"time"

	"libvirt.org/go/libvirt"

	"github.com/virtflow/virtflow/launcher/guest"
)

// AgentCommand sends one command to the guest's agent and returns its answer, both as JSON. Commands of one guest
// follow each other, and hold up nothing else: libvirt keeps a queue of its own for the agent. The timeout is cut to
// whole seconds, of which it has at least one. The error wraps guest.ErrSilent when the agent did not answer, or went
// away before it did.
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

// agentFailure sorts libvirt's errors about the agent. Newer versions of libvirt have a code of their own for a command
// that was not answered in time by an agent that had just answered; to us that is the same silence.
func agentFailure(err error) error {
	if errors.Is(err, libvirt.ERR_AGENT_UNRESPONSIVE) || errors.Is(err, libvirt.ERR_AGENT_COMMAND_TIMEOUT) {
		return fmt.Errorf("%w: %w", guest.ErrSilent, err)
	}
	return fmt.Errorf("the guest's agent: %w", err)
}
