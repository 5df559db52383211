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

// Channel is one sort of stream between two launchers.
type Channel string

// Channels. There may be several memory streams, and one of disks for each disk. Whoever joins streams connects those
// of one channel one after the other, in the order in which the source's come: QEMU 7.2 takes the first connection of a
// memory's several for the main one, and hangs on another order.
const (
	ChannelLibvirt Channel = "libvirt"
	ChannelMemory  Channel = "memory"
	ChannelDisks   Channel = "disks"
)

// Sides of a request.
const (
	SideSource = "source"
	SideTarget = "target"
)

const (
	// waiting is how many connections of one channel may wait for the node's worker.
	waiting = 16
	// longestRequest is far above what a request has.
	longestRequest = 1024
	requestLimit   = 5 * time.Second
	dialLimit      = 5 * time.Second
	fetchLimit     = 5 * time.Second
)

// Request is the one line, as JSON, that the node's worker writes to the socket. The answer is one byte with the
// descriptor of a connected stream, or a line with a Refusal.
type Request struct {
	Migration string  `json:"migration"`
	Channel   Channel `json:"channel"`
	Side      string  `json:"side"`
}

// Refusal says why there is no stream.
type Refusal struct {
	Error string `json:"error"`
}

var (
	errNotUnderWay = errors.New("no such migration is under way here") //nolint:gochecknoglobals // a constant error
	errOver        = errors.New("the migration is over")               //nolint:gochecknoglobals // a constant error
)

// Handover passes connected streams to the node's worker: those that libvirt and QEMU open at the source, and fresh
// ones to them at the target. So nothing is copied in the pod, and no socket of the pod's is reached from outside.
type Handover struct {
	// FetchLimit is how long a stream waits for the node's worker before it is cut. QEMU waits for the other end of a
	// disk's stream with all else at a standstill, the guest included.
	FetchLimit time.Duration

	dir     string
	libvirt string
	log     zerolog.Logger

	mu       sync.Mutex
	sides    map[string]string // of the migration under way
	over     context.Context
	end      context.CancelFunc
	accepted map[Channel]chan *net.UnixConn
	listener net.Listener
}

// NewHandover makes one whose sockets are in dir, with libvirt's own at the given path.
func NewHandover(dir, libvirt string, log zerolog.Logger) *Handover {
	return &Handover{FetchLimit: fetchLimit, dir: dir, libvirt: libvirt, log: log, sides: map[string]string{}}
}

// Path of a channel's socket: at the source ours, which libvirt and QEMU connect to; at the target QEMU's.
func (h *Handover) Path(c Channel) string { return filepath.Join(h.dir, string(c)+".sock") }

// Source waits for what libvirt and QEMU open for a migration.
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

// Target lets a migration reach libvirt and QEMU here.
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

// Close ends what was opened, and refuses from now on. Streams that were passed on are not affected.
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
		// Where nobody fetches it, it ends. Who has fetched it has a descriptor of their own by then.
		context.AfterFunc(over, func() { _ = conn.Close() })
		time.AfterFunc(h.FetchLimit, func() { _ = conn.Close() })
		select {
		case to <- conn:
		default:
			_ = conn.Close() // more than any migration opens
		}
	}
}

// Listen serves on the socket for the node's worker, which is root; nobody else may open it.
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
		return fmt.Errorf("naming the socket for migrations: %w", err)
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

// Stop ends it all.
func (h *Handover) Stop() {
	h.Close()
	if h.listener != nil {
		_ = h.listener.Close()
	}
}

func (h *Handover) serve(worker *net.UnixConn) {
	defer worker.Close() //nolint:errcheck // nothing is left to be done about it
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
	go func() { // it writes nothing more, so this ends when it hangs up
		_, _ = worker.Read(make([]byte, 1))
		cancel()
	}()
	stream, err := h.stream(ctx, r)
	if err != nil {
		answer, _ := json.Marshal(Refusal{Error: err.Error()}) //nolint:errchkjson // a string
		_, _ = worker.Write(append(answer, '\n'))
		return
	}
	defer stream.Close() //nolint:errcheck // the worker has its own descriptor
	if err := pass(worker, stream); err != nil {
		h.log.Warn().Err(err).Str("channel", string(r.Channel)).Msg("a migration's stream was not passed on")
	}
}

// stream fetches the next stream of a channel.
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
		return nil, fmt.Errorf("%q is not a channel", r.Channel)
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
		return nil, fmt.Errorf("reaching the target's %s: %w", r.Channel, err)
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.New("not a Unix socket")
	}
	return unixConn, nil
}

// pass gives a copy of the stream's descriptor away.
func pass(to, stream *net.UnixConn) error {
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
