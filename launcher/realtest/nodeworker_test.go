//go:build libvirt

package realtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workers/node"
	"github.com/virtflow/virtflow/workers/node/forward"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/migrate"
	"github.com/virtflow/virtflow/workers/node/records"
)

// workerEnv makes this test program the part of a node worker that moves guests. It has the options, and is asked by
// JSON-RPC on standard input and output, as a worker is by its activities.
const workerEnv = "VIRTFLOW_TEST_NODE_WORKER"

func TestMain(m *testing.M) {
	if o := os.Getenv(workerEnv); o != "" {
		if err := beNodeWorker(o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	removeImages()
	os.Exit(code)
}

type workerOptions struct{ KubeletDir, ProcDir, Records string }

// NodeWorker is what net/rpc serves: the calls of activities.Mover.
type NodeWorker struct{ mover *node.Mover }

func (w *NodeWorker) Offer(in contract.OfferMigrationInput, out *contract.MigrationOffer) (err error) {
	*out, err = w.mover.Offer(context.Background(), in)
	return err
}

func (w *NodeWorker) PrepareTarget(in contract.PrepareTargetInput, out *contract.PreparedTarget) (err error) {
	*out, err = w.mover.PrepareTarget(context.Background(), in)
	return err
}

func (w *NodeWorker) Migrate(in contract.MigrateDomainInput, out *contract.MigrationOutcome) (err error) {
	*out, err = w.mover.Migrate(context.Background(), in, func(contract.MigrationProgress) {})
	return err
}

func (w *NodeWorker) Abort(in contract.AbortMigrationInput, out *bool) (err error) {
	*out, err = w.mover.Abort(context.Background(), in)
	return err
}

func (w *NodeWorker) Adjust(in contract.AdjustMigrationInput, _ *bool) error {
	return w.mover.Adjust(context.Background(), in)
}

func (w *NodeWorker) FinishTarget(in contract.FinishTargetInput, out *contract.DomainObservation) (err error) {
	*out, err = w.mover.FinishTarget(context.Background(), in)
	return err
}

func (w *NodeWorker) WithdrawTarget(in contract.WithdrawTargetInput, _ *bool) error {
	return w.mover.WithdrawTarget(context.Background(), in)
}

func (w *NodeWorker) Inspect(in contract.InspectMigrationInput, out *contract.MigrationTruth) (err error) {
	*out, err = w.mover.Inspect(context.Background(), in)
	return err
}

type stdio struct {
	io.Reader
	io.Writer
}

func (stdio) Close() error { return nil }

func beNodeWorker(options string) error {
	var o workerOptions
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return err
	}
	store, err := records.Open(o.Records)
	if err != nil {
		return err
	}
	log := zerolog.New(os.Stderr).With().Timestamp().Logger()
	starter := node.NewStarter(log, launchers.Dialer{KubeletDir: o.KubeletDir, ProcDir: o.ProcDir},
		forward.New(forward.Options{Log: log, Records: store}, nil),
		func(context.Context, *launchers.Launcher) ([]launchers.Interface, error) { return nil, nil })
	mover := node.NewMover(starter, migrate.NewSessions("node", log, nil),
		migrate.NewTargets(migrate.TargetOptions{Log: log, Pod: netip.MustParseAddr("127.0.0.1")}))
	server := rpc.NewServer()
	if err := server.RegisterName("Node", &NodeWorker{mover}); err != nil {
		return err
	}
	server.ServeCodec(jsonrpc.NewServerCodec(stdio{os.Stdin, os.Stdout}))
	return nil
}

// nodeWorker is one that runs, for the node of one pod.
type nodeWorker struct {
	t       *testing.T
	pod     *pod
	uid     string // of the pod
	options workerOptions
	cmd     *exec.Cmd
	client  *rpc.Client
}

// newNodeWorker puts a pod's sockets where a kubelet has them, and its launcher into the cgroup of the pod, as the node
// worker sees it.
func newNodeWorker(t *testing.T, p *pod) *nodeWorker {
	t.Helper()
	w := &nodeWorker{t: t, pod: p, uid: uuid.NewString(), options: workerOptions{
		KubeletDir: t.TempDir(), ProcDir: t.TempDir(), Records: t.TempDir()}}
	sockets := filepath.Join(w.options.KubeletDir, "pods", w.uid, "volumes/kubernetes.io~empty-dir/sockets")
	require.NoError(t, os.MkdirAll(sockets, 0o755)) // as a kubelet does
	require.NoError(t, unix.Mount(p.at("sockets"), sockets, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(sockets, unix.MNT_DETACH) })
	pid, found := p.process("launcher")
	require.True(t, found)
	proc := filepath.Join(w.options.ProcDir, strconv.Itoa(pid))
	require.NoError(t, os.Mkdir(proc, 0o755)) // as the kernel does
	require.NoError(t, os.WriteFile(filepath.Join(proc, "cgroup"),
		fmt.Appendf(nil, "0::/kubepods/burstable/pod%s/1\n", w.uid), 0o600))
	w.start()
	return w
}

func (w *nodeWorker) start() {
	w.t.Helper()
	options, err := json.Marshal(w.options)
	require.NoError(w.t, err)
	log, err := os.OpenFile(w.pod.at("worker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(w.t, err)
	defer log.Close() //nolint:errcheck // the child has its own
	w.cmd = exec.Command("/proc/self/exe")
	w.cmd.Env = append(os.Environ(), workerEnv+"="+string(options))
	w.cmd.Stderr = log
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := w.cmd.StdinPipe()
	require.NoError(w.t, err)
	out, err := w.cmd.StdoutPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, w.cmd.Start())
	w.client = jsonrpc.NewClient(stdio{out, in})
	cmd := w.cmd
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if w.t.Failed() {
			b, _ := os.ReadFile(w.pod.at("worker.log"))
			w.t.Logf("the node worker's log:\n%s", b)
		}
	})
}

