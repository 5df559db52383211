package libvirtd

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"libvirt.org/go/libvirt"

	"github.com/virtflow/virtflow/launcher/guest"
)

const mebibyte = 1 << 20

// Migrate moves the domain to another libvirt and returns when that has ended. The outcome is not its error but the
// result of Look: libvirt may report success and have resumed the guest, or lose the answer of a target that has it. So
// the guest is always paused at the target, whose launcher resumes it. The source keeps the domain's definition, which
// records permanently that the guest was migrated.
func (l *Libvirt) Migrate(m guest.Move) error {
	d, err := l.handle()
	if err != nil {
		return err
	}
	defer d.Free() //nolint:errcheck // a handle
	defer l.nudge()
	flags := libvirt.MIGRATE_LIVE | libvirt.MIGRATE_PEER2PEER | libvirt.MIGRATE_PERSIST_DEST | libvirt.MIGRATE_PAUSED |
		libvirt.MIGRATE_ABORT_ON_ERROR
	p := &libvirt.DomainMigrateParameters{URISet: true, URI: "unix://" + m.Memory}
	if len(m.Copy) > 0 {
		flags |= libvirt.MIGRATE_NON_SHARED_INC
		p.DisksURISet, p.DisksURI = true, "unix://"+m.Disks
		p.MigrateDisksSet, p.MigrateDisks = true, m.Copy
	}
	if m.Bandwidth > 0 {
		p.BandwidthSet, p.Bandwidth = true, mebibytes(m.Bandwidth)
	}
	if m.AutoConverge {
		flags |= libvirt.MIGRATE_AUTO_CONVERGE
	}
	if m.Unsafe {
		flags |= libvirt.MIGRATE_UNSAFE
	}
	if m.Parallel > 1 {
		flags |= libvirt.MIGRATE_PARALLEL
		p.ParallelConnectionsSet, p.ParallelConnections = true, m.Parallel
	}
	if err := d.MigrateToURI3("qemu+unix:///session?socket="+m.Libvirt, p, flags); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	return nil
}

// mebibytes rounds up: 0 would be no limit.
func mebibytes(bytes int64) uint64 { return uint64((bytes + mebibyte - 1) / mebibyte) }

// AbortMigration has libvirt abort the move in progress; without one it does nothing.
func (l *Libvirt) AbortMigration() error {
	return l.adjust("aborting the migration", func(d *libvirt.Domain) error { return d.AbortJob() })
}

// SetMigrationBandwidth sets the bandwidth in bytes per second.
func (l *Libvirt) SetMigrationBandwidth(bytes int64) error {
	return l.adjust("setting the migration's bandwidth", func(d *libvirt.Domain) error {
		return d.MigrateSetMaxSpeed(mebibytes(bytes), 0)
	})
}

// SetMigrationDowntime sets how long the guest may stand still at the end.
func (l *Libvirt) SetMigrationDowntime(limit time.Duration) error {
	return l.adjust("setting the migration's downtime", func(d *libvirt.Domain) error {
		return d.MigrateSetMaxDowntime(uint64(limit.Milliseconds()), 0)
	})
}

func (l *Libvirt) adjust(doing string, do func(*libvirt.Domain) error) error {
	d, err := l.handle()
	if err != nil {
		return err
	}
	defer d.Free() //nolint:errcheck // a handle
	var e libvirt.Error
	if err := do(d); err != nil && (!errors.As(err, &e) || e.Code != libvirt.ERR_OPERATION_INVALID) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// Copying returns the progress of the move; false if none is in progress, or if it does not copy yet.
func (l *Libvirt) Copying() (guest.Copying, bool, error) {
	d, err := l.handle()
	if err != nil {
		return guest.Copying{}, false, err
	}
	defer d.Free() //nolint:errcheck // a handle
	j, err := d.GetJobStats(0)
	if err != nil {
		return guest.Copying{}, false, fmt.Errorf("reading the progress of the migration: %w", err)
	}
	if j.Type == libvirt.DOMAIN_JOB_NONE || !j.DataTotalSet {
		return guest.Copying{}, false, nil
	}
	size := func(n uint64) int64 { return int64(n) } // of a machine's memory and disks
	return guest.Copying{
		Total: size(j.DataTotal), Processed: size(j.DataProcessed), Remaining: size(j.DataRemaining),
		DirtyRate: size(j.MemDirtyRate * j.MemPageSize), Rate: size(j.MemBps),
		Iteration: int(j.MemIteration), DowntimeMs: size(j.Downtime),
	}, true, nil
}

// StoppedAt returns when the guest last stopped in order to leave, in milliseconds since 1970; 0 if it never did.
func (l *Libvirt) StoppedAt() int64 { return l.stopped.Load() }

// Phase returns the phase of the move from libvirtd's status file, which can be read even while libvirtd is away.
func (l *Libvirt) Phase() string {
	b, err := os.ReadFile(l.cfg.statusFile())
	if err != nil {
		return guest.PhaseUnknown
	}
	return phaseOf(b)
}

func phaseOf(status []byte) string {
	var s struct {
		XMLName xml.Name `xml:"domstatus"`
		Job     struct {
			Async string `xml:"async,attr"`
			Phase string `xml:"phase,attr"`
		} `xml:"job"`
	}
	switch err := xml.Unmarshal(status, &s); {
	case err != nil:
		return guest.PhaseUnknown
	case s.Job.Async != "migration out" && s.Job.Async != "migration in":
		return ""
	case s.Job.Phase == "":
		return guest.PhaseUnknown
	}
	return s.Job.Phase
}

// lookAgain is the time after which a watch for QEMU's end checks whether it is still needed.
const lookAgain = time.Second

// Ended returns a channel that is closed when the domain's QEMU, which runs now, is dead: it has then written its last
// byte to its disks. The watch ends with ctx.
func (l *Libvirt) Ended(ctx context.Context) (<-chan struct{}, error) {
	pid, err := l.pid()
	if err != nil {
		return nil, err
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("watching QEMU's process: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer unix.Close(fd)
		for ctx.Err() == nil {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}},
				int(lookAgain.Milliseconds()))
			if n > 0 {
				close(ended)
				return
			}
			if err != nil && !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	return ended, nil
}
