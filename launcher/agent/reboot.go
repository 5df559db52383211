package agent

import (
	"errors"
	"time"

	"github.com/virtflow/virtflow/launcher/guest"
)

// rebootTimeout is how long an agent may take to refuse a reboot.
const rebootTimeout = 2 * time.Second

// Reboot has the guest reboot, and returns when it has been told to. An agent that reboots its guest does not answer,
// one that cannot says why: so it is first asked for a sign of life, and its silence afterwards is success.
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
