package launcher

import (
	"context"
	"io"
	"time"

	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// Hypervisor has the calls to libvirt that the launcher makes. Package libvirtd implements it.
type Hypervisor interface {
	// Run keeps libvirt running until ctx ends. It returns an error if libvirt cannot be set up.
	Run(ctx context.Context) error
	// Ready is closed once libvirt can be used.
	Ready() <-chan struct{}
	// Changes delivers the newest status of the domain.
	Changes() <-chan guest.Status
	// Reboots receives a value when the guest has been reset, by itself or from outside, at least once since the last
	// receive.
	Reboots() <-chan struct{}
	// Start defines and starts the domain. It succeeds if the domain is already started.
	Start(xml string, paused bool) (machine string, err error)
	// Shutdown presses the power button.
	Shutdown(ctx context.Context) error
	// Destroy ends the domain by force.
	Destroy(ctx context.Context) error
	// Suspend halts the virtual CPUs, and Resume continues them. Either succeeds if the domain is already in that
	// state.
	Suspend() error
	Resume() error
	// Reset presses the reset button.
	Reset() error
	// Reboot asks the guest to reboot, by ACPI.
	Reboot() error
	// Resize notifies QEMU of the new size of the disk on that file or device. The size is never smaller than before.
	Resize(path string, bytes int64) error
	// AgentCommand sends one command to the guest's agent and returns its answer, both as JSON. The error wraps
	// guest.ErrSilent when the agent did not answer.
	AgentCommand(command string, timeout time.Duration) (string, error)
	// Statistics returns what libvirt and QEMU count of the domain. Drives and interfaces have libvirt's names. It
	// hangs where QEMU does.
	Statistics() (*rpc.StatisticsResponse, error)
	// MeasureDirtyRate begins to measure how fast the guest changes its memory: Statistics has the result a second
	// later. It must not be called while the guest is moved.
	MeasureDirtyRate() error
	// Screenshot writes a picture of the guest's screen as PNG.
	Screenshot(ctx context.Context, to io.Writer) error
	// Migrate and the following move the guest: see package migration.
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
