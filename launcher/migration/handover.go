package migration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// Channel is one kind of stream between two launchers.
type Channel string

// Channels. There may be several memory streams, and one for each disk. The node workers must connect the streams of
// one channel one after the other, in the order in which the source opened them: QEMU 7.2 takes the first connection of
// several for memory as the main one, and hangs on another order.
const (
	ChannelLibvirt Channel = "libvirt"
	ChannelMemory  Channel = "memory"
	ChannelDisks   Channel = "disks"
)

// Sides of a migration.
const (
	SideSource = "source"
	SideTarget = "target"
)

const (
	// waiting is how many connections of one channel may wait for the node worker.
	waiting = 16
	// longestRequest is far above the size of any request.
	longestRequest = 1024
	requestLimit   = 5 * time.Second
	dialLimit      = 5 * time.Second
	fetchLimit     = 5 * time.Second
)

// Request is the one line, as JSON, that the node worker writes to the socket. The answer is one byte with the
// descriptor of a connected stream, or a line with a Refusal.
type Request struct {
	Migration string  `json:"migration"`
	Channel   Channel `json:"channel"`
	Side      string  `json:"side"`
}

// Refusal has the reason why no stream is returned.
type Refusal struct {
	Error string `json:"error"`
}

var (
	errNotUnderWay = errors.New("this launcher has no such migration in progress")
	errOver        = errors.New("the migration has ended")
)

// Handover passes connected streams to the node worker: those that libvirt and QEMU open at the source, and new ones to
// them at the target. So nothing is copied in the pod, and no socket of the pod can be reached from outside.
type Handover struct {
	// FetchLimit is how long a stream waits for the node worker before it is closed. While QEMU waits for the other end
	// of a disk's stream, it does nothing else, and the guest stands still.
	FetchLimit time.Duration

	dir     string
	libvirt string
	log     zerolog.Logger

	mu       sync.Mutex
	sides    map[string]string // of the migration in progress
	over     context.Context
	end      context.CancelFunc
	accepted map[Channel]chan *net.UnixConn
	listener net.Listener
}

// NewHandover returns a Handover whose sockets are in dir, with libvirt's own at the given path.
func NewHandover(dir, libvirt string, log zerolog.Logger) *Handover {
	return &Handover{FetchLimit: fetchLimit, dir: dir, libvirt: libvirt, log: log, sides: map[string]string{}}
}

// Path returns a channel's socket. At the source it is the Handover's, to which libvirt and QEMU connect; at the target
// it is QEMU's.
func (h *Handover) Path(c Channel) string { return filepath.Join(h.dir, string(c)+".sock") }

// Source listens for the connections that libvirt and QEMU open for a migration.
func (h *Handover) Source(uid string) error {
	h.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return fmt.Errorf("making the directory of the migration's sockets: %w", err)
	}
	over, end := context.WithCancel(context.Background())
	accepted := map[Channel]chan *net.UnixConn{}
	for _, c := range []Channel{ChannelLibvirt, ChannelMemory, ChannelDisks} {
		path := h.Path(c)
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			end()
			return fmt.Errorf("clearing an earlier migration's socket: %w", err)
		}
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			end()
			return fmt.Errorf("opening the migration's socket: %w", err)
		}
		context.AfterFunc(over, func() { _ = listener.Close() })
		accepted[c] = make(chan *net.UnixConn, waiting)
		go h.accept(over, listener, accepted[c])
	}
	h.sides, h.over, h.end, h.accepted = map[string]string{uid: SideSource}, over, end, accepted
	return nil
}

// Target permits a migration's streams to libvirt and QEMU of this launcher.
func (h *Handover) Target(uid string) error {
	h.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return fmt.Errorf("making the directory of the migration's sockets: %w", err)
	}
	h.over, h.end = context.WithCancel(context.Background())
	h.sides = map[string]string{uid: SideTarget}
	return nil
}

// Close closes what was opened, and refuses further requests. Streams that were passed on are not affected.
func (h *Handover) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.end != nil {
		h.end()
	}
	h.sides, h.accepted, h.end = map[string]string{}, nil, nil
}

func (h *Handover) accept(over context.Context, listener *net.UnixListener, to chan<- *net.UnixConn) {
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		// A connection that is not fetched ends here. Once fetched, the node worker has a descriptor of its own.
		context.AfterFunc(over, func() { _ = conn.Close() })
		time.AfterFunc(h.FetchLimit, func() { _ = conn.Close() })
		select {
		case to <- conn:
		default:
			_ = conn.Close() // more than any migration opens
		}
	}
}

// Listen serves on the socket for the node worker, which is root; no other user may open it.
func (h *Handover) Listen(path string) error {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("clearing an earlier socket: %w", err)
	}
	part := path + ".part"
	if err := os.Remove(part); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("clearing an earlier socket: %w", err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: part, Net: "unix"})
	if err != nil {
		return fmt.Errorf("opening the socket for migrations: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(part, 0o600), os.Rename(part, path)); err != nil {
		_ = listener.Close()
		return fmt.Errorf("renaming the socket for migrations: %w", err)
	}
	h.listener = listener
	go func() {
		for {
			conn, err := listener.AcceptUnix()
			if err != nil {
				return
			}
			go h.serve(conn)
		}
	}()
	return nil
}

// Stop closes the socket and all that was opened.
func (h *Handover) Stop() {
	h.Close()
	if h.listener != nil {
		_ = h.listener.Close()
	}
}

func (h *Handover) serve(worker *net.UnixConn) {
	defer worker.Close()
	_ = worker.SetDeadline(time.Now().Add(requestLimit))
	var r Request
	line, err := bufio.NewReader(io.LimitReader(worker, longestRequest)).ReadBytes('\n')
	if err != nil {
		return
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return
	}
	_ = worker.SetDeadline(time.Time{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // the node worker sends nothing more, so this ends when it disconnects
		_, _ = worker.Read(make([]byte, 1))
		cancel()
	}()
	stream, err := h.stream(ctx, r)
	if err != nil {
		answer, _ := json.Marshal(Refusal{Error: err.Error()})
		_, _ = worker.Write(append(answer, '\n'))
		return
	}
	defer stream.Close()
	if err := passDescriptor(worker, stream); err != nil {
		h.log.Warn().Err(err).Str("channel", string(r.Channel)).Msg("failed to pass migration stream to node worker")
	}
}

// stream returns the next stream of a channel.
func (h *Handover) stream(ctx context.Context, r Request) (*net.UnixConn, error) {
	h.mu.Lock()
	side, over, accepted := h.sides[r.Migration], h.over, h.accepted[r.Channel]
	h.mu.Unlock()
	if side == "" || side != r.Side {
		return nil, errNotUnderWay
	}
	switch r.Channel {
	case ChannelLibvirt, ChannelMemory, ChannelDisks:
	default:
		return nil, fmt.Errorf("unknown channel %q", r.Channel)
	}
	if side == SideSource {
		select {
		case conn := <-accepted:
			return conn, nil
		case <-over.Done():
			return nil, errOver
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	path := h.Path(r.Channel)
	if r.Channel == ChannelLibvirt {
		path = h.libvirt
	}
	dialer := net.Dialer{Timeout: dialLimit}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("connecting to the target's %s: %w", r.Channel, err)
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.New("not a Unix socket")
	}
	return unixConn, nil
}

// passDescriptor sends a copy of the stream's descriptor.
func passDescriptor(to, stream *net.UnixConn) error {
	raw, err := stream.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) {
		_, _, sent = to.WriteMsgUnix([]byte{0}, unix.UnixRights(int(fd)), nil)
	})
	return errors.Join(err, sent)
}
