package node

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/internal/kvm"
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/workers/node/devices"
	"github.com/virtflow/virtflow/workers/node/report"
	"github.com/virtflow/virtflow/workflows/contract"
)

const (
	tunDevice      = "/dev/net/tun"
	vhostNetDevice = "/dev/vhost-net"
	// hostKVM is the node's own device file: this container's /dev is as the node's was when it was made.
	hostKVM = procDir + "/1/root" + kvm.Device
	// maxProblem is how much of an error is reported, in bytes.
	maxProblem = 256
)

// host is what this run of the worker says of its node. It is safe for concurrent use.
type host struct {
	mu      sync.Mutex
	now     contract.NodeReport
	changed chan struct{} // one is there when what was told last is no longer true
	problem error         // why KVM does not work
	// found is what the launcher's libvirt and QEMU offer, as found with or without KVM; nil: not known.
	found *contract.HostCapabilities
}

func newHost(base contract.NodeReport, found *contract.HostCapabilities, problem error) *host {
	h := &host{now: base, found: found, changed: make(chan struct{}, 1)}
	h.setKVM(problem)
	return h
}

// findHost looks at the node. KVM is tried once; without an answer it counts as not working until kvm.Watch knows
// better.
func (o *Options) findHost(ctx context.Context, p *process.Process) *host {
	problem := tryKVM(ctx, 2*time.Second) //nolint:mnd // far more than an idle machine needs
	if problem != nil {
		p.Log.Info().AnErr("why", problem).Msg("KVM does not work here: guests run only where emulation is allowed")
	}
	found, err := report.ReadCapabilities(o.Capabilities)
	if err != nil {
		p.Log.Error().Err(err).Msg(
			"the node gets no labels of machine types and CPUs: no VM that asks for one is placed here")
	}
	if found != nil {
		if found.CPUManager, err = report.CPUManager(o.KubeletDir); err != nil {
			p.Log.Error().Err(err).Msg("no VM that wants CPUs of its own is placed here")
		}
	}
	cpuinfo, _ := os.ReadFile(filepath.Join(procDir, "cpuinfo")) // nothing is known without it
	cpu := report.ReadHost(string(cpuinfo))
	return newHost(contract.NodeReport{
		Incarnation: uuid.NewString(), Arch: cpu.Arch, CPUVendor: cpu.CPUVendor, CPUModel: cpu.CPUModel,
		Version: process.Version,
	}, found, problem)
}

// setKVM notes why KVM does not work; nil: it does. What QEMU offers was found with KVM or without: with the other, the
// CPUs of guests are not known before the node worker's pod is made anew, and only what is the same with both is
// reported.
func (h *host) setKVM(problem error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problem = problem
	h.now.Sequence++
	h.now.KVM, h.now.KVMProblem = problem == nil, ""
	virtType := "kvm"
	if problem != nil {
		h.now.KVMProblem, virtType = contract.Cut(problem.Error(), maxProblem), "qemu"
	}
	h.now.Capabilities = h.found
	if h.found != nil && h.found.VirtType != virtType {
		h.now.Capabilities = &contract.HostCapabilities{VirtType: virtType, MachineTypes: h.found.MachineTypes,
			CPUManager: h.found.CPUManager}
	}
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// report is what is true now.
func (h *host) report() contract.NodeReport {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// tell sends what is true now, and again after each change, until ctx ends.
func (h *host) tell(ctx context.Context, send func(contract.NodeReport)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.changed:
			send(h.report())
		}
	}
}

// offerDevices serves the device plugins, and follows whether KVM works.
func (o *Options) offerDevices(ctx context.Context, all *sync.WaitGroup, p *process.Process, h *host) {
	count := map[bool]int{true: o.MaxDevices}
	tun := &devices.Plugin{Resource: devices.Tun, Path: tunDevice, Count: count[worksTun(p)]}
	forKVM := &devices.Plugin{Resource: devices.KVM, Path: kvm.Device, Count: count[h.report().KVM]}
	vhostNet := &devices.Plugin{Resource: devices.VhostNet, Path: vhostNetDevice, Count: o.MaxDevices,
		There: hasVhostNet}
	for _, d := range []*devices.Plugin{tun, vhostNet, forKVM} {
		d.Dir, d.Log = filepath.Join(o.KubeletDir, "device-plugins"), p.Log
		p.Health.AddReady(d.Resource, d.Ready)
		all.Go(func() { d.Run(ctx) })
	}
	known := h.problem
	all.Go(func() {
		kvm.Watch(ctx, tryKVM, known, func(problem error) {
			p.Log.Warn().Bool("kvm", problem == nil).AnErr("why", problem).
				Msg("KVM is judged anew; labels of CPUs need a new pod of the node worker")
			h.setKVM(problem)
			forKVM.Offer(count[problem == nil])
		})
	})
}

func tryKVM(ctx context.Context, limit time.Duration) error {
	return kvm.Try(ctx, "/proc/self/exe", hostKVM, limit, (*exec.Cmd).Run)
}

// hasVhostNet says whether the node has the device by which the kernel moves a guest's packets instead of QEMU. Nodes
// without it are as good, only slower: launchers that ask for it come there, too.
func hasVhostNet() bool {
	_, err := os.Stat(procDir + "/1/root" + vhostNetDevice)
	return err == nil
}

// worksTun opens the device, which also loads its module.
func worksTun(p *process.Process) bool {
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		p.Log.Error().Err(err).Msg("no tap devices can be made: is " + strings.TrimPrefix(tunDevice, "/dev/") +
			" in the kernel?")
		return false
	}
	unix.Close(fd)
	return true
}
