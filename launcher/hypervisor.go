package launcher

import (
	"context"
	"io"
	"time"

	"github.com/virtflow/virtflow/launcher/guest"
)

// Hypervisor is what the launcher needs of libvirt. Package libvirtd is the real one.
type Hypervisor interface {
	// Run keeps it going until ctx ends; an error says that it cannot be set up at all.
	Run(ctx context.Context) error
	// Ready is closed once it can be used.
	Ready() <-chan struct{}
	// Changes delivers the newest status of the domain.
	Changes() <-chan guest.Status
	// Reboots tells that the guest has been reset, by itself or from outside, at least once since it was last read.
	Reboots() <-chan struct{}
	// Start defines and starts the domain, or finds it started.
	Start(xml string, paused bool) (machine string, err error)
	// Shutdown presses the power button.
	Shutdown(ctx context.Context) error
	// Destroy ends the domain by force.
	Destroy(ctx context.Context) error
	// Suspend halts the virtual CPUs, and Resume lets them go on; either succeeds when that is so already.
	Suspend() error
	Resume() error
	// Reset presses the reset button.
	Reset() error
	// Reboot asks the guest to reboot, by ACPI.
	Reboot() error
	// Resize says that the disk on that file, or device, has so many bytes by now, no fewer than before.
	Resize(path string, bytes int64) error
	// AgentCommand sends one command to the guest's agent and returns its answer, both as JSON. An error wraps
	// guest.ErrSilent when none came.
	AgentCommand(command string, timeout time.Duration) (string, error)
	// Screenshot writes a picture of the guest's screen as PNG.
	Screenshot(ctx context.Context, to io.Writer) error
	// Migrate and the rest move the guest: see package migration.
	Migrate(move guest.Move) error
	AbortMigration() error
	SetMigrationBandwidth(bytes int64) error
	SetMigrationDowntime(limit time.Duration) error
	Copying() (guest.Copying, bool, error)
	Phase() string
	StoppedAt() int64
	Ended(ctx context.Context) (<-chan struct{}, error)
	Look() (guest.Status, error)
}
