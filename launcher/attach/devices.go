package attach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/virtflow/virtflow/launcher/rpc"
)

const (
	// connectTimeout is how long QEMU may take to accept a connection: it does so between two pieces of other work.
	connectTimeout = 5 * time.Second
	connectPause   = 10 * time.Millisecond
)

//nolint:gochecknoglobals // constant errors
var (
	// ErrBusy is KubeVirt's text for a session that was to be preserved.
	ErrBusy = errors.New("Active VNC connection. Request denied.") //nolint:staticcheck // KubeVirt's text
	// ErrTakenOver says that a newer session has ended this one.
	ErrTakenOver = errors.New("another session has taken over")
	// ErrNoDevice says that there is no such device, or that the guest does not run.
	ErrNoDevice = errors.New("the guest has no such device, or does not run")
)

// Devices are those of one guest. They are safe for concurrent use.
type Devices struct {
	sockets map[rpc.Device][]string
	// opening has, for each socket, one while somebody connects with it: of two newcomers each sees the other.
	opening map[string]chan struct{}

	mu      sync.Mutex // held for moments only
	current map[string]*Session
}

// NewDevices takes the sockets that QEMU serves. A device with several has room for as many sessions, of which none
// ends another.
func NewDevices(sockets map[rpc.Device][]string) *Devices {
	d := &Devices{sockets: sockets, opening: map[string]chan struct{}{}, current: map[string]*Session{}}
	for _, of := range sockets {
		for _, socket := range of {
			d.opening[socket] = make(chan struct{}, 1)
		}
	}
	return d
}

// Session is a connection with a device. Read and Write are those of the device; after a newer session took over they
// fail, and Err says so.
type Session struct {
	net.Conn
	devices   *Devices
	socket    string
	takenOver bool // guarded by devices.mu
}

// Open starts a session; the caller closes it. The error is ErrBusy, or wraps ErrNoDevice.
func (d *Devices) Open(ctx context.Context, device rpc.Device, preserve bool) (*Session, error) {
	sockets := d.sockets[device]
	if len(sockets) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoDevice, device)
	}
	preserve = preserve || len(sockets) > 1
	for _, socket := range sockets {
		if s, err := d.open(ctx, socket, preserve); !errors.Is(err, ErrBusy) {
			return s, err
		}
	}
	return nil, ErrBusy
}

func (d *Devices) open(ctx context.Context, socket string, preserve bool) (*Session, error) {
	select {
	case d.opening[socket] <- struct{}{}:
		defer func() { <-d.opening[socket] }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrNoDevice, ctx.Err())
	}
	if !d.free(socket, preserve) {
		return nil, ErrBusy
	}
	// QEMU is on this machine: it connects at once or not at all, and a serial port takes its next client when the one
	// before is gone.
	conn, err := connect(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoDevice, err)
	}
	s := &Session{Conn: conn, devices: d, socket: socket}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.current[socket] = s
	return s, nil
}

// free ends the session that a socket has, unless that is to be preserved: then it says no.
func (d *Devices) free(socket string, preserve bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	older := d.current[socket]
	switch {
	case older == nil:
		return true
	case preserve:
		return false
	}
	older.takenOver = true
	older.Conn.Close()
	delete(d.current, socket)
	return true
}

// connect waits for a place in QEMU's queue, which has room for one or two.
func connect(ctx context.Context, socket string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if !errors.Is(err, syscall.EAGAIN) {
			return conn, err //nolint:wrapcheck // the caller does
		}
		select {
		case <-ctx.Done():
			return nil, err //nolint:wrapcheck // the caller does
		case <-time.After(connectPause):
		}
	}
}

// Close ends the session.
func (s *Session) Close() error {
	s.devices.mu.Lock()
	defer s.devices.mu.Unlock()
	if s.devices.current[s.socket] == s {
		delete(s.devices.current, s.socket)
	}
	return s.Conn.Close() //nolint:wrapcheck // says what it is
}

// Err is ErrTakenOver when a newer session has ended this one.
func (s *Session) Err() error {
	s.devices.mu.Lock()
	defer s.devices.mu.Unlock()
	if s.takenOver {
		return ErrTakenOver
	}
	return nil
}
