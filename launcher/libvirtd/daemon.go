package libvirtd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/util/wait"
	"libvirt.org/go/libvirt"

	"github.com/virtflow/virtflow/launcher/guest"
)

const (
	connectPoll = 10 * time.Millisecond
	// connectLimit is the time that a daemon has to answer before it is ended and started again.
	connectLimit = 60 * time.Second
	// A daemon that has sent nothing for a minute, which is one interval more than keepAliveCount, is ended, too. This
	// tests its event loop, not its worker threads.
	keepAliveInterval = 10 // seconds
	keepAliveCount    = 5
	restartDelay      = 200 * time.Millisecond
	longestDelay      = 10 * time.Second
	stopLimit         = 2 * time.Second
	longestLine       = 1024
)

// Processes starts the daemon; the launcher's implementation also reaps orphans.
type Processes interface {
	Start(cmd *exec.Cmd) error
	Wait(cmd *exec.Cmd) error
}

// EventLoop is libvirt's event loop: there is one per process, and it must run before the first connection is opened.
type EventLoop struct{}

// StartEventLoop starts the event loop. Call it once per process; it runs until the process ends.
func StartEventLoop(log zerolog.Logger) (*EventLoop, error) {
	if err := libvirt.EventRegisterDefaultImpl(); err != nil {
		return nil, fmt.Errorf("registering libvirt's event loop: %w", err)
	}
	go func() {
		for {
			if err := libvirt.EventRunDefaultImpl(); err != nil {
				log.Error().Err(err).Msg("failed to run libvirt's event loop")
				time.Sleep(restartDelay)
			}
		}
	}()
	return &EventLoop{}, nil
}

// Libvirt is the daemon and the connection to it. Its methods are safe for concurrent use.
type Libvirt struct {
	cfg       Config
	processes Processes
	log       zerolog.Logger

	kick    chan struct{}     // the domain's state may have changed
	changes chan guest.Status // the newest status, until it is received
	reboots chan struct{}     // the guest was reset, until that is received
	ready   chan struct{}     // closed at the first connection
	once    sync.Once

	mu      sync.Mutex // held over define and create, so that a status is read before or after both
	conn    *libvirt.Connect
	started bool // the domain has been running

	// stopped is when the guest last stopped in order to leave, in milliseconds since 1970.
	stopped atomic.Int64
	// pairs is the number of pairs of a virtual CPU and a CPU on which it may run; nil: not known yet.
	pairs atomic.Pointer[uint32]

	pub  sync.Mutex // not held while libvirt is called, which may hang
	last guest.Status
}

// New returns a Libvirt; its Run starts the daemon.
func New(_ *EventLoop, cfg Config, processes Processes, log zerolog.Logger) *Libvirt {
	return &Libvirt{
		cfg: cfg, processes: processes, log: log, last: guest.Status{State: guest.Absent},
		kick: make(chan struct{}, 1), changes: make(chan guest.Status, 1), reboots: make(chan struct{}, 1),
		ready: make(chan struct{}),
	}
}

// Ready returns a channel that is closed once the daemon has answered for the first time.
func (l *Libvirt) Ready() <-chan struct{} { return l.ready }

// Changes delivers the status of the domain each time it differs, without states that were replaced before they were
// received.
func (l *Libvirt) Changes() <-chan guest.Status { return l.changes }

// Reboots receives one value for all resets of the guest since the last receive. Resets while libvirt is disconnected
// are not reported.
func (l *Libvirt) Reboots() <-chan struct{} { return l.reboots }

