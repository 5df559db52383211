package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	activities "github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/forward"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/launchertest"
	"github.com/virtflow/virtflow/workers/node/records"
)

// launcherEnv makes this test program the launcher of a pod whose directory it names.
const launcherEnv = "VIRTFLOW_TEST_LAUNCHER_IN"

const socketInPod = "/volumes/kubernetes.io~empty-dir/sockets/launcher.sock"

func TestMain(m *testing.M) {
	if dir := os.Getenv(launcherEnv); dir != "" {
		if err := beLauncher(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestRealPod starts a domain in a process that has what makes a pod: a cgroup, a network namespace and a root
// directory of its own.
func TestRealPod(t *testing.T) {
	require.Zero(t, os.Geteuid(), "this test makes a cgroup and a network namespace: run it as root")
	kubelet := t.TempDir()
	launcher := startLauncher(t, kubelet)
	store, err := records.Open(t.TempDir())
	require.NoError(t, err)
	a := &activities.Activities{Starter: NewStarter(zerolog.Nop(),
		launchers.Dialer{KubeletDir: kubelet, ProcDir: "/proc"},
		forward.New(forward.Options{Log: zerolog.Nop(), Records: store}, nil), PrepareNetworks)}

	_, err = a.StartDomain(context.Background(), input)
	require.ErrorContains(t, err, "does not belong to that pod")
	none, err := store.Load()
	require.NoError(t, err)
	require.Empty(t, none)

	joinCgroup(t, launcher)
	for range 2 {
		r, err := a.StartDomain(context.Background(), input)
		require.NoError(t, err)
		require.Equal(t, contract.DomainRunning, r.Domain.State)
		// The launcher repeats what it was sent, and what it sees of the tap device.
		require.Equal(t, []contract.DomainInterface{
			{Name: "tap0 k6t-eth0 10.0.2.2/24 10.0.2.1 1500", PodInterfaceName: "eth0",
				LinkState: "owner 107"}}, r.Domain.Interfaces)
	}
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(filepath.Join(kubelet, "pods", pod, "dev/net/tun"), &st))
	require.Equal(t, uint32(107), st.Uid)
}

func startLauncher(t *testing.T, kubelet string) *os.Process {
	dir := filepath.Join(kubelet, "pods", pod)
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, socketInPod)), 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "dev"), 0o755))
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), launcherEnv+"="+dir)
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	require.Eventually(t, func() bool {
		_, err := os.Lstat(filepath.Join(dir, socketInPod))
		return err == nil
	}, 10*time.Second, 5*time.Millisecond)
	return c.Process
}

// joinCgroup puts a process into the cgroup of the pod, with whichever version this machine has.
func joinCgroup(t *testing.T, p *os.Process) {
	root := "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
		root = filepath.Join(root, "pids")
	}
	top := filepath.Join(root, "virtflow-test-"+strconv.Itoa(os.Getpid()))
	dir := filepath.Join(top, "pod"+pod)
	require.NoError(t, os.MkdirAll(dir, 0o755), "this test needs to make a cgroup in %s", root)
	t.Cleanup(func() {
		// Cleanups run last first: the process is still there.
		_ = p.Kill()
		for _, d := range []string{dir, top} {
			require.Eventually(t, func() bool { return os.Remove(d) == nil }, 10*time.Second, 10*time.Millisecond)
		}
	})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(p.Pid)), 0))
}

// beLauncher serves a launcher in the directory of a pod as its root, with an eth0.
func beLauncher(dir string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "eth0"
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "outside"}); err != nil {
		return err
	}
	if err := syscall.Chroot(dir); err != nil {
		return err
	}
	l := launchertest.NewLauncher()
	l.Start = func(_ context.Context, r *rpc.StartDomainRequest) (*rpc.Domain, error) {
		i := r.GetInterfaces()[0]
		tap, err := netlink.LinkByName(i.GetTap())
		if err != nil {
			return nil, err
		}
		return &rpc.Domain{State: rpc.DomainState_DOMAIN_STATE_RUNNING, Interfaces: []*rpc.DomainInterface{{
			Name: fmt.Sprintf("%s %s %s %s %d", i.GetTap(), i.GetBridge(), i.GetGuestAddress(), i.GetGateway(),
				i.GetMtu()),
			PodInterface: i.GetPodInterface(), LinkState: fmt.Sprintf("owner %d", tap.(*netlink.Tuntap).Owner),
		}}}, nil
	}
	listener, err := net.Listen("unix", socketInPod)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	rpc.RegisterLauncherServer(server, l)
	return server.Serve(listener)
}
