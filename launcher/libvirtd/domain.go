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

// RefusedError is libvirt's or QEMU's refusal to start the domain. Trying again does not help.
type RefusedError struct{ Err error }

// Error implements error.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns libvirt's error.
func (e *RefusedError) Unwrap() error { return e.Err }

// errNotConnected is what a look at the domain says while the daemon is away.
var errNotConnected = fmt.Errorf("not connected: %w", guest.ErrUnavailable)

// killWait is how long a killed QEMU may take to disappear; a process in the kernel's hands cannot be hurried.
const killWait = 10 * time.Second

// Start defines the domain and starts it, unless it runs or has run: then it leaves it as it is. It returns the machine
// type that libvirt chose, where it is known. Errors are guest.ErrUnavailable or a *RefusedError.
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
		// An earlier attempt lost the connection after it had succeeded.
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

// Shutdown presses the guest's power button. Whether it reacts is the guest's business. A paused guest could not: it is
// resumed first.
func (l *Libvirt) Shutdown(context.Context) error {
	d, err := l.handle()
	if err != nil {
		return err
	}
	defer d.Free() //nolint:errcheck // a handle
	if state, reason, err := d.GetState(); err == nil && stateOf(state, reason, true) == guest.Paused {
		if err := resume(d, guest.Paused); err != nil {
			l.log.Warn().Err(err).Msg("the paused guest does not go on; it cannot react to its power button")
		}
	}
	if err := d.ShutdownFlags(libvirt.DOMAIN_SHUTDOWN_ACPI_POWER_BTN); err != nil {
		l.nudge()
		return fmt.Errorf("pressing the guest's power button: %w", err)
	}
	return nil
}

// Destroy ends QEMU: gently through libvirt, or, when that does not answer before ctx ends, by killing the process. It
// returns nil when the domain is about to be reported as ended.
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
	l.log.Warn().Err(err).Msg("libvirt does not end the domain; killing QEMU")
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

// pid is QEMU's process, which may have ended.
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
			// libvirt may never say so.
			l.publish(guest.Status{State: guest.Killed})
			return nil
		}
	}
	return fmt.Errorf("QEMU (process %d) does not go away", pid)
}

// refresh reads the domain's state and publishes it if it is new.
func (l *Libvirt) refresh() {
	status, err := l.Look()
	switch {
	case err == nil:
		l.publish(status)
	case !errors.Is(err, errNotConnected):
		l.log.Warn().Err(err).Msg("the domain's state is not known")
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
		l.started = true // also one that comes from elsewhere
		l.describe(d, &status)
	}
	return status, nil
}

// describe adds what only the running domain's XML has.
func (l *Libvirt) describe(d *libvirt.Domain, status *guest.Status) {
	text, err := d.GetXMLDesc(0)
	if err != nil {
		return
	}
	var x libvirtxml.Domain
	if err := x.Unmarshal(text); err != nil {
		l.log.Warn().Err(err).Msg("the domain's description cannot be read")
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
	case <-l.changes: // replaced before anybody read it
	default:
	}
	l.changes <- status
}

// handle looks the domain up; it is an error when there is none. The caller frees it.
func (l *Libvirt) handle() (*libvirt.Domain, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return nil, guest.ErrUnavailable
	}
	d, err := l.lookup()
	if err == nil && d == nil {
		err = errors.New("libvirt knows no such domain")
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
		return nil, l.failure("looking the domain up", err)
	}
	return d, nil
}

// failure sorts libvirt's errors: a lost connection passes, everything else is its judgement.
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
