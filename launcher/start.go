package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/internal/kvm"
	"github.com/virtflow/virtflow/launcher/console"
	"github.com/virtflow/virtflow/launcher/disk"
	"github.com/virtflow/virtflow/launcher/domain"
	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/hostcpus"
	"github.com/virtflow/virtflow/launcher/hostdevices"
	"github.com/virtflow/virtflow/launcher/lifecycle"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/launcher/virtiofs"
)

// errNoKVM is KubeVirt's text.
var errNoKVM = errors.New("kvm not present and emulation is not allowed") //nolint:gochecknoglobals // a constant error

// startRequest is one caller's request for the domain. The answer is nil when the domain is as its state says, or an
// error with a gRPC status.
type startRequest struct {
	interfaces []*rpc.PodInterface
	answer     chan error
}

// startResult is how an attempt ended.
type startResult struct {
	err    error
	report *rpc.Domain // what is known of the domain besides its state
	built  *built
}

// startDomain is the service's call: it hands the request to the loop and waits. A caller that leaves changes nothing,
// and any number of callers share one attempt.
func (l *Launcher) startDomain(ctx context.Context, interfaces []*rpc.PodInterface) (*rpc.Domain, error) {
	r := startRequest{interfaces: interfaces, answer: make(chan error, 1)}
	select {
	case l.starts <- r:
	case <-l.over:
		return l.domain.Domain(), nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	select {
	case err := <-r.answer:
		if err != nil {
			return nil, err
		}
		return l.domain.Domain(), nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// asked notes the caller, whom answer will tell.
func (l *Launcher) asked(r startRequest) lifecycle.Input {
	if t := l.target(); t.asked && !t.granted {
		r.answer <- status.Error(codes.FailedPrecondition, "this launcher is to receive its guest from another node")
		return ""
	}
	if l.machine.State() == lifecycle.Idle {
		interfaces, err := prepared(l.vmi, r.interfaces)
		if err != nil {
			r.answer <- status.Error(codeOf(err), err.Error())
			return ""
		}
		l.interfaces, l.startErr = interfaces, nil
	}
	l.waiting = append(l.waiting, r.answer)
	return lifecycle.StartAsked
}

// answer tells the callers how the start went, once there is none under way.
func (l *Launcher) answer() {
	switch l.machine.State() { //nolint:exhaustive // all others have an answer
	case lifecycle.Starting, lifecycle.Abandoning, lifecycle.AbandoningNow:
		return
	}
	for _, w := range l.waiting {
		w <- l.startErr
	}
	l.waiting = nil
}

// startEnded sorts the end of an attempt.
func (l *Launcher) startEnded(r startResult) lifecycle.Input {
	l.startErr = nil
	if r.err == nil {
		l.setBuilt(r.built)
		l.domain.Update(func(d *rpc.Domain) {
			if d.GetState() == rpc.DomainState_DOMAIN_STATE_ABSENT {
				d.State = rpc.DomainState_DOMAIN_STATE_RUNNING
				if domain.StartPaused(l.vmi) {
					d.State, d.PauseReason = rpc.DomainState_DOMAIN_STATE_PAUSED, rpc.PauseReason_PAUSE_REASON_USER
				}
			}
			l.describe(d, r.report)
		})
		return lifecycle.StartDone
	}
	code := codeOf(r.err)
	l.startErr = status.Error(code, r.err.Error())
	l.log.Error().Err(r.err).Stringer("code", code).Msg("the domain was not started")
	if code == codes.Unavailable {
		return lifecycle.StartRetryable
	}
	l.message = r.err.Error()
	return lifecycle.StartRefused
}

// describe takes what is known of the domain besides its state.
func (l *Launcher) describe(d, report *rpc.Domain) {
	d.GuestMemoryBytes = report.GetGuestMemoryBytes()
	if m := report.GetMachineType(); m != "" {
		d.MachineType = m
	}
	d.Interfaces, d.Volumes = report.GetInterfaces(), report.GetVolumes()
}

// codeOf: INVALID_ARGUMENT for what somebody has to change in the VMI or its images, FAILED_PRECONDITION for what this
// place cannot do, UNAVAILABLE for what may pass.
func codeOf(err error) codes.Code {
	var invalid *domain.InvalidError
	var image *disk.Error
	switch {
	case errors.As(err, &invalid), errors.As(err, &image):
		return codes.InvalidArgument
	case errors.Is(err, guest.ErrUnavailable), errors.Is(err, kvm.ErrNoAnswer), errors.Is(err, errOldWorker),
		errors.Is(err, disk.ErrNotGiven):
		return codes.Unavailable
	default:
		return codes.FailedPrecondition
	}
}

// start prepares everything and starts the domain. It runs beside the loop, one at a time.
func (l *Launcher) start(ctx context.Context) {
	begun := time.Now()
	b, report, err := l.tryStart(ctx)
	l.log.Info().Dur("took", time.Since(begun)).Bool("ok", err == nil).Msg("start")
	l.started <- startResult{err: err, report: report, built: b}
}

// judgeKVM says whether the guest runs with KVM, or with emulation where that is allowed: there a device that does not
// answer counts as none. Where it is not the start may be tried again: the node may only be busy.
func (l *Launcher) judgeKVM(ctx context.Context) (use bool, err error) {
	switch err := kvm.Judge(ctx, l.kvm); {
	case err == nil:
		return true, nil
	case l.cfg.AllowEmulation:
		l.log.Warn().Err(err).Msg("KVM does not work here; QEMU emulates the CPU")
		return false, nil
	case errors.Is(err, kvm.ErrNoAnswer):
		return false, fmt.Errorf("%s is there but does not answer; the node may be too busy: %w", kvm.Device, err)
	default:
		return false, fmt.Errorf("%w (%w)", errNoKVM, err)
	}
}

func (l *Launcher) tryStart(ctx context.Context) (*built, *rpc.Domain, error) {
	plan, err := l.plan()
	if err != nil {
		return nil, nil, err
	}
	if err := l.takeState(); err != nil {
		return nil, nil, err
	}
	b, err := l.build(ctx, plan, l.interfaces)
	if err != nil {
		return nil, nil, err
	}
	xml, err := b.domain.Marshal()
	if err != nil {
		return nil, nil, fmt.Errorf("writing the domain's XML: %w", err)
	}
	l.log.Debug().Str("xml", xml).Msg("domain")
	l.followConsole(ctx, false)
	machine, err := l.hypervisor.Start(xml, domain.StartPaused(l.vmi))
	if err != nil {
		return nil, nil, err
	}
	r := report(l.vmi, b.domain, b.volumes, l.interfaces)
	r.MachineType = machine
	return b, r, nil
}

// built is a domain with what is behind its disks.
type built struct {
	domain  *libvirtxml.Domain
	plan    []disk.Volume
	volumes map[string]domain.Volume
}

// plan lists what is behind the VMI's disks.
func (l *Launcher) plan() ([]disk.Volume, error) { return l.planOf(l.vmi) }

func (l *Launcher) planOf(vmi *v1.VirtualMachineInstance) ([]disk.Volume, error) {
	return disk.Plan(vmi, disk.Directories{
		Images: l.cfg.ContainerDisks, CloudInit: l.cfg.CloudInit,
		UserData: l.cfg.UserData, NetworkData: l.cfg.NetworkData, Files: l.cfg.Files,
		AccessCredentials: l.cfg.AccessCredentials, Disks: l.cfg.Disks, Claims: l.cfg.Claims, Devices: l.cfg.Devices,
	})
}

// build prepares everything that the domain needs here, and makes it.
func (l *Launcher) build(
	ctx context.Context, plan []disk.Volume, interfaces []*rpc.PodInterface,
) (*built, error) {
	useKVM, err := l.judgeKVM(ctx)
	if err != nil {
		return nil, err
	}
	volumes, err := l.disks.Prepare(ctx, l.vmi, plan)
	if err != nil {
		return nil, err
	}
	sockets, err := l.fileSystems()
	if err != nil {
		return nil, err
	}
	if err := l.serveDHCP(ctx); err != nil {
		return nil, err
	}
	boot, err := disk.Boot(l.vmi, l.cfg.KernelBoot)
	if err != nil {
		return nil, err
	}
	tables, err := disk.ACPITables(l.vmi, l.cfg.Files)
	if err != nil {
		return nil, err
	}
	networks := taps(interfaces)
	devices := hostdevices.Find(&l.vmi.Spec.Domain, os.Getenv)
	if devices.Claimed, err = hostdevices.Claimed(&l.vmi.Spec, hostdevices.Files); err != nil {
		return nil, err
	}
	if err := hostNetworks(l.vmi, os.Getenv, devices.Claimed, networks); err != nil {
		return nil, err
	}
	cpus, err := l.ownCPUs()
	if err != nil {
		return nil, err
	}
	d, err := domain.Build(domain.Input{
		VMI: l.vmi, Hardware: l.cfg.Hardware, KVM: useKVM, Volumes: volumes, Interfaces: networks, Boot: boot,
		CPUs: cpus, FileSystems: sockets, ACPITables: tables,
		HostDevices: devices,
		Paths: domain.Paths{
			Emulator: l.cfg.Emulator, Serial: l.cfg.serial(), SerialLog: l.cfg.serialLog(), VNC: l.cfg.vnc(),
			USB: l.cfg.usbRedirection(), Agent: l.cfg.agent(), NVRAM: l.cfg.state().NVRAM(), TPM: l.cfg.state().TPM(),
		},
	})
	if err != nil {
		return nil, err
	}
	return &built{domain: d, plan: plan, volumes: volumes}, nil
}

// fileSystems has a daemon for each that the guest has by virtiofs, and returns their sockets.
func (l *Launcher) fileSystems() (map[string]string, error) {
	list, err := virtiofs.Plan(l.vmi, virtiofs.Directories{
		Claims: l.cfg.Claims, Files: l.cfg.Files, Sockets: l.cfg.Private})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	sockets := make(map[string]string, len(list))
	for _, s := range list {
		sockets[s.Name] = s.Socket
	}
	return sockets, l.daemons.Run(list, l.fileSystemLost)
}

// ownCPUs are those that the node has given this pod, where the guest is to have them for itself.
func (l *Launcher) ownCPUs() ([]domain.HostCPU, error) {
	if c := l.vmi.Spec.Domain.CPU; c == nil || !c.DedicatedCPUPlacement {
		return nil, nil
	}
	return hostcpus.Find()
}

func taps(interfaces []*rpc.PodInterface) map[string]domain.Interface {
	out := make(map[string]domain.Interface, len(interfaces))
	for _, i := range interfaces {
		out[i.GetNetwork()] = domain.Interface{Tap: i.GetTap(), MTU: int(i.GetMtu()), MAC: i.GetMac()}
	}
	return out
}

// followConsole repeats the guest's console in the log, so that `kubectl logs` shows it, and keeps its file small. A
// guest that was moved here brings its file's setting along, whatever the VMI says here.
func (l *Launcher) followConsole(ctx context.Context, moved bool) {
	devices := &l.vmi.Spec.Domain.Devices
	if c := devices.AutoattachSerialConsole; c != nil && !*c {
		return
	}
	if c := devices.LogSerialConsole; c != nil && !*c && !moved {
		return
	}
	if l.console {
		return
	}
	l.console = true
	l.background.Go(func() {
		err := console.Follow(ctx, l.cfg.serialLog(), func(line string, dropped int) {
			if dropped > 0 {
				l.log.Warn().Int("lines", dropped).Msg("guest console: too much, lines were left out")
			}
			l.log.Info().Msg("guest console: " + line)
		})
		if err != nil {
			l.log.Warn().Err(err).Msg("the guest's console is no longer repeated here")
		}
	})
}
