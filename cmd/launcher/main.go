// Command launcher is the first process of a VM's pod: it runs libvirt and QEMU for one VM.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/internal/hardware"
	"github.com/virtflow/virtflow/internal/kvm"
	"github.com/virtflow/virtflow/internal/process"
	"github.com/virtflow/virtflow/launcher"
	"github.com/virtflow/virtflow/launcher/backup"
	"github.com/virtflow/virtflow/launcher/disk"
	"github.com/virtflow/virtflow/launcher/domain"
	"github.com/virtflow/virtflow/launcher/libvirtd"
	"github.com/virtflow/virtflow/launcher/probe"
	"github.com/virtflow/virtflow/launcher/reaper"
	"github.com/virtflow/virtflow/launcher/virtiofs"
)

// gcPercent trades a little CPU for memory: there is one of these processes per VM, and it is idle nearly always.
const gcPercent = 40

type options struct {
	launcher     launcher.Config
	daemon       string
	qemuImg      string
	virtiofsd    string
	capabilities string
	podUID       string
}

func main() { process.Main(command) }

func command() *cobra.Command {
	debug.SetGCPercent(gcPercent)
	var o options
	cmd := process.NewCommand("launcher", "Runs libvirt and QEMU for the one VM of this pod", o.add, o.run)
	// The pod's network belongs to the guest: every port that the launcher opened there would be taken from it.
	noMetrics := cmd.Flags().Lookup("metrics-address")
	noMetrics.DefValue = ""
	_ = noMetrics.Value.Set("")
	cmd.AddCommand(kvm.TrialCommand(), probeCommand(), capabilitiesCommand(&options{}))
	cmd.AddCommand(backup.Commands()...)
	cmd.AddCommand(virtiofs.Command())
	return cmd
}

// probeCommand ends the process itself, so that the kubelet gets the exit code of the command in the guest.
func probeCommand() *cobra.Command {
	cmd := probe.NewCommand()
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, arguments []string) error {
		err := run(cmd, arguments)
		if code := probe.ExitCode(err); code > 1 {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(code)
		}
		return err
	}
	return cmd
}

func (o *options) add(f *pflag.FlagSet) {
	c := &o.launcher
	f.StringVar(&c.VMIFile, "vmi", "/etc/virtflow/vmi.json", "file with the VirtualMachineInstance as JSON")
	f.StringVar(&c.TerminationMessage, "termination-message", "/dev/termination-log",
		"file for the reason why the launcher ended")
	f.StringVar(&c.Socket, "socket", "/run/virtflow/sockets/launcher.sock", "Unix socket to serve on")
	f.StringVar(&c.Private, "private-dir", "/run/virtflow/private", "writable directory for libvirt, sockets and logs")
	f.StringVar(&c.Disks, "disks-dir", "/run/virtflow/disks", "writable directory for disks")
	f.StringVar(&c.KernelBoot, "kernel-boot-dir", "/run/virtflow/kernel-boot",
		"the image with the kernel of firmware.kernelBoot")
	f.StringVar(&c.ContainerDisks, "container-disks-dir", "/run/virtflow/container-disks",
		"directory with the image of each containerDisk")
	f.StringVar(&c.CloudInit, "cloud-init-dir", "/run/virtflow/cloud-init",
		"directory with the inline cloud-init data of each volume")
	f.StringVar(&c.UserData, "user-data-dir", "/run/virtflow/user-data",
		"directory with the user's own Secret with the user data of each volume")
	f.StringVar(&c.NetworkData, "network-data-dir", "/run/virtflow/network-data",
		"directory with the user's own Secret with the network data of each volume")
	f.StringVar(&c.Files, "files-dir", "/run/virtflow/files",
		"directory with the files of each Secret, ConfigMap and the like that is a volume")
	f.StringVar(&c.AccessCredentials, "access-credentials-dir", "/run/virtflow/access-credentials",
		"directory with each Secret of the access credentials")
	f.StringVar(&c.Claims, "claims-dir", claims.Directory, "directory with the file system of each claim")
	f.StringVar(&c.Devices, "devices-dir", claims.Devices, "directory with the claims that are devices")
	f.StringVar(&c.State, "state-dir", claims.StateDirectory,
		"directory with the VM's persistent state (vTPM, EFI variables), which outlives the launcher")
	f.StringVar(&c.ResolvConf, "resolv-conf", "/etc/resolv.conf", "resolver settings that the guest gets by DHCP")
	f.StringVar(&c.Emulator, "emulator", "/usr/bin/qemu-system-x86_64", "QEMU program")
	f.BoolVar(&c.AllowEmulation, "allow-emulation", os.Getenv("ALLOW_EMULATION") == "true",
		"emulate the guest's CPU where KVM does not work (also environment variable ALLOW_EMULATION)")
	f.StringVar(&o.daemon, "libvirtd", "/usr/sbin/libvirtd", "libvirtd program")
	f.StringVar(&o.qemuImg, "qemu-img", "/usr/bin/qemu-img", "qemu-img program")
	f.StringVar(&o.virtiofsd, "virtiofsd", "/usr/libexec/virtiofsd", "virtiofsd program")
	f.StringVar(&o.capabilities, "capabilities-dir", "/usr/share/virtflow/capabilities",
		"directory with libvirt's capabilities cache of the emulator")
	f.StringVar(&o.podUID, "pod-uid", os.Getenv("POD_UID"), "UID of this pod (also environment variable POD_UID)")
}

func (o *options) run(ctx context.Context, p *process.Process) error {
	// libvirt's client library would start a second daemon if it did not find the first.
	if err := os.Setenv("LIBVIRT_AUTOSTART", "0"); err != nil {
		return fmt.Errorf("preparing the environment: %w", err)
	}
	processes := reaper.New()
	go processes.Reap(context.WithoutCancel(ctx))

	o.launcher.Version = process.Version
	vmi, err := launcher.ReadVMI(o.launcher.VMIFile)
	if err != nil {
		return launcher.Refuse(o.launcher, err)
	}
	if o.launcher.Hardware, err = hardware.Decode(os.Getenv(hardware.Variable)); err != nil {
		return launcher.Refuse(o.launcher, err)
	}
	log := p.Log.With().Str("namespace", vmi.Namespace).Str("name", vmi.Name).Str("uid", string(vmi.UID)).Logger()
	loop, err := libvirtd.StartEventLoop(log)
	if err != nil {
		return launcher.Refuse(o.launcher, err)
	}
	cfg := libvirtd.Config{
		Daemon: o.daemon, Emulator: o.launcher.Emulator, Private: o.launcher.Private, Capabilities: o.capabilities,
		HostUUID: o.podUID, Domain: domain.Name(vmi),
	}
	o.launcher.Libvirt = cfg.Socket()
	libvirt := libvirtd.New(loop, cfg, processes, log)
	return launcher.New(o.launcher, vmi, launcher.Tools{
		Hypervisor:  libvirt,
		Disks:       disk.NewPreparer(o.qemuImg, processes, o.launcher.Hardware.Disks),
		FileSystems: virtiofs.New("/proc/self/exe", o.virtiofsd, processes, log),
		KVM:         tryKVM(processes),
	}, log).Run(ctx)
}

// tryKVM runs the trial in a process of this program.
func tryKVM(processes *reaper.Reaper) kvm.Trial {
	return func(ctx context.Context, limit time.Duration) error {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("finding this program: %w", err)
		}
		return kvm.Try(ctx, self, kvm.Device, limit, func(cmd *exec.Cmd) error { return processes.Run(cmd, nil) })
	}
}
