package launchers_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/launchertest"
)

var memoryStream = launchers.StreamRequest{Migration: other, Channel: "memory", Side: launchers.SideSource}

// TestReceivesStream: it is the launcher's, and carries bytes both ways.
func TestReceivesStream(t *testing.T) {
	n := launchertest.NewNode(t)
	qemu, given := unixPair(t)
	asked := make(chan launchers.StreamRequest, 1)
	launchertest.ServeStreams(t, n.AddPod(t, pod), func(r launchers.StreamRequest, conn *net.UnixConn) {
		asked <- r
		f, err := given.File()
		if err == nil {
			_ = launchertest.HandOver(conn, "+", f)
			f.Close()
		}
	})
	stream, err := n.Dialer().Stream(t.Context(), pod, memoryStream)
	require.NoError(t, err)
	defer stream.Close()
	require.Equal(t, memoryStream, <-asked)
	for _, way := range [][2]net.Conn{{qemu, stream}, {stream, qemu}} {
		_, err = way[0].Write([]byte("page"))
		require.NoError(t, err)
		got := make([]byte, 4)
		_, err = io.ReadFull(way[1], got)
		require.NoError(t, err)
		require.Equal(t, "page", string(got))
	}
}

// TestRefusesOtherDescriptors: nothing else is taken, and nothing that came along stays open.
func TestRefusesOtherDescriptors(t *testing.T) {
	file := func(t *testing.T, fd int, err error) *os.File {
		require.NoError(t, err)
		f := os.NewFile(uintptr(fd), "test")
		t.Cleanup(func() { f.Close() })
		return f
	}
	socket := func(t *testing.T, domain, kind int) *os.File {
		fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
		return file(t, fd, err)
	}
	pair := func(t *testing.T, kind int) *os.File {
		fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		file(t, fds[1], err)
		return file(t, fds[0], err)
	}
	for name, c := range map[string]struct {
		says  string
		gives func(t *testing.T) []*os.File
		want  string
	}{
		"nothing at all":    {want: "EOF"},
		"a byte alone":      {says: "+", want: "no stream"},
		"why not":           {says: `{"error":"no such\u001b migration"}` + "\n", want: "no such migration"},
		"nothing that says": {says: "{}\n", want: "no reason"},
		"a long text":       {says: strings.Repeat("a", 5<<10), want: "longer than 4096 bytes"},
		"a file": {says: "+", gives: func(t *testing.T) []*os.File {
			fd, err := unix.Open("/dev/null", unix.O_CLOEXEC, 0)
			return []*os.File{file(t, fd, err)}
		}, want: "not a Unix stream"},
		"datagrams":           {says: "+", gives: func(t *testing.T) []*os.File { return []*os.File{pair(t, unix.SOCK_DGRAM)} }, want: "not a Unix stream"},
		"packets":             {says: "+", gives: func(t *testing.T) []*os.File { return []*os.File{pair(t, unix.SOCK_SEQPACKET)} }, want: "not a Unix stream"},
		"TCP":                 {says: "+", gives: func(t *testing.T) []*os.File { return []*os.File{socket(t, unix.AF_INET, unix.SOCK_STREAM)} }, want: "not a Unix stream"},
		"unconnected":         {says: "+", gives: func(t *testing.T) []*os.File { return []*os.File{socket(t, unix.AF_UNIX, unix.SOCK_STREAM)} }, want: "not connected"},
		"two":                 {says: "+", gives: func(t *testing.T) []*os.File { return []*os.File{pair(t, unix.SOCK_STREAM), pair(t, unix.SOCK_STREAM)} }, want: "more than one"},
		"a crowd":             {says: "+", gives: func(t *testing.T) []*os.File { return crowd(pair(t, unix.SOCK_STREAM), 200) }, want: "more than one"},
		"one with many bytes": {says: "++", gives: func(t *testing.T) []*os.File { return []*os.File{pair(t, unix.SOCK_STREAM)} }, want: "2 bytes"},
		"a listener": {says: "+", gives: func(t *testing.T) []*os.File {
			l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
			require.NoError(t, err)
			t.Cleanup(func() { l.Close() })
			f, err := l.(*net.UnixListener).File()
			require.NoError(t, err)
			t.Cleanup(func() { f.Close() })
			return []*os.File{f}
		}, want: "not a Unix stream"},
	} {
		t.Run(name, func(t *testing.T) {
			n := launchertest.NewNode(t)
			var give []*os.File
			if c.gives != nil {
				give = c.gives(t)
			}
			answered := make(chan struct{})
			launchertest.ServeStreams(t, n.AddPod(t, pod), func(_ launchers.StreamRequest, conn *net.UnixConn) {
				if c.says != "" {
					_ = launchertest.HandOver(conn, c.says, give...)
				}
				conn.Close()
				answered <- struct{}{}
			})
			before := descriptors(t)
			for range 10 {
				_, err := n.Dialer().Stream(t.Context(), pod, memoryStream)
				<-answered
				require.ErrorContains(t, err, c.want)
			}
			require.Eventually(t, func() bool { return descriptors(t) <= before }, 5*time.Second, 10*time.Millisecond,
				"what came along stays open")
		})
	}
}

// crowd is one file many times.
func crowd(f *os.File, n int) []*os.File {
	var all []*os.File
	for range n {
		all = append(all, f)
	}
	return all
}

// TestStreamRefusal: the refusal of a stream has the launcher's own reason, and is not retried.
func TestStreamRefusal(t *testing.T) {
	n := launchertest.NewNode(t)
	launchertest.ServeStreams(t, n.AddPod(t, pod), func(_ launchers.StreamRequest, conn *net.UnixConn) {
		_ = launchertest.HandOver(conn, `{"error":"no such migration"}`+"\n")
	})
	_, err := n.Dialer().Stream(t.Context(), pod, memoryStream)
	var refused *launchers.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "no such migration", refused.Message)
}

// TestStreamTimeout: a stream is waited for until the deadline, and only a pod's own launcher is asked.
func TestStreamTimeout(t *testing.T) {
	n := launchertest.NewNode(t)
	_, err := n.Dialer().Stream(t.Context(), pod, memoryStream)
	require.ErrorIs(t, err, launchers.ErrAbsent)

	waiting := make(chan struct{})
	t.Cleanup(func() { close(waiting) })
	launchertest.ServeStreams(t, n.AddPod(t, pod), func(launchers.StreamRequest, *net.UnixConn) { <-waiting })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = n.Dialer().Stream(ctx, pod, memoryStream)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	n.Join(t, other) // the process that serves it is in another pod
	_, err = n.Dialer().Stream(t.Context(), pod, memoryStream)
	require.ErrorContains(t, err, "does not belong to that pod")
}

func unixPair(t *testing.T) (a, b *net.UnixConn) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s")})
	require.NoError(t, err)
	defer l.Close()
	a, err = net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	require.NoError(t, err)
	b, err = l.AcceptUnix()
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}
