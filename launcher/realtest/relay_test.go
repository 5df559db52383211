//go:build libvirt

package realtest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/launcher/migration"
)

// relay does the node workers' part for one migration: it fetches streams from both launchers and joins them.
type relay struct {
	t        *testing.T
	uid      string
	from, to *pod
	// each is asked for what goes to the target (up) or comes from it, before that is written; false: it is lost, and
	// the relay with it.
	each func(c migration.Channel, up bool, data []byte) bool

	mu      sync.Mutex
	conns   []net.Conn
	stopped bool
	begun   time.Time
	stalled chan struct{} // closed: nothing goes through any more, and nothing is closed
}

func newRelay(t *testing.T, uid string, from, to *pod) *relay {
	t.Helper()
	r := &relay{t: t, uid: uid, from: from, to: to, stalled: make(chan struct{})}
	t.Cleanup(r.stop)
	return r
}

func (r *relay) start() {
	r.begun = time.Now()
	for _, c := range []migration.Channel{migration.ChannelLibvirt, migration.ChannelMemory, migration.ChannelDisks} {
		go func() {
			for {
				source, err := r.fetch(r.from, c, migration.SideSource)
				if err != nil {
					return // the migration is over
				}
				// In their order: QEMU 7.2 takes the first connection of a memory's several for the main one.
				target, err := r.fetch(r.to, c, migration.SideTarget)
				if err != nil {
					r.t.Logf("relay: %s: %v", c, err)
					_ = source.Close()
					continue
				}
				go r.join(c, source, target)
			}
		}()
	}
}

// after reports whether it has run for so long.
func (r *relay) after(d time.Duration) bool { return time.Since(r.begun) > d }

// stop ends every stream at once, as a killed node worker would.
func (r *relay) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	for _, c := range r.conns {
		_ = c.Close()
	}
}

func (r *relay) keep(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, c)
	if r.stopped {
		_ = c.Close()
	}
}

func (r *relay) join(c migration.Channel, source, target net.Conn) {
	defer source.Close() //nolint:errcheck // nothing is left to be done about it
	defer target.Close() //nolint:errcheck // nothing is left to be done about it
	ended := make(chan struct{}, 2)
	go func() { r.copy(c, true, target, source); ended <- struct{}{} }()
	go func() { r.copy(c, false, source, target); ended <- struct{}{} }()
	<-ended
}

func (r *relay) copy(c migration.Channel, up bool, to, from net.Conn) {
	buffer := make([]byte, 256<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		select {
		case <-r.stalled:
			select {} // a stalled stream is not a closed one
		default:
		}
		if r.each != nil && !r.each(c, up, buffer[:n]) {
			r.stop()
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// fetch asks a launcher for its end of the next stream, as a node worker does.
func (r *relay) fetch(p *pod, c migration.Channel, side string) (net.Conn, error) {
	conn, err := net.Dial("unix", p.at("sockets/mig.sock"))
	if err != nil {
		return nil, err
	}
	r.keep(conn)
	request, err := json.Marshal(migration.Request{Migration: r.uid, Channel: c, Side: side})
	require.NoError(r.t, err)
	if _, err := conn.Write(append(request, '\n')); err != nil {
		return nil, err
	}
	data, rights := make([]byte, 1024), make([]byte, unix.CmsgSpace(4))
	n, nr, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(data, rights)
	_ = conn.Close()
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:nr])
	if err != nil {
		return nil, err
	}
	if len(messages) != 1 {
		return nil, fmt.Errorf("%w: %s", io.EOF, data[:n])
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fds[0]), "stream")
	defer f.Close() //nolint:errcheck // the connection has its own
	stream, err := net.FileConn(f)
	if err == nil {
		r.keep(stream)
	}
	return stream, err
}

// Of libvirt's own protocol: the program that moves domains, and its calls that matter here.
const (
	libvirtProgram  = 0x20008086
	libvirtFinish   = 306
	libvirtPrepare  = 303
	libvirtHeader   = 28
	libvirtIsAnswer = 1
)

// calls lists the calls (and answers) that a piece of a libvirt stream has.
func calls(data []byte) (out []call) {
	for len(data) >= libvirtHeader {
		size := binary.BigEndian.Uint32(data)
		if binary.BigEndian.Uint32(data[4:]) == libvirtProgram {
			out = append(out, call{procedure: binary.BigEndian.Uint32(data[12:]),
				answer: binary.BigEndian.Uint32(data[16:]) == libvirtIsAnswer})
		}
		if int(size) < libvirtHeader || int(size) > len(data) {
			break
		}
		data = data[size:]
	}
	return out
}

type call struct {
	procedure uint32
	answer    bool
}

// at has do called when a call, or its answer, is to be carried; false from it: it is lost, and all streams with it.
func (r *relay) at(procedure uint32, answer bool, do func() bool) {
	r.each = func(c migration.Channel, up bool, data []byte) bool {
		if c != migration.ChannelLibvirt || up == answer {
			return true
		}
		for _, seen := range calls(data) {
			if seen.procedure == procedure && seen.answer == answer {
				return do()
			}
		}
		return true
	}
}
