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
	// connectTimeout is the time that QEMU has to accept a connection: it does so between other work.
	connectTimeout = 5 * time.Second
	connectPause   = 10 * time.Millisecond
)

var (
	// ErrBusy is KubeVirt's text for a session that was to be preserved.
	ErrBusy = errors.New("Active VNC connection. Request denied.") //nolint:staticcheck // KubeVirt's text
	// ErrTakenOver means that a newer session has ended this one.
	ErrTakenOver = errors.New("another session has taken over")
	// ErrNoDevice means that there is no such device, or that the guest does not run.
	ErrNoDevice = errors.New("the guest has no such device, or does not run")
)

// Devices has the devices of one guest. It is safe for concurrent use.
type Devices struct {
	sockets map[rpc.Device][]string
	// opening holds, for each socket, one value while a caller connects to it: so of two concurrent callers each sees
	// the other's session.
	opening map[string]chan struct{}

	mu      sync.Mutex // held for moments only
	current map[string]*Session
}

// NewDevices returns Devices that connect to the sockets of QEMU. A device with several sockets can have as many
// sessions, none of which ends another.
func NewDevices(sockets map[rpc.Device][]string) *Devices {
	d := &Devices{sockets: sockets, opening: map[string]chan struct{}{}, current: map[string]*Session{}}
	for _, of := range sockets {
		for _, socket := range of {
			d.opening[socket] = make(chan struct{}, 1)
		}
	}
	return d
}

// Session is a connection to a device. After a newer session has taken over, Read and Write fail, and Err returns why.
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
	// QEMU is on this machine: it connects at once or not at all. A serial port accepts its next client once the
	// previous one has disconnected.
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

// free ends the session of a socket, and reports whether the socket is free: not if its session is to be preserved.
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

// connect waits for space in QEMU's queue, which holds one or two connections.
func connect(ctx context.Context, socket string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if !errors.Is(err, syscall.EAGAIN) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, err
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
	return s.Conn.Close()
}

// Err returns ErrTakenOver if a newer session has ended this one.
func (s *Session) Err() error {
	s.devices.mu.Lock()
	defer s.devices.mu.Unlock()
	if s.takenOver {
		return ErrTakenOver
	}
	return nil
}
