package libvirtd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/launcher/guest"
)

// RefusedError is libvirt's or QEMU's refusal to start the domain. Another attempt does not help.
type RefusedError struct{ Err error }

// Error implements error.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns libvirt's error.
func (e *RefusedError) Unwrap() error { return e.Err }

// errNotConnected is returned for reads of the domain while the daemon is away.
var errNotConnected = fmt.Errorf("not connected: %w", guest.ErrUnavailable)

// killWait is the time that a killed QEMU has to disappear; a process inside a system call cannot be hurried.
const killWait = 10 * time.Second

// Start defines the domain and starts it, unless it runs or has run: then it leaves it unchanged. It returns the
// machine type that libvirt chose, where it is known. Errors are guest.ErrUnavailable or a *RefusedError.
func (l *Libvirt) Start(xml string, paused bool) (machine string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.nudge()
	if l.started {
		return "", nil
	}
	if l.conn == nil {
		return "", guest.ErrUnavailable
	}
	if found, err := l.lookup(); err != nil {
		return "", err
	} else if found != nil {
		state, reason, err := found.GetState()
		_ = found.Free()
		if err != nil {
			return "", l.failure("reading the domain's state", err)
		}
		// An earlier attempt succeeded, and then lost the connection.
		if s := stateOf(state, reason, false); s.Live() || s.Ended() {
			l.started = true
			return "", nil
		}
	}
	d, err := l.conn.DomainDefineXML(xml)
	if err != nil {
		return "", l.failure("defining the domain", err)
	}
	defer d.Free() //nolint:errcheck // a handle
	flags := libvirt.DOMAIN_NONE
	if paused {
		flags = libvirt.DOMAIN_START_PAUSED
	}
	if err := d.CreateWithFlags(flags); err != nil {
		for _, line := range l.cfg.lastLines(10) {
			l.log.Warn().Str("from", "qemu").Msg(line)
		}
		return "", l.failure("starting the domain", err)
	}
	l.started = true
	var status guest.Status
	l.describe(d, &status)
	return status.MachineType, nil
}

// Shutdown presses the guest's power button. The guest may ignore it. A paused guest could not react, so it is resumed
// first.
func (l *Libvirt) Shutdown(context.Context) error {
	d, err := l.handle()
	if err != nil {
		return err
	}
	defer d.Free() //nolint:errcheck // a handle
	if state, reason, err := d.GetState(); err == nil && stateOf(state, reason, true) == guest.Paused {
		if err := resume(d, guest.Paused); err != nil {
			l.log.Warn().Err(err).Msg("failed to resume paused guest before its shutdown")
		}
	}
	if err := d.ShutdownFlags(libvirt.DOMAIN_SHUTDOWN_ACPI_POWER_BTN); err != nil {
		l.nudge()
		return fmt.Errorf("pressing the guest's power button: %w", err)
	}
	return nil
}

// Destroy ends QEMU through libvirt, or kills the process if libvirt does not answer before ctx ends. It returns nil
// when the domain's end is about to be reported.
func (l *Libvirt) Destroy(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- l.destroy() }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = guest.ErrUnavailable
	}
	l.nudge()
	if err == nil {
		return nil
	}
	l.log.Warn().Err(err).Msg("killing QEMU because libvirt failed to destroy the domain")
	return l.kill()
}

func (l *Libvirt) destroy() error {
	d, err := l.handle()
	if err != nil {
		return err
	}
	defer d.Free() //nolint:errcheck // a handle
	if err := d.DestroyFlags(libvirt.DOMAIN_DESTROY_GRACEFUL); err == nil {
		return nil
	}
	if err := d.Destroy(); err != nil {
		return fmt.Errorf("destroying the domain: %w", err)
	}
	return nil
}

// pid returns QEMU's process, which may have ended.
func (l *Libvirt) pid() (int, error) {
	content, err := os.ReadFile(l.cfg.pidFile())
	if err != nil {
		return 0, fmt.Errorf("finding QEMU's process: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", l.cfg.pidFile(), err)
	}
	return pid, nil
}

func (l *Libvirt) kill() error {
	pid, err := l.pid()
	if err != nil {
		return err
	}
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	if program, err := os.Readlink(proc + "/exe"); err == nil &&
		filepath.Base(program) == filepath.Base(l.cfg.Emulator) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("killing QEMU: %w", err)
		}
	}
	for end := time.Now().Add(killWait); time.Now().Before(end); time.Sleep(connectPoll) {
		if _, err := os.Stat(proc); os.IsNotExist(err) {
			// libvirt may never report it.
			l.publish(guest.Status{State: guest.Killed})
			return nil
		}
	}
	return fmt.Errorf("QEMU (process %d) did not end after SIGKILL", pid)
}

