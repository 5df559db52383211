package launchers_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/launchertest"
	"github.com/virtflow/virtflow/workers/node/podnet"
)

const (
	pod   = "3f2a9c1e-0b5d-4c6e-8f70-112233445566"
	other = "00000000-0b5d-4c6e-8f70-112233445566"
)

func TestStartAndWatch(t *testing.T) {
	n := launchertest.NewNode(t)
	server := launchertest.NewLauncher()
	var asked *rpc.StartDomainRequest
	server.Start = func(_ context.Context, r *rpc.StartDomainRequest) (*rpc.Domain, error) {
		asked = r
		return server.Become(rpc.DomainState_DOMAIN_STATE_RUNNING), nil
	}
	launchertest.Serve(t, n.AddPod(t, pod), server)
	l := connect(t, n)

	d, err := l.StartDomain(context.Background(),
		[]launchers.Interface{{Tap: "tap0", Prepared: podnet.Prepared{MTU: 1400}}})
	require.NoError(t, err)
	require.Equal(t, contract.DomainObservation{PodUID: pod, Sequence: 1, State: contract.DomainRunning}, d)
	require.Equal(t, "tap0", asked.GetInterfaces()[0].GetTap())
	require.Equal(t, int32(1400), asked.GetInterfaces()[0].GetMtu())

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	seen := make(chan contract.DomainObservation)
	ended := make(chan error)
	go func() { ended <- l.Watch(ctx, func(d contract.DomainObservation) { seen <- d }) }()
	require.Equal(t, contract.DomainRunning, (<-seen).State)
	server.Become(rpc.DomainState_DOMAIN_STATE_PAUSED)
	require.Equal(t, contract.DomainPaused, (<-seen).State)
	cancel()
	require.Error(t, <-ended)
}

func TestConnectWithoutLauncher(t *testing.T) {
	n := launchertest.NewNode(t)
	_, err := n.Dialer().Connect(context.Background(), pod)
	require.ErrorIs(t, err, launchers.ErrAbsent)
	require.True(t, launchers.IsPodGone(n.KubeletDir, pod))

	socket := n.AddPod(t, pod)
	_, err = n.Dialer().Connect(context.Background(), pod)
	require.ErrorIs(t, err, launchers.ErrAbsent)
	require.False(t, launchers.IsPodGone(n.KubeletDir, pod))

	launchertest.Listen(t, socket).Close() // leaves the file
	_, err = n.Dialer().Connect(context.Background(), pod)
	require.ErrorIs(t, err, launchers.ErrAbsent)
}

// TestTraps: in the place of the socket is what a hostile launcher, which owns the volume, could put there.
func TestTraps(t *testing.T) {
	for name, set := range map[string]func(t *testing.T, n launchertest.Node, socket string){
		"a link to another pod's socket": func(t *testing.T, n launchertest.Node, socket string) {
			victim := n.AddPod(t, other)
			launchertest.Serve(t, victim, launchertest.NewLauncher())
			require.NoError(t, os.Symlink(victim, socket))
		},
		"a link to another pod's volume": func(t *testing.T, n launchertest.Node, socket string) {
			victim := n.AddPod(t, other)
			launchertest.Serve(t, victim, launchertest.NewLauncher())
			require.NoError(t, os.Remove(filepath.Dir(socket)))
			require.NoError(t, os.Symlink(filepath.Dir(victim), filepath.Dir(socket)))
		},
		"a FIFO": func(t *testing.T, _ launchertest.Node, socket string) {
			require.NoError(t, unix.Mkfifo(socket, 0o666))
		},
		"a directory": func(t *testing.T, _ launchertest.Node, socket string) {
			require.NoError(t, os.Mkdir(socket, 0o777))
		},
		"a file": func(t *testing.T, _ launchertest.Node, socket string) {
			require.NoError(t, os.WriteFile(socket, nil, 0o666))
		},
		"a socket of a process in another pod": func(t *testing.T, n launchertest.Node, socket string) {
			launchertest.Serve(t, socket, launchertest.NewLauncher())
			n.Join(t, other)
		},
		"another pod's socket, linked hard": func(t *testing.T, n launchertest.Node, socket string) {
			victim := n.AddPod(t, other)
			launchertest.Serve(t, victim, launchertest.NewLauncher())
			require.NoError(t, os.Link(victim, socket))
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := launchertest.NewNode(t)
			set(t, n, n.AddPod(t, pod))
			if !strings.Contains(name, "another pod") {
				n.Join(t, pod)
			}
			_, err := n.Dialer().Connect(context.Background(), pod)
			require.Error(t, err)
			require.NotErrorIs(t, err, launchers.ErrAbsent)
		})
	}
}

