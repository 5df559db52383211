package domain

import (
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/internal/claims"
)

const (
	// agentChannel is the name under which a guest agent looks for its port.
	agentChannel = "org.qemu.guest_agent.0"
	// videoMemoryKiB is KubeVirt's value on amd64.
	videoMemoryKiB = 16384
	// audioNone is the number of the only audio backend, which plays nothing.
	audioNone = 1
)

// devices builds all devices except disks and interfaces.
func devices(in Input) *libvirtxml.DomainDeviceList {
	spec := &in.VMI.Spec.Domain
	list := &libvirtxml.DomainDeviceList{
		Emulator:    in.Paths.Emulator,
		Controllers: controllers(in.VMI),
		Channels: []libvirtxml.DomainChannel{{
			Source: unixSource(in.Paths.Agent),
			Target: &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: agentChannel}},
		}},
		MemBalloon: balloon(in.VMI, in.Hardware.BalloonStats),
		// Without this, libvirt would choose an audio backend from those that are compiled in.
		Audios: []libvirtxml.DomainAudio{{ID: audioNone, None: &libvirtxml.DomainAudioNone{}}},
	}
	if unlessFalse(spec.Devices.AutoattachSerialConsole) {
		source := unixSource(in.Paths.Serial)
		list.Serials = []libvirtxml.DomainSerial{
			{Source: source, Target: &libvirtxml.DomainSerialTarget{Port: ptr(uint(0))}}}
		list.Consoles = []libvirtxml.DomainConsole{{
			Source: unixSource(in.Paths.Serial),
			Target: &libvirtxml.DomainConsoleTarget{Type: "serial", Port: ptr(uint(0))},
		}}
		if unlessFalse(spec.Devices.LogSerialConsole) {
			list.Serials[0].Log = &libvirtxml.DomainChardevLog{File: in.Paths.SerialLog, Append: "on"}
		}
	}
	if unlessFalse(spec.Devices.AutoattachGraphicsDevice) {
		list.Graphics = []libvirtxml.DomainGraphic{{VNC: &libvirtxml.DomainGraphicVNC{
			Listeners: []libvirtxml.DomainGraphicListener{
				{Socket: &libvirtxml.DomainGraphicListenerSocket{Socket: in.Paths.VNC}}},
		}}}
		list.Videos = []libvirtxml.DomainVideo{video(in.VMI)}
	} else {
		list.Videos = []libvirtxml.DomainVideo{{Model: libvirtxml.DomainVideoModel{Type: "none"}}}
	}
	if spec.Devices.Rng != nil {
		list.RNGs = []libvirtxml.DomainRNG{{
			Model:   virtioModel(spec),
			Backend: &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}},
		}}
	}
	list.RedirDevs = redirections(spec, in.Paths.USB)
	list.Inputs = inputs(spec)
	list.Watchdogs = watchdogs(spec.Devices.Watchdog)
	list.Sounds = sounds(spec.Devices.Sound)
	list.TPMs = tpms(spec, in.Paths.TPM)
	for _, p := range spec.Devices.PanicDevices {
		panicDevice := libvirtxml.DomainPanic{}
		if p.Model != nil {
			panicDevice.Model = string(*p.Model)
		}
		list.Panics = append(list.Panics, panicDevice)
	}
	return list
}

// redirections returns a USB redirection device for each socket, if the VMI asks for them (clientPassthrough). A caller
// that connects to a socket attaches a USB device of its own.
func redirections(spec *v1.DomainSpec, sockets []string) []libvirtxml.DomainRedirDev {
	if spec.Devices.ClientPassthrough == nil {
		return nil
	}
	list := make([]libvirtxml.DomainRedirDev, 0, len(sockets))
	for _, s := range sockets {
		list = append(list, libvirtxml.DomainRedirDev{Bus: "usb", Source: unixSource(s)})
	}
	return list
}

func unixSource(path string) *libvirtxml.DomainChardevSource {
	return &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind", Path: path}}
}

func controllers(vmi *v1.VirtualMachineInstance) []libvirtxml.DomainController {
	spec := &vmi.Spec.Domain
	usb := libvirtxml.DomainController{Type: "usb", Index: ptr(uint(0)), Model: "none"}
	if needsUSB(spec) {
		usb.Model = "qemu-xhci"
	}
	list := []libvirtxml.DomainController{usb}
	if !spec.Devices.DisableHotplug || hasBus(spec, "scsi") {
		list = append(list, libvirtxml.DomainController{Type: "scsi", Index: ptr(uint(0)), Model: virtioModel(spec)})
	}
	if vmi.Annotations[v1.DisablePCIHole64] == "true" {
		list = append(list, libvirtxml.DomainController{Type: "pci", Index: ptr(uint(0)), Model: "pcie-root",
			PCI: &libvirtxml.DomainControllerPCI{Hole64: &libvirtxml.DomainControllerPCIHole64{Unit: "KiB"}}})
	}
	return append(list, libvirtxml.DomainController{Type: "virtio-serial", Index: ptr(uint(0)),
		Model: virtioModel(spec)})
}

