package recipes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/virtflow/virtflow/deploy/guest"
	"github.com/virtflow/virtflow/deploy/images/closure"
	"github.com/virtflow/virtflow/deploy/images/daemon"
	"github.com/virtflow/virtflow/deploy/images/debian"
	"github.com/virtflow/virtflow/launcher/cloudinit"
	"github.com/virtflow/virtflow/launcher/iso"
)

// stepWait is the longest that one step of a boot may take under emulation on a loaded machine.
const stepWait = 120 * time.Second

// Verify boots the test guest in the launcher's root, once on each disk bus, and then each stand-in.
func Verify(ctx context.Context, b *Builder) error {
	return debian.Again(func() error { return verify(ctx, b) })
}

func verify(ctx context.Context, b *Builder) error {
	folder, _, _, err := b.guestFolder(ctx)
	if err != nil {
		return err
	}
	standIns, _, _, err := b.standInFolder(ctx)
	if err != nil {
		return err
	}
	packages, err := b.LauncherDebian.Resolve(ctx, launcherPackages()...)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "virtflow-verify-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	virsh, err := b.unpackVirsh(ctx, packages, work)
	if err != nil {
		return err
	}
	files, err := launcherTree(closure.Root(virsh))
	if err != nil {
		return err
	}
	root := filepath.Join(work, "root")
	if err := errors.Join(os.Mkdir(root, 0o755), files.Unpack(root)); err != nil {
		return err
	}
	libvirtd, err := daemon.Start(ctx, root, virsh, work)
	if err != nil {
		return err
	}
	defer libvirtd.Stop()
	for _, bus := range []string{"virtio", "sata"} {
		guest := boot{builder: b, daemon: libvirtd, bus: bus, name: "guest-" + bus,
			disk: filepath.Join(folder, "disk.img"), format: "raw",
			userData: "#cloud-config\nruncmd:\n  - [ sh, -c, \"echo user data on $(hostname)\" ]\n"}
		if err := guest.run(ctx, guest.bootAndRestart); err != nil {
			return err
		}
	}
	return verifyStandIns(ctx, boot{builder: b, daemon: libvirtd, bus: "virtio", format: "qcow2"}, standIns)
}

// boot is one guest's life.
type boot struct {
	builder   *Builder
	daemon    *daemon.Daemon
	bus, name string
	// disk is the path of the image, which is copied.
	disk, format string
	userData     string
}

func (b boot) path(file string) string { return filepath.Join(b.daemon.Dir, b.name+"-"+file) }

// run starts the guest for a story of it.
func (b boot) run(ctx context.Context, story func(context.Context) error) error {
	err := b.prepare()
	if err == nil {
		if _, err = b.daemon.Virsh(ctx, "create", b.path("domain.xml")); err != nil {
			err = fmt.Errorf("%w\n%s", err, b.daemon.Said())
		}
	}
	if err == nil {
		err = story(ctx)
	}
	if err != nil {
		serial, _ := os.ReadFile(b.path("serial.log"))
		return fmt.Errorf("%s: %w\nserial log:\n%s", b.name, err, serial)
	}
	return nil
}

// prepare writes the guest's disks and its description.
func (b boot) prepare() error {
	data, err := os.ReadFile(b.disk)
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.path("disk.img"), data, 0o600); err != nil {
		return err
	}
	files, err := cloudinit.NoCloud(cloudinit.Machine{UUID: b.name, Hostname: b.name},
		cloudinit.Data{User: []byte(b.userData)})
	if err != nil {
		return err
	}
	if err := iso.Write(b.path("cidata.iso"), cloudinit.LabelNoCloud, files); err != nil {
		return err
	}
	if err := os.WriteFile(b.path("domain.xml"), []byte(b.domain()), 0o644); err != nil {
		return err
	}
	for _, file := range []string{"disk.img", "cidata.iso"} {
		if err := os.Chown(b.path(file), daemon.User, daemon.User); err != nil {
			return err
		}
	}
	return nil
}

