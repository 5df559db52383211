package migration_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/launcher/migration"
)

// fetch requests a stream as a node worker does.
func fetch(t *testing.T, socket string, r migration.Request) (net.Conn, migration.Refusal) {
	t.Helper()
	worker, err := net.Dial("unix", socket)
	require.NoError(t, err)
	defer worker.Close()
	line, err := json.Marshal(r)
	require.NoError(t, err)
	_, err = worker.Write(append(line, '\n'))
	require.NoError(t, err)
	require.NoError(t, worker.SetReadDeadline(time.Now().Add(5*time.Second)))
	data, rights := make([]byte, 512), make([]byte, unix.CmsgSpace(4))
	n, nr, _, _, err := worker.(*net.UnixConn).ReadMsgUnix(data, rights)
	require.NoError(t, err)
	if nr == 0 {
		var refusal migration.Refusal
		require.NoError(t, json.Unmarshal(data[:n], &refusal))
		return nil, refusal
	}
	messages, err := unix.ParseSocketControlMessage(rights[:nr])
	require.NoError(t, err)
	fds, err := unix.ParseUnixRights(&messages[0])
	require.NoError(t, err)
	require.Len(t, fds, 1)
	f := os.NewFile(uintptr(fds[0]), "stream")
	defer f.Close()
	conn, err := net.FileConn(f)
	require.NoError(t, err)
	return conn, migration.Refusal{}
}

func handover(t *testing.T) (*migration.Handover, string, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "vfh") // t.TempDir's paths are too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, libvirt := filepath.Join(dir, "mig.sock"), filepath.Join(dir, "libvirt-sock")
	h := migration.NewHandover(filepath.Join(dir, "mig"), libvirt, zerolog.Nop())
	require.NoError(t, h.Listen(socket))
	t.Cleanup(h.Stop)
	return h, socket, libvirt
}

func speaks(t *testing.T, a, b net.Conn) {
	t.Helper()
	go func() { _, _ = io.WriteString(a, "hello\n") }()
	require.NoError(t, b.SetReadDeadline(time.Now().Add(5*time.Second)))
	line, err := bufio.NewReader(b).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "hello\n", line)
}

func TestPassesStreamsOfSource(t *testing.T) {
	h, socket, _ := handover(t)
	require.NoError(t, h.Source("uid"))
	for _, c := range []migration.Channel{migration.ChannelLibvirt, migration.ChannelMemory, migration.ChannelDisks} {
		qemu, err := net.Dial("unix", h.Path(c))
		require.NoError(t, err)
		defer qemu.Close()
		worker, _ := fetch(t, socket, migration.Request{Migration: "uid", Channel: c, Side: migration.SideSource})
		require.NotNil(t, worker)
		speaks(t, qemu, worker)
		speaks(t, worker, qemu)
		_ = worker.Close()
		_, err = qemu.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "nothing but the worker's descriptor keeps the stream")
	}
}

func TestConnectsToTarget(t *testing.T) {
	h, socket, libvirt := handover(t)
	listener, err := net.Listen("unix", libvirt)
	require.NoError(t, err)
	defer listener.Close()
	require.NoError(t, h.Target("uid"))
	worker, _ := fetch(t, socket, migration.Request{Migration: "uid", Channel: "libvirt", Side: migration.SideTarget})
	require.NotNil(t, worker)
	daemon, err := listener.Accept()
	require.NoError(t, err)
	speaks(t, worker, daemon)
	for _, c := range []migration.Channel{"memory", "../libvirt-sock", ""} {
		_, refusal := fetch(t, socket, migration.Request{Migration: "uid", Channel: c, Side: migration.SideTarget})
		require.NotEmpty(t, refusal.Error, "%s", c)
	}
}

func TestRefusesStreamsWithoutMigration(t *testing.T) {
	h, socket, libvirt := handover(t)
	listener, err := net.Listen("unix", libvirt)
	require.NoError(t, err)
	defer listener.Close()
	refused := func(uid, side string) {
		t.Helper()
		_, refusal := fetch(t, socket, migration.Request{Migration: uid, Channel: "libvirt", Side: side})
		require.Equal(t, "this launcher has no such migration in progress", refusal.Error)
	}
	refused("uid", migration.SideTarget)
	refused("", "")
	require.NoError(t, h.Target("uid"))
	refused("other", migration.SideTarget)
	refused("uid", migration.SideSource)
	h.Close()
	refused("uid", migration.SideTarget)
}

func TestWaitingWorkerIsRefusedAtEnd(t *testing.T) {
	h, socket, _ := handover(t)
	require.NoError(t, h.Source("uid"))
	time.AfterFunc(20*time.Millisecond, h.Close)
	_, refusal := fetch(t, socket, migration.Request{Migration: "uid", Channel: "disks", Side: migration.SideSource})
	require.Equal(t, "the migration has ended", refusal.Error)
}

// TestRefusesUnknownChannelAtOnce: no stream of it will ever come.
func TestRefusesUnknownChannelAtOnce(t *testing.T) {
	h, socket, _ := handover(t)
	require.NoError(t, h.Source("uid"))
	_, refusal := fetch(t, socket, migration.Request{Migration: "uid", Channel: "other", Side: migration.SideSource})
	require.Equal(t, `unknown channel "other"`, refusal.Error)
}

// TestClosesStreamsThatNoWorkerFetches: QEMU stands still while it waits for the other end, and the guest with it.
// Streams that were fetched in time stay open.
func TestClosesStreamsThatNoWorkerFetches(t *testing.T) {
	h, socket, _ := handover(t)
	h.FetchLimit = 200 * time.Millisecond
	require.NoError(t, h.Source("m"))
	fetched, err := net.Dial("unix", h.Path(migration.ChannelDisks))
	require.NoError(t, err)
	defer fetched.Close()
	there, refusal := fetch(t, socket, migration.Request{Migration: "m", Channel: migration.ChannelDisks,
		Side: migration.SideSource})
	require.Empty(t, refusal)
	defer there.Close()
	left, err := net.Dial("unix", h.Path(migration.ChannelDisks))
	require.NoError(t, err)
	defer left.Close()
	require.NoError(t, left.SetReadDeadline(time.Now().Add(5*time.Second)))
	_, err = left.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	speaks(t, fetched, there)
}