// Run keeps the daemon running and connected until ctx ends. It fails only if the daemon cannot be set up.
func (l *Libvirt) Run(ctx context.Context) error {
	if err := l.cfg.write(); err != nil {
		return err
	}
	fresh := wait.Backoff{Duration: restartDelay, Factor: 2, Steps: 10, Cap: longestDelay}
	delays := fresh
	for ctx.Err() == nil {
		begun := time.Now()
		err := l.life(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(begun) > longestDelay {
			delays = fresh
		}
		delay := delays.Step()
		l.log.Warn().Err(err).Dur("again_in", delay).Msg("restarting libvirtd, which has ended")
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
	return nil //nolint:nilerr // the end of ctx is not a failure
}

// life is one process of the daemon, from its start to its end.
func (l *Libvirt) life(ctx context.Context) error {
	d, err := l.startDaemon()
	if err != nil {
		return fmt.Errorf("starting libvirtd: %w", err)
	}
	defer d.stop()
	return l.serve(ctx, d)
}

// daemon is a process of libvirtd.
type daemon struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended
	err    error         // how it ended; read once exited is closed
}

func (l *Libvirt) startDaemon() (*daemon, error) {
	cmd := exec.Command(l.cfg.Daemon, "--config", l.cfg.daemonConfig())
	cmd.Env = l.cfg.environment()
	// Its own process group, so that it does not get signals to the launcher's.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Dir = "/"
	output, input := io.Pipe()
	cmd.Stdout, cmd.Stderr = input, input
	// QEMU inherits none of these, and any other process that does must not block the wait.
	cmd.WaitDelay = stopLimit
	go l.copyLog(output)
	if err := l.processes.Start(cmd); err != nil {
		_ = input.Close()
		return nil, err
	}
	d := &daemon{cmd: cmd, exited: make(chan struct{})}
	go func() {
		how := "with code 0"
		if err := l.processes.Wait(cmd); err != nil {
			how = err.Error()
		}
		d.err = errors.New("libvirtd exited: " + how)
		_ = input.Close()
		close(d.exited)
	}()
	return d, nil
}

// stop ends the daemon and waits for its end: with SIGTERM, and after stopLimit with SIGKILL.
func (d *daemon) stop() {
	select {
	case <-d.exited:
		return // its process ID may be another's
	default:
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-d.exited:
	case <-time.After(stopLimit):
		_ = d.cmd.Process.Kill()
		<-d.exited
	}
}

// errHung means that the daemon runs but does not answer.
var errHung = errors.New("libvirtd does not answer")

// serve keeps connections to a running daemon until it exits or does not answer.
func (l *Libvirt) serve(ctx context.Context, d *daemon) error {
	for {
		conn, err := l.connect(ctx, d)
		if err != nil {
			return err
		}
		err = l.use(ctx, conn, d)
		if err != nil {
			return err
		}
	}
}

// use works with a connection until it closes (nil) or another one would be useless (an error). With an error the
// daemon has ended.
func (l *Libvirt) use(ctx context.Context, conn *libvirt.Connect, d *daemon) error {
	defer conn.Close()
	closed, unwatch, err := l.watch(conn)
	defer unwatch()
	if err != nil {
		d.stop()
		return err
	}
	l.setConn(conn)
	defer l.setConn(nil)
	l.once.Do(func() { close(l.ready) })
	l.log.Info().Msg("connected to libvirtd")

	// A read of the state may hang, and hold mu: libvirt's client ends only one of the calls that hang when the
	// keep-alive fails. The others return when the daemon has ended.
	done, refreshed := make(chan struct{}), make(chan struct{})
	go func() {
		l.refreshUntil(done)
		close(refreshed)
	}()
	err = l.waitForEnd(ctx, closed, d)
	close(done)
	if err == nil {
		select {
		case <-refreshed:
			return nil
		case <-time.After(stopLimit):
			err = errHung
		}
	}
	d.stop()
	<-refreshed
	return err
}

func (l *Libvirt) connect(ctx context.Context, d *daemon) (*libvirt.Connect, error) {
	limit := time.After(connectLimit)
	for {
		conn, err := l.open(ctx, limit)
		if err == nil || errors.Is(err, errHung) || ctx.Err() != nil {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-d.exited:
			return nil, d.err
		case <-limit:
			return nil, fmt.Errorf("connecting to libvirtd: %w", err)
		case <-time.After(connectPoll):
		}
	}
}

// open opens one connection. It returns at the limit, and when ctx ends, even while libvirt's call hangs: that call
// ends with the daemon.
func (l *Libvirt) open(ctx context.Context, limit <-chan time.Time) (*libvirt.Connect, error) {
	type result struct {
		conn *libvirt.Connect
		err  error
	}
	opened := make(chan result, 1)
	go func() {
		conn, err := libvirt.NewConnect("qemu+unix:///session?socket=" + l.cfg.Socket())
		opened <- result{conn, err}
	}()
	err := errHung
	select {
	case r := <-opened:
		return r.conn, r.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit:
	}
	go func() {
		if r := <-opened; r.conn != nil {
			_, _ = r.conn.Close()
		}
	}()
	return nil, err
}

// watch registers for events. Callbacks run on libvirt's event loop and must not call libvirt, so they only wake the
// refresh loop. Every registration holds a reference to the connection, even a broken one, until unwatch is called.
func (l *Libvirt) watch(
	conn *libvirt.Connect,
) (closed <-chan libvirt.ConnectCloseReason, unwatch func(), err error) {
	ended := make(chan libvirt.ConnectCloseReason, 1)
	var undo []func()
	unwatch = func() {
		for _, u := range undo {
			u()
		}
	}
	// First: if the daemon already hangs, the calls below must still return.
	if err := conn.SetKeepAlive(keepAliveInterval, keepAliveCount); err != nil {
		return ended, unwatch, fmt.Errorf("setting the keep-alive of libvirtd: %w", err)
	}
	err = conn.RegisterCloseCallback(func(_ *libvirt.Connect, reason libvirt.ConnectCloseReason) {
		select {
		case ended <- reason:
		default:
		}
	})
	if err != nil {
		return ended, unwatch, fmt.Errorf("watching the connection to libvirtd: %w", err)
	}
	undo = append(undo, func() { _ = conn.UnregisterCloseCallback() })
	id, err := conn.DomainEventLifecycleRegister(nil,
		func(_ *libvirt.Connect, _ *libvirt.Domain, e *libvirt.DomainEventLifecycle) {
			l.log.Debug().Stringer("event", e).Msg("received domain event")
			if e.Event == libvirt.DOMAIN_EVENT_SUSPENDED &&
				libvirt.DomainEventSuspendedDetailType(e.Detail) == libvirt.DOMAIN_EVENT_SUSPENDED_MIGRATED {
				l.stopped.Store(time.Now().UnixMilli())
			}
			l.nudge()
		})
	if err != nil {
		return ended, unwatch, fmt.Errorf("watching the domain: %w", err)
	}
	undo = append(undo, func() { _ = conn.DomainEventDeregister(id) })
	agent, err := conn.DomainEventAgentLifecycleRegister(nil,
		func(*libvirt.Connect, *libvirt.Domain, *libvirt.DomainEventAgentLifecycle) {
			l.nudge()
		})
	if err != nil {
		return ended, unwatch, fmt.Errorf("watching the guest agent: %w", err)
	}
	undo = append(undo, func() { _ = conn.DomainEventDeregister(agent) })
	reboot, err := conn.DomainEventRebootRegister(nil, func(*libvirt.Connect, *libvirt.Domain) {
		select {
		case l.reboots <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return ended, unwatch, fmt.Errorf("watching for reboots: %w", err)
	}
	undo = append(undo, func() { _ = conn.DomainEventDeregister(reboot) })
	return ended, unwatch, nil
}

// waitForEnd waits until the connection closes (nil), the daemon does not answer or has exited, or ctx ends (an error).
func (l *Libvirt) waitForEnd(ctx context.Context, closed <-chan libvirt.ConnectCloseReason, d *daemon) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-d.exited:
		return d.err
	case reason := <-closed:
		if reason == libvirt.CONNECT_CLOSE_REASON_KEEPALIVE {
			return errHung
		}
		l.log.Warn().Msg("lost connection to libvirtd")
		return nil
	}
}

// A daemon that has just started finds its domains again in the background: it first lists one whose QEMU has died
// meanwhile as running, and sends no event when that ends. So the state is read again for a while after each
// connection, in growing intervals.
const (
	firstLook = 100 * time.Millisecond
	looks     = 8 // the last one 13 s after the one before
)

// refreshUntil refreshes the status when the domain's state may have changed, until done is closed.
func (l *Libvirt) refreshUntil(done <-chan struct{}) {
	pauses := wait.Backoff{Duration: firstLook, Factor: 2, Steps: looks}
	look := time.NewTimer(pauses.Step())
	defer look.Stop()
	for {
		l.refresh()
		select {
		case <-done:
			return
		case <-l.kick:
		case <-look.C:
			if pauses.Steps > 0 {
				look.Reset(pauses.Step())
			}
		}
	}
}

func (l *Libvirt) nudge() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

func (l *Libvirt) setConn(conn *libvirt.Connect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = conn
}

// copyLog copies the daemon's output to the log.
func (l *Libvirt) copyLog(r io.ReadCloser) {
	defer r.Close()
	lines := bufio.NewReaderSize(r, longestLine)
	for {
		line, more, err := lines.ReadLine()
		if err != nil {
			return
		}
		if len(line) > 0 && !more {
			l.log.Info().Str("from", "libvirtd").Msg(string(line))
		}
	}
}