// bootAndRestart restarts the test guest from inside through its agent, and presses the power button.
func (b boot) bootAndRestart(ctx context.Context) error {
	started := time.Now()
	steps := []struct {
		what  string
		do    []string
		until string
		times int
	}{
		{"boot", nil, "virtflow-guest ready", 1},
		{"user data", nil, "user data on " + b.name, 1},
		{"reboot through the guest agent",
			[]string{"qemu-agent-command", b.name, `{"execute":"guest-shutdown","arguments":{"mode":"reboot"}}`},
			"virtflow-guest ready", 2},
		{"power button", []string{"shutdown", b.name, "--mode", "acpi"}, "guest: clean shutdown", 2},
	}
	for _, step := range steps {
		if step.do != nil {
			if step.do[0] == "qemu-agent-command" {
				if err := b.awaitAgent(ctx); err != nil {
					return err
				}
			}
			// The agent command has no answer when the guest goes down at once; what counts is the serial log.
			if _, err := b.daemon.Virsh(ctx, step.do...); err != nil {
				b.builder.Log.Debug().Err(err).Msg(step.what)
			}
		}
		err := await(ctx, step.what, func() bool {
			serial, _ := os.ReadFile(b.path("serial.log"))
			return strings.Count(string(serial), step.until) >= step.times
		})
		if err != nil {
			return err
		}
		b.builder.Log.Info().Str("bus", b.bus).Str("after", time.Since(started).Round(10*time.Millisecond).String()).
			Msg(step.what)
	}
	return b.awaitEnd(ctx)
}

// awaitAgent waits until the guest's agent answers: it may still be getting to know libvirt.
func (b boot) awaitAgent(ctx context.Context) error {
	return await(ctx, "answer of the guest agent", func() bool {
		_, err := b.daemon.Virsh(ctx, "qemu-agent-command", b.name, `{"execute":"guest-ping"}`)
		return err == nil
	})
}

func (b boot) awaitEnd(ctx context.Context) error {
	return await(ctx, "end of the domain", func() bool {
		names, err := b.daemon.Virsh(ctx, "list", "--name")
		return err == nil && !strings.Contains(names, b.name)
	})
}

func await(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, stepWait)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not seen within %s", what, stepWait)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// domain is the guest's description, much as a launcher makes it. Paths are those inside.
func (b boot) domain() string {
	inside := daemon.Private + "/" + b.name + "-"
	device := map[string]string{"virtio": "vda", "sata": "sda"}[b.bus]
	return fmt.Sprintf(`<domain type='qemu'>
  <name>%s</name>
  <memory unit='MiB'>%d</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type><boot dev='hd'/></os>
  <features><acpi/><apic/><tcg><tb-cache unit='MiB'>64</tb-cache></tcg></features>
  <cpu mode='custom' match='exact'><model>qemu64</model></cpu>
  <on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>destroy</on_crash>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type='usb' model='none'/>
    <disk type='file' device='disk'><driver name='qemu' type='%s'/><source file='%sdisk.img'/><target dev='%s' bus='%s'/></disk>
    <disk type='file' device='cdrom'><driver name='qemu' type='raw'/><source file='%scidata.iso'/><target dev='sdb' bus='sata'/><readonly/></disk>
    <interface type='user'><model type='virtio-non-transitional'/></interface>
    <serial type='unix'><source mode='bind' path='%sserial.sock'/><log file='%sserial.log' append='on'/><target port='0'/></serial>
    <channel type='unix'><source mode='bind' path='%sagent.sock'/><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <graphics type='vnc' socket='%svnc.sock'/>
    <video><model type='vga'/></video>
    <memballoon model='virtio-non-transitional'/>
    <rng model='virtio-non-transitional'><backend model='random'>/dev/urandom</backend></rng>
  </devices>
</domain>
`, b.name, guest.MinimumMiB, b.format, inside, device, b.bus, inside, inside, inside, inside, inside)
}
