package agent

import (
	"errors"
	"time"

	"github.com/virtflow/virtflow/launcher/guest"
)

// rebootTimeout is the time that an agent has to refuse a reboot.
const rebootTimeout = 2 * time.Second

// Reboot has the guest reboot, and returns once the command is sent. An agent that reboots its guest does not answer,
// and one that cannot returns an error. So Reboot first pings the agent, and takes silence afterwards for success.
func Reboot(c Channel) error {
	if err := Ping(c, lookTimeout); err != nil {
		return err
	}
	err := call(c, "guest-shutdown", map[string]any{"mode": "reboot"}, rebootTimeout, nil)
	if errors.Is(err, guest.ErrSilent) {
		return nil
	}
	return err
}
