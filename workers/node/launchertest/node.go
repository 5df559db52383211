package launchertest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/launchers"
)

// Node is a kubelet's directory, and a /proc in which this process is in the cgroup of a pod.
type Node struct {
	KubeletDir string
	ProcDir    string
}

// NewNode makes an empty one.
func NewNode(t testing.TB) Node {
	return Node{KubeletDir: t.TempDir(), ProcDir: t.TempDir()}
}

// Dialer connects to the launchers of the node.
func (n Node) Dialer() launchers.Dialer {
	return launchers.Dialer{KubeletDir: n.KubeletDir, ProcDir: n.ProcDir}
}

// AddPod makes the directory of a pod and puts this process into the pod's cgroup. It returns where the launcher's
// socket belongs.
func (n Node) AddPod(t testing.TB, uid string) (socket string) {
	n.Join(t, uid)
	dir := filepath.Join(n.KubeletDir, "pods", uid, "volumes/kubernetes.io~empty-dir/sockets")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return filepath.Join(dir, "launcher.sock")
}

// AddVMIVolume makes the kubelet's volume with the VMI of a pod, empty.
func (n Node) AddVMIVolume(t testing.TB, uid string) (dir string) {
	dir = filepath.Join(n.KubeletDir, "pods", uid, "volumes/kubernetes.io~downward-api/vmi")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

// WriteVMI gives a pod its VMI as the kubelet does: the file is a link to the current version.
func (n Node) WriteVMI(t testing.TB, uid, content string) {
	dir := n.AddVMIVolume(t, uid)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "..2026"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "..2026", "vmi.json"), []byte(content), 0o600))
	require.NoError(t, os.Symlink("..2026", filepath.Join(dir, "..data")))
	require.NoError(t, os.Symlink("..data/vmi.json", filepath.Join(dir, "vmi.json")))
}

// Join puts this process, as the node sees it, into the cgroup of a pod.
func (n Node) Join(t testing.TB, uid string) {
	dir := filepath.Join(n.ProcDir, strconv.Itoa(os.Getpid()))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup"),
		fmt.Appendf(nil, "0::/kubepods/burstable/pod%s/1\n", uid), 0o600))
}

// RemovePod does what the kubelet does when a pod is gone.
func (n Node) RemovePod(t testing.TB, uid string) {
	require.NoError(t, os.RemoveAll(filepath.Join(n.KubeletDir, "pods", uid)))
}

// Serve serves a launcher on a socket until the test or the returned function ends it.
func Serve(t testing.TB, socket string, s rpc.LauncherServer) (stop func()) {
	server := grpc.NewServer()
	rpc.RegisterLauncherServer(server, s)
	listener := Listen(t, socket)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return server.Stop
}

// Listen listens on a socket whose path may be longer than a socket's may be.
func Listen(t testing.TB, socket string) net.Listener {
	dir, err := os.Open(filepath.Dir(socket))
	require.NoError(t, err)
	defer dir.Close()
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(socket)))
	require.NoError(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	t.Cleanup(func() { l.Close() })
	return l
}