// refresh reads the domain's state and publishes it if it is new.
func (l *Libvirt) refresh() {
	status, err := l.Look()
	switch {
	case err == nil:
		l.publish(status)
	case !errors.Is(err, errNotConnected):
		l.log.Warn().Err(err).Msg("failed to read domain state")
	}
}

// Look reads the domain's state.
func (l *Libvirt) Look() (guest.Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return guest.Status{}, errNotConnected
	}
	status := guest.Status{State: guest.Absent}
	if l.started {
		status.State = guest.Gone
	}
	d, err := l.lookup()
	if err != nil || d == nil {
		return status, err
	}
	defer d.Free() //nolint:errcheck // a handle
	state, reason, err := d.GetState()
	if err != nil {
		return status, l.failure("reading the domain's state", err)
	}
	status.State = stateOf(state, reason, l.started)
	if status.State == guest.Paused {
		status.PauseReason = pauseReason(state, reason)
	}
	if status.PauseReason == guest.ByIOError {
		if disks, err := d.GetDiskErrors(0); err == nil && fullDisk(disks) {
			status.PauseReason = guest.ByNoSpace
		}
	}
	if status.State.Live() {
		l.started = true // also one that was migrated here
		l.describe(d, &status)
	}
	return status, nil
}

// describe adds the facts that only the running domain's XML has.
func (l *Libvirt) describe(d *libvirt.Domain, status *guest.Status) {
	text, err := d.GetXMLDesc(0)
	if err != nil {
		return
	}
	var x libvirtxml.Domain
	if err := x.Unmarshal(text); err != nil {
		l.log.Warn().Err(err).Msg("failed to read domain XML")
		return
	}
	if x.OS != nil && x.OS.Type != nil {
		status.MachineType = x.OS.Type.Machine
	}
	if x.Devices == nil {
		return
	}
	for _, c := range x.Devices.Channels {
		if c.Target != nil && c.Target.VirtIO != nil && c.Target.VirtIO.Name == "org.qemu.guest_agent.0" {
			status.AgentConnected = c.Target.VirtIO.State == "connected"
		}
	}
}

func (l *Libvirt) publish(status guest.Status) {
	l.pub.Lock()
	defer l.pub.Unlock()
	if l.last.State.Ended() || status == l.last {
		return
	}
	if status.State.Ended() && status.State != guest.Off {
		for _, line := range l.cfg.lastLines(10) {
			l.log.Info().Str("from", "qemu").Msg(line)
		}
	}
	l.last = status
	select {
	case <-l.changes: // replaced before it was received
	default:
	}
	l.changes <- status
}

// handle returns a handle of the domain, which the caller frees. It fails if there is no domain.
func (l *Libvirt) handle() (*libvirt.Domain, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return nil, guest.ErrUnavailable
	}
	d, err := l.lookup()
	if err == nil && d == nil {
		err = errors.New("libvirt has no such domain")
	}
	return d, err
}

// lookup returns nil without an error when there is no such domain.
func (l *Libvirt) lookup() (*libvirt.Domain, error) {
	d, err := l.conn.LookupDomainByName(l.cfg.Domain)
	var e libvirt.Error
	if errors.As(err, &e) && e.Code == libvirt.ERR_NO_DOMAIN {
		return nil, nil
	}
	if err != nil {
		return nil, l.failure("looking up the domain", err)
	}
	return d, nil
}

// failure classifies libvirt's errors: a lost connection is temporary, everything else a refusal.
func (l *Libvirt) failure(doing string, err error) error {
	if alive, aliveErr := l.conn.IsAlive(); aliveErr != nil || !alive {
		return fmt.Errorf("%s: %w: %w", doing, guest.ErrUnavailable, err)
	}
	var e libvirt.Error
	if errors.As(err, &e) && (e.Domain == libvirt.FROM_RPC || e.Code == libvirt.ERR_OPERATION_TIMEOUT) {
		return fmt.Errorf("%s: %w: %w", doing, guest.ErrUnavailable, err)
	}
	return &RefusedError{fmt.Errorf("%s: %w", doing, err)}
}
