package launchers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/launchertest"
)

// TestConnectRejectsPlantedFiles: a launcher's volume has files that would keep the node worker busy, fill its memory
// or send it elsewhere. Each attempt to connect fails at once, and leaves no file open.
func TestConnectRejectsPlantedFiles(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, socket string){
		"a huge file": func(t *testing.T, socket string) {
			require.NoError(t, os.WriteFile(socket, []byte("x"), 0o666))
			require.NoError(t, os.Truncate(socket, 1<<40))
		},
		"a link to itself": func(t *testing.T, socket string) {
			require.NoError(t, os.Symlink(filepath.Base(socket), socket))
		},
		"a chain of links": func(t *testing.T, socket string) {
			last := "/run/containerd/containerd.sock"
			for i := range 30 {
				next := filepath.Join(filepath.Dir(socket), fmt.Sprint("link", i))
				require.NoError(t, os.Symlink(last, next))
				last = next
			}
			require.NoError(t, os.Symlink(last, socket))
		},
		"a link through /proc": func(t *testing.T, socket string) {
			require.NoError(t, os.Symlink("/proc/self/root/run/containerd/containerd.sock", socket))
		},
		"a FIFO without a writer": func(t *testing.T, socket string) {
			require.NoError(t, unix.Mkfifo(socket, 0o666))
		},
		"a device": func(t *testing.T, socket string) {
			if err := unix.Mknod(socket, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); errors.Is(err, unix.EPERM) {
				t.Skip("devices cannot be made here")
			}
		},
		"a volume that is a link out of the pod": func(t *testing.T, socket string) {
			elsewhere := t.TempDir()
			launchertest.Serve(t, filepath.Join(elsewhere, "launcher.sock"), launchertest.NewLauncher())
			require.NoError(t, os.Remove(filepath.Dir(socket)))
			require.NoError(t, os.Symlink(elsewhere, filepath.Dir(socket)))
		},
		"a crowd of files": func(t *testing.T, socket string) {
			for i := range 2000 {
				require.NoError(t, os.WriteFile(fmt.Sprint(socket, i), nil, 0o600))
			}
			require.NoError(t, os.Mkdir(socket, 0o777))
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := launchertest.NewNode(t)
			plant(t, n.AddPod(t, pod))
			before := descriptors(t)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for range 20 {
				_, err := n.Dialer().Connect(ctx, pod)
				require.Error(t, err)
				require.NotErrorIs(t, err, launchers.ErrAbsent)
			}
			require.NoError(t, ctx.Err(), "Connect blocked")
			require.LessOrEqual(t, descriptors(t), before+2, "files were left open")
		})
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(all)
}

// TestChangedUnderway has a launcher that puts its own socket and a link to another pod's in place by turns while the
// node worker connects. What answers is always the launcher of the very pod.
func TestChangedUnderway(t *testing.T) {
	n := launchertest.NewNode(t)
	victim := n.AddPod(t, other)
	theirs := launchertest.NewLauncher()
	theirs.Start = func(context.Context, *rpc.StartDomainRequest) (*rpc.Domain, error) {
		return theirs.Become(rpc.DomainState_DOMAIN_STATE_CRASHED), nil
	}
	launchertest.Serve(t, victim, theirs)
	socket := n.AddPod(t, pod)
	ours := launchertest.NewLauncher()
	ours.Start = func(context.Context, *rpc.StartDomainRequest) (*rpc.Domain, error) {
		return ours.Become(rpc.DomainState_DOMAIN_STATE_RUNNING), nil
	}
	launchertest.Serve(t, socket, ours)
	genuine, link := socket+".genuine", socket+".link"
	require.NoError(t, os.Link(socket, genuine))
	require.NoError(t, os.Symlink(victim, link))

	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, put := range []string{link, genuine} {
				// Renaming puts it there without a moment in between.
				if os.Rename(put, socket) != nil {
					return
				}
				if put == link {
					_ = os.Symlink(victim, link)
				} else {
					_ = os.Link(socket, genuine)
				}
			}
		}
	})
	reached := 0
	for range 500 {
		l, err := n.Dialer().Connect(t.Context(), pod)
		if err != nil {
			continue
		}
		d, err := l.StartDomain(t.Context(), nil)
		l.Close()
		if err != nil {
			continue
		}
		reached++
		require.Equal(t, contract.DomainRunning, d.State, "another pod's launcher was reached")
	}
	close(stop)
	swapping.Wait()
	require.Positive(t, reached)
}

// TestAnotherName: a launcher has no way to say which VM, or which pod, it speaks of. What it says is of the pod whose
// socket it was.
func TestAnotherName(t *testing.T) {
	n := launchertest.NewNode(t)
	liar := launchertest.NewLauncher()
	liar.Start = func(context.Context, *rpc.StartDomainRequest) (*rpc.Domain, error) {
		d := liar.Become(rpc.DomainState_DOMAIN_STATE_RUNNING)
		d.Reason = other
		// What an older or newer launcher may add is not read either.
		d.ProtoReflect().SetUnknown([]byte{0xfa, 0x3f, 0x04, 'v', 'm', '/', 'x'})
		return d, nil
	}
	launchertest.Serve(t, n.AddPod(t, pod), liar)
	d, err := connect(t, n).StartDomain(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, pod, d.PodUID)
	fields := (&rpc.Domain{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		require.NotContains(t, []string{"uid", "pod_uid", "namespace", "name", "vmi"}, string(fields.Get(i).Name()),
			"a launcher must not name itself")
	}
}