// kill is what nothing can be done about.
func (w *nodeWorker) kill() {
	w.t.Helper()
	require.NoError(w.t, w.cmd.Process.Kill())
	_ = w.cmd.Wait()
}

func (w *nodeWorker) call(method string, in, out any) {
	w.t.Helper()
	require.NoError(w.t, w.client.Call("Node."+method, in, out), method)
}

// workersMove is one migration by two node workers, through real TLS.
type workersMove struct {
	*move
	source, target *nodeWorker
	in             contract.MigrateDomainInput
}

func newWorkersMove(t *testing.T, from, to *pod) *workersMove {
	t.Helper()
	return &workersMove{move: newMove(t, from, to), source: newNodeWorker(t, from), target: newNodeWorker(t, to)}
}

func (m *workersMove) of() (migration, vmi contract.Object) {
	return contract.Object{Namespace: "default", Name: "move", UID: m.uid},
		contract.Object{Namespace: "default", Name: "vm1", UID: "0f1e"}
}

func (w *nodeWorker) object() contract.Object {
	return contract.Object{Namespace: "default", Name: "virt-launcher-vm1", UID: w.uid}
}

func (m *workersMove) prepareBoth() {
	m.t.Helper()
	migration, vmi := m.of()
	expires := time.Now().Add(time.Hour)
	var offer contract.MigrationOffer
	m.source.call("Offer", contract.OfferMigrationInput{
		Migration: migration, VMI: vmi, Pod: m.source.object(), Expires: expires}, &offer)
	require.Len(m.t, offer.Disks, 3)
	require.Len(m.t, offer.Files, 1)
	m.in = contract.MigrateDomainInput{Migration: migration, VMI: vmi, Pod: m.source.object()}
	m.target.call("PrepareTarget", contract.PrepareTargetInput{Migration: migration, VMI: vmi,
		Pod: m.target.object(), Offer: offer, Expires: expires}, &m.in.Target)
}

// migrates has the source's node worker move the guest, or follow what does.
func (m *workersMove) migrates() <-chan *rpc.Call {
	return m.source.client.Go("Node.Migrate", m.in, new(contract.MigrationOutcome), make(chan *rpc.Call, 1)).Done
}

func (m *workersMove) outcome(call <-chan *rpc.Call) contract.MigrationOutcome {
	m.t.Helper()
	select {
	case c := <-call:
		require.NoError(m.t, c.Error)
		return *c.Reply.(*contract.MigrationOutcome)
	case <-time.After(deadline):
		require.Fail(m.t, "the migration does not end")
	}
	panic("not reached")
}

func (m *workersMove) inspects(w *nodeWorker) (truth contract.MigrationTruth) {
	m.t.Helper()
	migration, vmi := m.of()
	w.call("Inspect", contract.InspectMigrationInput{Migration: migration, VMI: vmi, Pod: w.object()}, &truth)
	return truth
}

// adjusts has a running migration changed, in as many attempts as it takes: to pause the guest, QEMU waits for all I/O
// in flight to the disks of both sides, and on a slow disk longer than a node worker waits for its launcher.
func (m *workersMove) adjusts(in contract.AdjustMigrationInput, running <-chan *rpc.Call) {
	m.t.Helper()
	in.Pod = m.source.object()
	in.Migration, in.VMI = m.of()
	m.from.eventually("the migration is changed", func() bool {
		err := m.source.client.Call("Node.Adjust", in, new(bool))
		if err != nil {
			m.t.Log(err)
		}
		return err == nil || len(running) > 0
	})
}

// withdrawsTarget ends the target: nothing of it stays.
func (m *workersMove) withdrawsTarget() {
	m.t.Helper()
	migration, vmi := m.of()
	m.target.call("WithdrawTarget",
		contract.WithdrawTargetInput{Migration: migration, VMI: vmi, Pod: m.target.object()}, new(bool))
	m.notReceived()
}

// runs checks that the guest runs at its source, and counts.
func (m *workersMove) runs() {
	m.t.Helper()
	m.from.eventually("the guest runs on", func() bool {
		return m.inspects(m.source).Domain.State == contract.DomainRunning
	})
	n := m.from.counted()
	m.from.eventually("and counts", func() bool { return m.from.counted() > n })
}
