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

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/kvm"
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/workers/node/devices"
	"github.com/virtflow/virtflow/workers/node/report"
)

const (
	tunDevice      = "/dev/net/tun"
	vhostNetDevice = "/dev/vhost-net"
	// hostKVM is the node's own device file: this container's /dev shows the node's as it was when the container was
	// created.
	hostKVM = procDir + "/1/root" + kvm.Device
	// maxProblem limits the part of an error that is reported, in bytes.
	maxProblem = 256
)

// host has what this process reports of its node. It is safe for concurrent use.
type host struct {
	mu      sync.Mutex
	now     contract.NodeReport
	changed chan struct{} // has an element when the last report is out of date
	problem error         // why KVM does not work
	// found has the capabilities of the launcher's libvirt and QEMU, as found with or without KVM; nil: unknown.
	found *contract.HostCapabilities
}

// newHost returns a host whose report has what was found, without what is only for metrics.
func newHost(base contract.NodeReport, found *contract.HostCapabilities, problem error) *host {
	if found != nil {
		reported := *found
		reported.DeprecatedMachineTypes = nil
		found = &reported
	}
	h := &host{now: base, found: found, changed: make(chan struct{}, 1)}
	h.setKVM(problem)
	return h
}

// findHost examines the node. KVM is tried once; without an answer it counts as unusable until kvm.Watch finds
// otherwise.
func (o *Options) findHost(ctx context.Context, p *process.Process) *host {
	problem := tryKVM(ctx, 2*time.Second)
	if problem != nil {
		p.Log.Info().AnErr("why", problem).Msg("found no working KVM; guests run here only with emulation")
	}
	found, err := report.ReadCapabilities(o.Capabilities)
	if err != nil {
		p.Log.Error().Err(err).Msg(
			"failed to read the capabilities; the node gets no labels of machine types and CPUs")
	}
	if found != nil {
		p.Registry.MustRegister(report.NewDeprecated(o.NodeName, found.DeprecatedMachineTypes))
		if found.CPUManager, err = report.CPUManager(o.KubeletDir); err != nil {
			p.Log.Error().Err(err).
				Msg("failed to read the kubelet's CPU manager; dedicated CPUs are unavailable on this node")
		}
	}
	cpuinfo, _ := os.ReadFile(filepath.Join(procDir, "cpuinfo")) // without it the CPU is unknown
	cpu := report.ReadHost(string(cpuinfo))
	return newHost(contract.NodeReport{
		Incarnation: uuid.NewString(), Arch: cpu.Arch, CPUVendor: cpu.CPUVendor, CPUModel: cpu.CPUModel,
		Version: process.Version,
	}, found, problem)
}

// setKVM records why KVM does not work; nil: it does. QEMU's capabilities were found with KVM or without. In the other
// mode the CPUs of guests are unknown until the node worker's pod is replaced, and only what both modes have in common
// is reported.
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

// report returns the current report.
func (h *host) report() contract.NodeReport {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// send sends the current report, and again after each change, until ctx ends.
func (h *host) send(ctx context.Context, send func(contract.NodeReport)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.changed:
			send(h.report())
		}
	}
}

// offerDevices serves the device plugins, and watches whether KVM works.
func (o *Options) offerDevices(ctx context.Context, all *sync.WaitGroup, p *process.Process, h *host) {
	count := map[bool]int{true: o.MaxDevices}
	tun := &devices.Plugin{Resource: devices.Tun, Path: tunDevice, Count: count[isTunUsable(p)]}
	forKVM := &devices.Plugin{Resource: devices.KVM, Path: kvm.Device, Count: count[h.report().KVM]}
	vhostNet := &devices.Plugin{Resource: devices.VhostNet, Path: vhostNetDevice, Count: o.MaxDevices,
		Exists: hasVhostNet}
	for _, d := range []*devices.Plugin{tun, vhostNet, forKVM} {
		d.Dir, d.Log = filepath.Join(o.KubeletDir, "device-plugins"), p.Log
		p.Health.AddReady(d.Resource, d.Ready)
		all.Go(func() { d.Run(ctx) })
	}
	known := h.problem
	all.Go(func() {
		kvm.Watch(ctx, tryKVM, known, func(problem error) {
			p.Log.Warn().Bool("kvm", problem == nil).AnErr("why", problem).
				Msg("detected a change of KVM; labels of CPUs need a new pod of the node worker")
			h.setKVM(problem)
			forKVM.Offer(count[problem == nil])
		})
	})
}

func tryKVM(ctx context.Context, limit time.Duration) error {
	return kvm.Try(ctx, "/proc/self/exe", hostKVM, limit, (*exec.Cmd).Run)
}

// hasVhostNet reports whether the node has the device by which the kernel, instead of QEMU, moves a guest's packets.
// Nodes without it work as well, only slower: launchers that request it are placed there too.
func hasVhostNet() bool {
	_, err := os.Stat(procDir + "/1/root" + vhostNetDevice)
	return err == nil
}

// isTunUsable reports whether the tun device opens, which also loads its module.
func isTunUsable(p *process.Process) bool {
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		p.Log.Error().Err(err).Msg("failed to open the tun device: is " + strings.TrimPrefix(tunDevice, "/dev/") +
			" in the kernel?")
		return false
	}
	unix.Close(fd)
	return true
}
