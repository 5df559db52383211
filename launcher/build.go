package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"

	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/internal/kvm"
	"github.com/virtflow/virtflow/launcher/console"
	"github.com/virtflow/virtflow/launcher/disk"
	"github.com/virtflow/virtflow/launcher/domain"
	"github.com/virtflow/virtflow/launcher/hostcpus"
	"github.com/virtflow/virtflow/launcher/hostdevices"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/launcher/virtiofs"
)

// errNoKVM is KubeVirt's text.
var errNoKVM = errors.New("kvm not present and emulation is not allowed")

// preparation has what was prepared on this node for the domain. It belongs to the attempt; one runs at a time.
type preparation struct {
	interfaces []*rpc.PodInterface
	dhcp       map[string]bool // bridges on which addresses are served
	console    bool            // is followed
}

// built is a domain with the volumes behind its disks.
type built struct {
	domain  *libvirtxml.Domain
	plan    []disk.Volume
	volumes map[string]domain.Volume
	report  *rpc.Domain // what is known of the domain besides its state
}

// recordBuilt records what the domain was built from, and shows it with its state.
func (l *Launcher) recordBuilt(b *built, setState func(*rpc.Domain)) {
	l.made.Store(b)
	l.domain.Update(func(d *rpc.Domain) {
		setState(d)
		d.GuestMemoryBytes = b.report.GetGuestMemoryBytes()
		if m := b.report.GetMachineType(); m != "" {
			d.MachineType = m
		}
		d.Interfaces, d.Volumes = b.report.GetInterfaces(), b.report.GetVolumes()
	})
}

// plan lists the volumes behind the disks of a VMI, which may be one of other sizes.
func (l *Launcher) plan(vmi *v1.VirtualMachineInstance) ([]disk.Volume, error) {
	return disk.Plan(vmi, disk.Directories{
		Images: l.cfg.ContainerDisks, CloudInit: l.cfg.CloudInit,
		UserData: l.cfg.UserData, NetworkData: l.cfg.NetworkData, Files: l.cfg.Files,
		AccessCredentials: l.cfg.AccessCredentials, Disks: l.cfg.Disks, Claims: l.cfg.Claims, Devices: l.cfg.Devices,
	})
}

// build prepares everything that the domain needs on this node, and builds it.
func (l *Launcher) build(ctx context.Context, plan []disk.Volume) (*built, error) {
	useKVM, err := l.decideKVM(ctx)
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
	networks := tapInterfaces(l.preparation.interfaces)
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
	return &built{domain: d, plan: plan, volumes: volumes,
		report: report(l.vmi, d, volumes, l.preparation.interfaces)}, nil
}

// decideKVM reports whether the guest runs with KVM. Where emulation is allowed, a device that does not answer counts
// as absent. Where it is not, the start may be tried again: the node may only be busy.
func (l *Launcher) decideKVM(ctx context.Context) (use bool, err error) {
	switch err := kvm.Judge(ctx, l.kvm); {
	case err == nil:
		return true, nil
	case l.cfg.AllowEmulation:
		l.log.Warn().Err(err).Msg("fell back to emulation because KVM does not work")
		return false, nil
	case errors.Is(err, kvm.ErrNoAnswer):
		return false, fmt.Errorf("%s exists but does not answer (the node may be too busy): %w", kvm.Device, err)
	default:
		return false, fmt.Errorf("%w (%w)", errNoKVM, err)
	}
}

// fileSystems starts a daemon for each virtiofs file system of the guest, and returns their sockets.
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
	return sockets, l.daemons.Run(list, l.reportLostFileSystem)
}

// ownCPUs returns the CPUs that the node has assigned to this pod, if the guest has dedicated CPUs.
func (l *Launcher) ownCPUs() ([]domain.HostCPU, error) {
	if c := l.vmi.Spec.Domain.CPU; c == nil || !c.DedicatedCPUPlacement {
		return nil, nil
	}
	return hostcpus.Find()
}

// tapInterfaces returns, by network, what the domain needs of the interfaces that the node worker has prepared.
func tapInterfaces(interfaces []*rpc.PodInterface) map[string]domain.Interface {
	out := make(map[string]domain.Interface, len(interfaces))
	for _, i := range interfaces {
		out[i.GetNetwork()] = domain.Interface{Tap: i.GetTap(), MTU: int(i.GetMtu()), MAC: i.GetMac()}
	}
	return out
}

// followConsole repeats the guest's console in the log, so that `kubectl logs` shows it, and keeps the console's file
// small. A guest that was moved here keeps its source's file setting, whatever the VMI here has.
func (l *Launcher) followConsole(ctx context.Context, moved bool) {
	devices := &l.vmi.Spec.Domain.Devices
	if c := devices.AutoattachSerialConsole; c != nil && !*c {
		return
	}
	if c := devices.LogSerialConsole; c != nil && !*c && !moved {
		return
	}
	if l.preparation.console {
		return
	}
	l.preparation.console = true
	l.background.Go(func() {
		err := console.Follow(ctx, l.cfg.serialLog(), func(line string, dropped int) {
			if dropped > 0 {
				l.log.Warn().Int("lines", dropped).Msg("dropped lines of guest console")
			}
			l.log.Info().Msg("guest console: " + line)
		})
		if err != nil {
			l.log.Warn().Err(err).Msg("stopped following guest console")
		}
	})
}
