package domain

import (
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"
)

const (
	// agentChannel is the name under which a guest agent looks for its port.
	agentChannel = "org.qemu.guest_agent.0"
	// balloonStatsSeconds is KubeVirt's default for memBalloonStatsPeriod.
	balloonStatsSeconds = 10
	// videoMemoryKiB is KubeVirt's on amd64.
	videoMemoryKiB = 16384
)

// devices builds everything but disks and interfaces.
func devices(in Input) *libvirtxml.DomainDeviceList {
	spec := &in.VMI.Spec.Domain
	list := &libvirtxml.DomainDeviceList{
		Emulator:    in.Paths.Emulator,
		Controllers: controllers(spec),
		Channels: []libvirtxml.DomainChannel{{
			Source: unixSource(in.Paths.Agent),
			Target: &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: agentChannel}},
		}},
		MemBalloon: balloon(spec),
		// QEMU takes no sound card, but libvirt would otherwise choose an audio backend by what is compiled in.
		Audios: []libvirtxml.DomainAudio{{ID: 1, None: &libvirtxml.DomainAudioNone{}}},
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
		list.Videos = []libvirtxml.DomainVideo{
			{Model: libvirtxml.DomainVideoModel{Type: "vga", Heads: 1, VRam: videoMemoryKiB}}}
	} else {
		list.Videos = []libvirtxml.DomainVideo{{Model: libvirtxml.DomainVideoModel{Type: "none"}}}
	}
	if spec.Devices.Rng != nil {
		list.RNGs = []libvirtxml.DomainRNG{{
			Model:   virtioModel(spec),
			Backend: &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}},
		}}
	}
	list.Inputs = inputs(spec)
	list.Watchdogs = watchdogs(spec.Devices.Watchdog)
	for _, p := range spec.Devices.PanicDevices {
		panicDevice := libvirtxml.DomainPanic{}
		if p.Model != nil {
			panicDevice.Model = string(*p.Model)
		}
		list.Panics = append(list.Panics, panicDevice)
	}
	return list
}

func unixSource(path string) *libvirtxml.DomainChardevSource {
	return &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind", Path: path}}
}

func controllers(spec *v1.DomainSpec) []libvirtxml.DomainController {
	usb := libvirtxml.DomainController{Type: "usb", Index: ptr(uint(0)), Model: "none"}
	if needsUSB(spec) {
		usb.Model = "qemu-xhci"
	}
	list := []libvirtxml.DomainController{usb}
	if !spec.Devices.DisableHotplug || hasBus(spec, "scsi") {
		list = append(list, libvirtxml.DomainController{Type: "scsi", Index: ptr(uint(0)), Model: virtioModel(spec)})
	}
	return append(list, libvirtxml.DomainController{Type: "virtio-serial", Index: ptr(uint(0)),
		Model: virtioModel(spec)})
}

func needsUSB(spec *v1.DomainSpec) bool {
	if hasBus(spec, "usb") {
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
		if (d.Disk != nil && d.Disk.Bus == bus) || (d.CDRom != nil && d.CDRom.Bus == bus) {
			return true
		}
	}
	return false
}

func balloon(spec *v1.DomainSpec) *libvirtxml.DomainMemBalloon {
	if !unlessFalse(spec.Devices.AutoattachMemBalloon) {
		return &libvirtxml.DomainMemBalloon{Model: "none"}
	}
	return &libvirtxml.DomainMemBalloon{
		Model: virtioModel(spec), FreePageReporting: "on",
		Stats: &libvirtxml.DomainMemBalloonStats{Period: balloonStatsSeconds},
	}
}

func inputs(spec *v1.DomainSpec) []libvirtxml.DomainInput {
	var out []libvirtxml.DomainInput
	for _, i := range spec.Devices.Inputs {
		in := libvirtxml.DomainInput{Type: string(i.Type), Bus: string(i.Bus)}
		if in.Bus == "" {
			in.Bus = string(v1.InputBusUSB)
		}
		if in.Bus == string(v1.InputBusVirtio) {
			in.Model = virtioModel(spec)
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
	return []libvirtxml.DomainWatchdog{{Model: "i6300esb", Action: action}}
}