func needsUSB(spec *v1.DomainSpec) bool {
	if hasBus(spec, "usb") || spec.Devices.ClientPassthrough != nil {
		return true
	}
	for _, i := range spec.Devices.Inputs {
		if i.Bus == v1.InputBusUSB || i.Bus == "" {
			return true
		}
	}
	return false
}

func hasBus(spec *v1.DomainSpec, bus v1.DiskBus) bool {
	for _, d := range spec.Devices.Disks {
		if (d.Disk != nil && d.Disk.Bus == bus) || (d.CDRom != nil && d.CDRom.Bus == bus) ||
			(d.LUN != nil && d.LUN.Bus == bus) {
			return true
		}
	}
	return false
}

func balloon(vmi *v1.VirtualMachineInstance, stats uint32) *libvirtxml.DomainMemBalloon {
	spec := &vmi.Spec.Domain
	if !unlessFalse(spec.Devices.AutoattachMemBalloon) {
		return &libvirtxml.DomainMemBalloon{Model: "none"}
	}
	b := &libvirtxml.DomainMemBalloon{
		Model: virtioModel(spec), FreePageReporting: onOff(freePageReporting(vmi))}
	if stats > 0 {
		b.Stats = &libvirtxml.DomainMemBalloonStats{Period: uint(stats)}
	}
	return b
}

func inputs(spec *v1.DomainSpec) []libvirtxml.DomainInput {
	var out []libvirtxml.DomainInput
	for _, i := range spec.Devices.Inputs {
		in := libvirtxml.DomainInput{Type: string(i.Type), Bus: string(i.Bus), Alias: userAlias(i.Name)}
		if in.Bus == "" {
			in.Bus = string(v1.InputBusUSB)
		}
		if in.Bus == string(v1.InputBusVirtio) {
			in.Model = busVirtio
		}
		out = append(out, in)
	}
	return out
}

func watchdogs(w *v1.Watchdog) []libvirtxml.DomainWatchdog {
	if w == nil || w.I6300ESB == nil {
		return nil
	}
	action := string(w.I6300ESB.Action)
	if action == "" {
		action = string(v1.WatchdogActionReset)
	}
	return []libvirtxml.DomainWatchdog{{Model: "i6300esb", Action: action, Alias: userAlias(w.Name)}}
}

// AliasPrefix begins the aliases of devices that have a name in the spec; the name follows. libvirt requires it.
const AliasPrefix = "ua-"

// userAlias returns the alias of a device that has a name in the spec.
func userAlias(name string) *libvirtxml.DomainAlias {
	return &libvirtxml.DomainAlias{Name: AliasPrefix + name}
}

// video returns the display: UEFI needs no legacy VGA registers, and some systems that boot by it do not support them.
// Others support no other display: a cluster can give VGA to all of them.
func video(vmi *v1.VirtualMachineInstance) libvirtxml.DomainVideo {
	spec := &vmi.Spec.Domain
	_, vga := vmi.Annotations[v1.VGADisplayForEFIGuestsX86Annotation]
	model := libvirtxml.DomainVideoModel{Type: "vga", Heads: 1, VRam: videoMemoryKiB}
	switch {
	case spec.Devices.Video != nil && spec.Devices.Video.Type != "":
		model.Type = spec.Devices.Video.Type
	case hasEFI(spec) && !vga:
		model.Type, model.VRam = "bochs", 0
	}
	return libvirtxml.DomainVideo{Model: model}
}

// sounds returns the sound card, for guests that need one. It plays nothing, since there is no audio backend.
func sounds(s *v1.SoundDevice) []libvirtxml.DomainSound {
	if s == nil {
		return nil
	}
	model := s.Model
	if model == "" {
		model = "ich9"
	}
	return []libvirtxml.DomainSound{{Model: model, Alias: userAlias(s.Name),
		Audio: &libvirtxml.DomainSoundAudio{ID: audioNone}}}
}

// tpms returns the TPM. Its state ends with the launcher, unless it is persistent and kept in that directory: then
// libvirt deletes nothing there, and the model is the one that KubeVirt uses for it.
func tpms(spec *v1.DomainSpec, directory string) []libvirtxml.DomainTPM {
	t := spec.Devices.TPM
	if t == nil || !unlessFalse(t.Enabled) {
		return nil
	}
	model, emulator := "tpm-tis", &libvirtxml.DomainTPMBackendEmulator{Version: "2.0"}
	if claims.PersistentTPM(spec) {
		model, emulator.PersistentState = "tpm-crb", "yes"
		emulator.Source = &libvirtxml.DomainTPMBackendSource{
			Dir: &libvirtxml.DomainTPMBackendSourceDir{Path: directory}}
	}
	return []libvirtxml.DomainTPM{{Model: model, Backend: &libvirtxml.DomainTPMBackend{Emulator: emulator}}}
}