func TestNoPathFromOutside(t *testing.T) {
	n := launchertest.NewNode(t)
	n.AddPod(t, pod)
	for _, uid := range []string{"../pods/" + pod, pod + "/.", ""} {
		_, err := n.Dialer().Connect(context.Background(), uid)
		require.ErrorContains(t, err, "is not the UID of a pod")
	}
}

func TestRefusals(t *testing.T) {
	for code, refused := range map[codes.Code]bool{
		codes.InvalidArgument: true, codes.FailedPrecondition: true, codes.Internal: false, codes.Unavailable: false,
		codes.ResourceExhausted: false,
	} {
		t.Run(code.String(), func(t *testing.T) {
			n := launchertest.NewNode(t)
			server := launchertest.NewLauncher()
			server.Start = func(context.Context, *rpc.StartDomainRequest) (*rpc.Domain, error) {
				return nil, status.Error(code, "no machine\n"+strings.Repeat("y", 4000))
			}
			launchertest.Serve(t, n.AddPod(t, pod), server)
			_, err := connect(t, n).StartDomain(context.Background(), nil)
			require.ErrorContains(t, err, "no machine yyy")
			require.Less(t, len(err.Error()), 1200)
			var r *launchers.RefusedError
			require.Equal(t, refused, asRefused(err, &r), err)
		})
	}
}

func TestTooLargeAnAnswer(t *testing.T) {
	n := launchertest.NewNode(t)
	server := launchertest.NewLauncher()
	server.Start = func(context.Context, *rpc.StartDomainRequest) (*rpc.Domain, error) {
		return &rpc.Domain{Reason: strings.Repeat("z", 2<<20)}, nil
	}
	launchertest.Serve(t, n.AddPod(t, pod), server)
	_, err := connect(t, n).StartDomain(context.Background(), nil)
	require.ErrorContains(t, err, "ResourceExhausted")
}

// TestSilence: one launcher accepts a connection and sends nothing, and another sends nonsense.
func TestSilence(t *testing.T) {
	for name, behave := range map[string]func(net.Conn){
		"says nothing":   func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"hangs up":       func(c net.Conn) { c.Close() },
		"talks nonsense": func(c net.Conn) { fmt.Fprint(c, strings.Repeat("nonsense", 1<<16)); c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			n := launchertest.NewNode(t)
			listener := launchertest.Listen(t, n.AddPod(t, pod))
			go func() {
				for {
					c, err := listener.Accept()
					if err != nil {
						return
					}
					go behave(c)
				}
			}()
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			l := connect(t, n)
			_, err := l.StartDomain(ctx, nil)
			require.Error(t, err)
			require.Error(t, l.Watch(ctx, func(contract.DomainObservation) {}))
		})
	}
}

func connect(t *testing.T, n launchertest.Node) *launchers.Launcher {
	l, err := n.Dialer().Connect(context.Background(), pod)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

func asRefused(err error, r **launchers.RefusedError) bool {
	refused, ok := err.(*launchers.RefusedError) //nolint:errorlint // never wrapped
	*r = refused
	return ok
}
