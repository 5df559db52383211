package domain_test

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
	"libvirt.org/go/libvirtxml"

	"github.com/virtflow/virtflow/internal/hardware"
	"github.com/virtflow/virtflow/launcher/domain"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func read(t *testing.T, spec string) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := &v1.VirtualMachineInstance{}
	vmi.Namespace, vmi.Name, vmi.UID = "default", "vm1", "0f1e"
	require.NoError(t, json.Unmarshal([]byte(spec), &vmi.Spec))
	return vmi
}

func input(vmi *v1.VirtualMachineInstance) domain.Input {
	in := domain.Input{
		VMI:      vmi,
		Hardware: hardware.Default(),
		Volumes: map[string]domain.Volume{
			"root":    {Path: "/run/virtflow/disks/root-overlay.qcow2", Format: "qcow2", DirectIO: true},
			"scratch": {Path: "/run/virtflow/disks/scratch.qcow2", Format: "qcow2"},
			"seed":    {Path: "/run/virtflow/disks/seed.iso", Format: "raw"},
			"fixed":   {Path: "/run/virtflow/claims/fixed/disk.img", Format: "raw", ReadOnly: true, Claim: true},
			"claim":   {Path: "/run/virtflow/claims/claim/disk.img", Format: "raw", DirectIO: true, Claim: true},
		},
		Interfaces: map[string]domain.Interface{"default": {Tap: "tap0", MTU: 1450},
			"second": {Tap: "tap16367aacb67", MTU: 1300}, "fast": {PCI: "0000:81:01.0"}},
		FileSystems: map[string]string{"shared": "/run/virtflow/private/virtiofs0.sock"},
		Paths: domain.Paths{
			Emulator: "/usr/bin/qemu-system-x86_64", Serial: "/run/virtflow/private/virt-serial0",
			SerialLog: "/run/virtflow/private/virt-serial0.log",
			VNC:       "/run/virtflow/private/virt-vnc", Agent: "/run/virtflow/private/virt-agent",
			USB:   []string{"/run/virtflow/private/virt-usbredir-0", "/run/virtflow/private/virt-usbredir-1"},
			NVRAM: "/run/virtflow/state/nvram/VARS.fd", TPM: "/run/virtflow/state/swtpm/tpm2",
		},
	}
	return in
}

func TestGolden(t *testing.T) {
	const guest = `"memory":{"guest":"128Mi"}`
	for name, c := range map[string]struct {
		spec        string
		kvm         bool
		volumes     map[string]domain.Volume
		annotations map[string]string
		cpus        []domain.HostCPU
		hostDevices domain.HostDevices
		tables      domain.ACPITables
	}{
		"smallest": {spec: `{"domain":{` + guest + `,"devices":{}}}`},
		"kvm": {spec: `{"domain":{` + guest + `,"cpu":{"sockets":2,"cores":2,"threads":2},"devices":{}}}`,
			kvm: true},
		"typical": {spec: `{"domain":{` + guest + `,"cpu":{"cores":2},
			"firmware":{"uuid":"5d307ca9-b3ef-428c-8861-06e72d69f223","serial":"s-1"},
			"chassis":{"sku":"x"},"features":{"acpi":{},"smm":{"enabled":true}},
			"clock":{"utc":{},"timer":{"rtc":{"tickPolicy":"catchup"}}},
			"devices":{"rng":{},"disks":[{"name":"root","bootOrder":1,"disk":{"bus":"virtio"}},
			{"name":"scratch","serial":"abc","disk":{"bus":"virtio"}},
			{"name":"seed","cdrom":{}}],"interfaces":[{"name":"default","masquerade":{},
			"macAddress":"DE-AD-BE-EF-00-01"}]}},
			"networks":[{"name":"default","pod":{}}]}`},
		"room-to-grow": {spec: `{"domain":{"memory":{"guest":"1Gi","maxGuest":"4Gi"},"cpu":{"cores":2,"maxSockets":4},
			"devices":{}}}`},
		"windows": {spec: `{"domain":{"memory":{"guest":"4Gi","hugepages":{"pageSize":"2Mi"}},
			"firmware":{"bootloader":{"efi":{"secureBoot":true}}},
			"features":{"smm":{},"hyperv":{"relaxed":{},"vapic":{},"spinlocks":{"spinlocks":8191},"vpindex":{},
			"synic":{},"synictimer":{"direct":{}},
			"tlbflush":{"direct":{}},"vendorid":{"vendorid":"me"},"ipi":{"enabled":false}}},
			"clock":{"utc":{},"timer":{"hyperv":{}}},
			"devices":{"tpm":{},"sound":{"name":"card"},"inputs":[{"type":"tablet","bus":"virtio","name":"t"}]}}}`,
			kvm: true},
		"file-systems": {spec: `{"domain":{"memory":{"guest":"128Mi","hugepages":{"pageSize":"2Mi"}},
			"devices":{"filesystems":[{"name":"shared","virtiofs":{}}]}}}`},
		"licences": {spec: `{"domain":{` + guest + `,"firmware":{"acpi":{"slicNameRef":"slic","msdmNameRef":"msdm"}},
			"devices":{}}}`,
			tables: domain.ACPITables{
				SLIC: "/run/virtflow/files/slic/slic.bin", MSDM: "/run/virtflow/files/msdm/msdm.bin"}},
		"remembers": {spec: `{"domain":{` + guest + `,"firmware":{"bootloader":{"efi":{"persistent":true}}},
			"features":{"smm":{}},
			"devices":{"tpm":{"persistent":true}}}}`},
		"its-own-kernel": {spec: `{"domain":{` + guest + `,"firmware":{"kernelBoot":{"kernelArgs":"console=ttyS0",
			"container":{"image":"x","kernelPath":"/k"}}},
			"devices":{"video":{"type":"virtio"},"sound":{"name":"card","model":"ac97"}}}}`},
		"root-complex": {spec: `{"domain":{` + guest + `,"devices":{"disks":[{"name":"root","disk":{"bus":"virtio"}},
			{"name":"scratch","disk":{"bus":"usb"}}],
			"inputs":[{"type":"tablet","bus":"virtio","name":"t"}],"watchdog":{"name":"w","i6300esb":{}}}}}`,
			annotations: map[string]string{v1.PlacePCIDevicesOnRootComplex: "true", v1.DisablePCIHole64: "true",
				v1.FreePageReportingDisabledAnnotation: "true"}},
		"usb-of-callers": {spec: `{"domain":{` + guest + `,"devices":{"clientPassthrough":{}}}}`},
		"headless": {spec: `{"domain":{"resources":{"requests":{"memory":"64Mi","cpu":"1500m"}},
			"devices":{"autoattachGraphicsDevice":false,
			"autoattachSerialConsole":false,"autoattachMemBalloon":false,"disableHotplug":true}}}`},
		"efi-and-devices": {spec: `{"startStrategy":"Paused","domain":{` + guest + `,"rebootPolicy":"Terminate",
			"cpu":{"model":"Skylake-Client","features":[{"name":"vmx","policy":"disable"}]},
			"machine":{"type":"pc-q35-7.2"},"firmware":{"bootloader":{"efi":{}}},"ioThreadsPolicy":"auto",
			"devices":{"useVirtioTransitional":true,"logSerialConsole":false,"panicDevices":[{"model":"pvpanic"}],
			"watchdog":{"name":"w","i6300esb":{"action":"poweroff"}},
			"inputs":[{"type":"tablet","name":"t"}],"disks":[{"name":"root","dedicatedIOThread":true,
			"cache":"writeback","disk":{"bus":"virtio"}},
			{"name":"scratch","errorPolicy":"report","disk":{"bus":"scsi"}}],
			"interfaces":[{"name":"default","masquerade":{},"model":"e1000e","state":"down","bootOrder":1}]}}}`},
		"drives": {spec: `{"domain":{` + guest + `,
			"devices":{"disks":[{"name":"root","tag":"t","disk":{"bus":"virtio","pciAddress":"0000:03:00.0"}},
			{"name":"empty","cdrom":{}},{"name":"also-empty","cdrom":{"bus":"scsi"}},
			{"name":"seed","cdrom":{"readonly":false}},
			{"name":"lun","blockSize":{"matchVolume":{}},"lun":{"bus":"scsi"}},
			{"name":"read","lun":{"bus":"scsi","readonly":true}}]}},
			"volumes":[{"name":"root"},{"name":"seed"},{"name":"lun"},{"name":"read"}]}`,
			volumes: map[string]domain.Volume{
				"lun": {Path: "/dev/virtflow/lun", Format: "raw", DirectIO: true, Block: true, Allocated: true,
					Claim: true, Blocks: domain.Blocks{Logical: 512, Physical: 4096, Discard: 4096}},
				"read": {Path: "/dev/virtflow/read", Format: "raw", DirectIO: true, Block: true, Allocated: true,
					Claim: true},
			}},
		"networks": {spec: `{"domain":{` + guest + `,"devices":{"interfaces":[{"name":"default","masquerade":{}},
			{"name":"second","bridge":{},"model":"e1000","bootOrder":1},
			{"name":"fast","sriov":{},"macAddress":"02:00:00:00:be:02","pciAddress":"0000:06:00.0","bootOrder":2}]}}}`},
		"own-cpus": {spec: `{"domain":{"memory":{"guest":"1Gi","hugepages":{"pageSize":"2Mi"}},
			"ioThreadsPolicy":"shared",
			"cpu":{"cores":4,"dedicatedCpuPlacement":true,"isolateEmulatorThread":true,
			"numa":{"guestMappingPassthrough":{}}},
			"features":{"kvm":{"hidden":true}},"devices":{"disks":[{"name":"root","disk":{"bus":"virtio"}}]}}}`,
			kvm: true,
			cpus: []domain.HostCPU{{ID: 2, Core: 2}, {ID: 3, Core: 2}, {ID: 5, Core: 4}, {ID: 12, Core: 12, Node: 1},
				{ID: 13, Core: 12, Node: 1}, {ID: 14, Core: 14, Node: 1}}},
		"thread-pool": {spec: `{"domain":{` + guest + `,"ioThreadsPolicy":"supplementalPool",
			"ioThreads":{"supplementalPoolThreadCount":2},
			"cpu":{"cores":2,"dedicatedCpuPlacement":true,"isolateEmulatorThread":true},"devices":{"disks":[
			{"name":"root","disk":{"bus":"virtio"}},{"name":"scratch","dedicatedIOThread":true,"disk":{"bus":"virtio"}},
			{"name":"claim","disk":{"bus":"scsi"}}]}}}`,
			cpus: []domain.HostCPU{{ID: 1, Core: 1}, {ID: 2, Core: 2}, {ID: 3, Core: 3}, {ID: 4, Core: 4},
				{ID: 5, Core: 5}}},
		"host-devices": {spec: `{"domain":{` + guest + `,"devices":{"gpus":[{"name":"a","deviceName":"v/gpu"},
			{"name":"b","deviceName":"v/gpu"},
			{"name":"c","deviceName":"v/slice"}],"hostDevices":[{"name":"card","deviceName":"v/card"},
			{"name":"stick","deviceName":"v/stick"},
			{"name":"claimed","claimName":"c","requestName":"r"}]}}}`,
			hostDevices: domain.HostDevices{
				PCI:      map[string][]string{"v/gpu": {"0000:60:00.0", "0000:60:1f.7"}, "v/card": {"0001:05:00.0"}},
				Mediated: map[string][]string{"v/slice": {"aa618089-8b16-4d01-a136-25a0f3c73123"}},
				USB:      map[string][]string{"v/stick": {"1:2"}},
				Claimed: map[v1.ClaimRequest]domain.HostAddress{
					{ClaimName: "c", RequestName: "r"}: {PCI: "0000:65:00.0"}},
			}},
		"claims": {spec: `{"domain":{` + guest + `,"devices":{"disks":[{"name":"file","disk":{"bus":"virtio"}},
			{"name":"block","disk":{}},
			{"name":"shared","shareable":true,"disk":{"bus":"virtio"}},{"name":"thick","disk":{"bus":"scsi"}},
			{"name":"iso","cdrom":{}},
			{"name":"fixed","disk":{"bus":"virtio"}},{"name":"cached","io":"threads","cache":"writeback",
			"disk":{"bus":"virtio"}}]}}}`,
			volumes: map[string]domain.Volume{
				"file": {Path: "/run/virtflow/claims/file/disk.img", Format: "raw", DirectIO: true, Claim: true},
				"block": {Path: "/dev/virtflow/block", Format: "raw", DirectIO: true, Block: true, Allocated: true,
					Claim: true},
				"shared": {Path: "/dev/virtflow/shared", Format: "raw", DirectIO: true, Block: true, Allocated: true,
					Claim: true},
				"thick": {Path: "/run/virtflow/claims/thick/disk.img", Format: "raw", DirectIO: true, Allocated: true,
					Thick: true, Claim: true},
				"iso":   {Path: "/run/virtflow/claims/iso/disk.img", Format: "raw", DirectIO: true, Claim: true},
				"fixed": {Path: "/run/virtflow/claims/fixed/disk.img", Format: "raw", ReadOnly: true, Claim: true},
				"cached": {Path: "/run/virtflow/claims/cached/disk.img", Format: "raw", DirectIO: true, Allocated: true,
					Claim: true},
			}},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(read(t, c.spec))
			in.KVM, in.CPUs, in.HostDevices, in.ACPITables = c.kvm, c.cpus, c.hostDevices, c.tables
			maps.Copy(in.Volumes, c.volumes)
			in.VMI.Annotations = c.annotations
			in.Boot = domain.Boot{Kernel: "/run/virtflow/kernel-boot/k"}
			d, err := domain.Build(in)
			require.NoError(t, err)
			xml, err := d.Marshal()
			require.NoError(t, err)
			file := filepath.Join("testdata", name+".xml")
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(xml+"\n"), 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, strings.TrimSpace(string(want)), xml)
		})
	}
}

func TestNamesWhatCannotBeBuilt(t *testing.T) {
	const memory = `"memory":{"guest":"128Mi"}`
	for _, c := range []struct{ spec, field string }{
		{`{"domain":{"devices":{}}}`, "spec.domain.memory.guest"},
		{`{"domain":{"memory":{"guest":"0"},"devices":{}}}`, "spec.domain.memory.guest"},
		{`{"architecture":"arm64","domain":{"devices":{}}}`, "spec.architecture"},
		{`{"domain":{` + memory + `,"devices":{"disks":[{"name":"nowhere","disk":{}}]}}}`,
			"spec.domain.devices.disks[0].name"},
		{`{"domain":{` + memory + `,"devices":{"disks":[{"name":"root","lun":{"reservation":true}}]}}}`,
			"spec.domain.devices.disks[0].lun.reservation"},
		{`{"domain":{` + memory + `,"devices":{"disks":[{"name":"root","disk":{"pciAddress":"0000:03:00.0"}}]}}}`,
			"spec.domain.devices.disks[0].disk.pciAddress"},
		{`{"domain":{` + memory + `,
			"devices":{"disks":[{"name":"root","disk":{"bus":"virtio","pciAddress":"03:00.0"}}]}}}`,
			"spec.domain.devices.disks[0].disk.pciAddress"},
		{`{"domain":{` + memory + `,"devices":{"disks":[{"name":"scratch","cache":"none","disk":{}}]}}}`,
			"spec.domain.devices.disks[0].cache"},
		{`{"domain":{` + memory + `,"devices":{"disks":[{"name":"scratch","io":"native","disk":{}}]}}}`,
			"spec.domain.devices.disks[0].io"},
		{`{"domain":{` + memory + `,"devices":{"disks":[{"name":"scratch","shareable":true,"disk":{}}]}}}`,
			"spec.domain.devices.disks[0].shareable"},
		{`{"domain":{` + memory + `,"devices":{"disks":[{"name":"fixed","disk":{}}]}}}`,
			"spec.domain.devices.disks[0].disk.bus"},
		{`{"domain":{` + memory + `,"devices":{"disks":[{"name":"fixed","shareable":true,"disk":{"bus":"virtio"}}]}}}`,
			"spec.domain.devices.disks[0].cache"},
		{`{"domain":{` + memory + `,
			"devices":{"disks":[{"name":"claim","shareable":true,"cache":"writeback","disk":{}}]}}}`,
			"spec.domain.devices.disks[0].cache"},
		{`{"domain":{` + memory + `,"devices":{"interfaces":[{"name":"default","passtBinding":{}}]}}}`,
			"spec.domain.devices.interfaces[0]"},
		{`{"domain":{` + memory + `,"devices":{"interfaces":[{"name":"other","masquerade":{}}]}}}`,
			"spec.domain.devices.interfaces[0]"},
		{`{"domain":{` + memory + `,"devices":{"interfaces":[{"name":"default","sriov":{}}]}}}`,
			"spec.domain.devices.interfaces[0]"},
		{`{"domain":{` + memory + `,"cpu":{"realtime":{}},"devices":{}}}`, "spec.domain.cpu.realtime"},
	} {
		_, err := domain.Build(input(read(t, c.spec)))
		var invalid *domain.InvalidError
		require.ErrorAs(t, err, &invalid, c.spec)
		require.Equal(t, c.field, invalid.Field, c.spec)
	}
}

func TestIdentityIsStable(t *testing.T) {
	a, b := read(t, `{"domain":{"devices":{}}}`), read(t, `{"domain":{"devices":{}}}`)
	b.UID = "another incarnation"
	iface := &v1.Interface{Name: "default"}
	require.Equal(t, domain.UUID(a), domain.UUID(b))
	require.Equal(t, domain.MAC(a, iface, ""), domain.MAC(b, iface, ""))
	b.Namespace = "other"
	require.NotEqual(t, domain.MAC(a, iface, ""), domain.MAC(b, iface, ""))
	require.Contains(t, "26ae", domain.MAC(a, iface, "")[1:2], "a locally administered unicast address")
}

// TestHardwareOfCluster: the domain has the hardware settings of the cluster's configuration, and leaves out empty
// ones.
func TestHardwareOfCluster(t *testing.T) {
	in := input(read(t, `{"domain": {"memory": {"guest": "64Mi"}, "devices": {}}}`))
	in.Hardware = hardware.Hardware{SMBIOS: v1.SMBiosConfiguration{
		Manufacturer: "Example", Product: "Cloud", Version: "2", Sku: "s1", Family: "Guests"}}
	d, err := domain.Build(in)
	require.NoError(t, err)
	require.Nil(t, d.Devices.MemBalloon.Stats, "no statistics")
	require.Nil(t, d.SysInfo[0].SMBIOS.Chassis)
	said := map[string]string{}
	for _, e := range d.SysInfo[0].SMBIOS.System.Entry {
		said[e.Name] = e.Value
	}
	require.Equal(t, map[string]string{"manufacturer": "Example", "product": "Cloud", "version": "2", "sku": "s1",
		"family": "Guests", "uuid": domain.UUID(in.VMI)}, said)

	in.Hardware.BalloonStats = 60
	d, err = domain.Build(in)
	require.NoError(t, err)
	require.EqualValues(t, 60, d.Devices.MemBalloon.Stats.Period)
}

// TestDisplayOfEFIGuests: an EFI guest has a bochs display, unless the cluster asks for VGA, or the VMI for its own
// type.
func TestDisplayOfEFIGuests(t *testing.T) {
	const efi = `"firmware":{"bootloader":{"efi":{"secureBoot":false}}},`
	for name, c := range map[string]struct {
		spec string
		vga  bool
		want string
	}{
		"EFI":                  {efi, false, "bochs"},
		"EFI, by the cluster":  {efi, true, "vga"},
		"BIOS":                 {"", false, "vga"},
		"BIOS, by the cluster": {"", true, "vga"},
	} {
		for own, devices := range map[string]string{"": "{}", "virtio": `{"video":{"type":"virtio"}}`} {
			vmi := read(t, `{"domain":{`+c.spec+`"memory":{"guest":"128Mi"},"devices":`+devices+`}}`)
			if c.vga {
				vmi.Annotations = map[string]string{v1.VGADisplayForEFIGuestsX86Annotation: ""}
			}
			d, err := domain.Build(input(vmi))
			require.NoError(t, err, name)
			want := c.want
			if own != "" {
				want = own
			}
			require.Equal(t, want, d.Devices.Videos[0].Model.Type, name)
			require.Equal(t, want != "bochs", d.Devices.Videos[0].Model.VRam > 0, name)
		}
	}
}

func TestHostname(t *testing.T) {
	for name, want := range map[string]string{
		"vm1": "vm1", "vm1.example.org": "vm1", strings.Repeat("a", 62) + "-b": strings.Repeat("a", 62),
	} {
		vmi := read(t, `{"domain":{"devices":{}}}`)
		vmi.Name = name
		require.Equal(t, want, domain.Hostname(vmi))
		vmi.Spec.Hostname = "given"
		require.Equal(t, "given", domain.Hostname(vmi))
	}
}

// TestOnlyCDROMsAreReadOnly: only CD-ROMs are read-only, unless the spec makes other disks so: a guest can write to an
// ISO on a disk, as in KubeVirt.
func TestOnlyCDROMsAreReadOnly(t *testing.T) {
	for device, readOnly := range map[string]bool{
		`"disk":{}`: false, `"disk":{"bus":"sata"}`: false, `"disk":{"bus":"virtio"}`: false,
		`"disk":{"bus":"scsi"}`: false, `"disk":{"bus":"scsi","readonly":true}`: true,
		`"cdrom":{"readonly":false}`: false, `"cdrom":{}`: true, `"cdrom":{"bus":"sata"}`: true,
	} {
		d, err := domain.Build(input(
			read(t, `{"domain":{"memory":{"guest":"128Mi"},"devices":{"disks":[{"name":"seed",`+device+`}]}}}`)))
		require.NoError(t, err, device)
		require.Len(t, d.Devices.Disks, 1)
		require.Equal(t, readOnly, d.Devices.Disks[0].ReadOnly != nil, device)
	}
}

func TestDiskNamesContinueAfterZ(t *testing.T) {
	vmi := read(t, `{"domain":{"memory":{"guest":"1Mi"},"devices":{}}}`)
	in := input(vmi)
	for i := range 28 {
		name := "d" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		in.Volumes[name] = domain.Volume{Path: "/" + name, Format: "raw"}
		vmi.Spec.Domain.Devices.Disks = append(vmi.Spec.Domain.Devices.Disks,
			v1.Disk{Name: name, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: "virtio"}}})
	}
	d, err := domain.Build(in)
	require.NoError(t, err)
	require.Equal(t, "vdz", d.Devices.Disks[25].Target.Dev)
	require.Equal(t, "vdaa", d.Devices.Disks[26].Target.Dev)
	require.Equal(t, "vdab", d.Devices.Disks[27].Target.Dev)
}

func TestThreadsOfDisks(t *testing.T) {
	for spec, want := range map[string]uint{
		`{"domain":{"ioThreadsPolicy":"auto","devices":{"disks":[{"name":"a"},{"name":"b"},{"name":"c"}]}}}`: 2,
		`{"domain":{"ioThreadsPolicy":"auto","resources":{"requests":{"cpu":"2"}},
			"devices":{"disks":[{"name":"a"},{"name":"b"},{"name":"c"}]}}}`: 3,
		`{"domain":{"ioThreadsPolicy":"auto","devices":{"disks":[{"name":"a","dedicatedIOThread":true},
			{"name":"b","dedicatedIOThread":true},
			{"name":"c"}]}}}`: 3,
		`{"domain":{"ioThreadsPolicy":"shared","devices":{"disks":[{"name":"a"},{"name":"b"}]}}}`: 1,
		`{"domain":{"devices":{"disks":[{"name":"a"},{"name":"b"}]}}}`:                            0,
		`{"domain":{"ioThreadsPolicy":"supplementalPool","ioThreads":{"supplementalPoolThreadCount":3},
			"devices":{"disks":[{"name":"a","dedicatedIOThread":true},{"name":"b"}]}}}`: 3,
	} {
		vmi := read(t, spec)
		in := input(vmi)
		in.Volumes = map[string]domain.Volume{}
		for i := range vmi.Spec.Domain.Devices.Disks {
			d := &vmi.Spec.Domain.Devices.Disks[i]
			d.Disk = &v1.DiskTarget{Bus: "virtio"}
			in.Volumes[d.Name] = domain.Volume{Path: "/" + d.Name, Format: "qcow2"}
		}
		memory := resource.MustParse("128Mi")
		vmi.Spec.Domain.Memory = &v1.Memory{Guest: &memory}
		d, err := domain.Build(in)
		require.NoError(t, err)
		require.Equal(t, want, d.IOThreads, spec)
	}
}

// TestSlotsOfRootComplex: the slots are KubeVirt's: 0x02 stays that of the missing USB controller, and the others
// follow up to 0x1e, without the slot of q35's sound. More devices are refused.
func TestSlotsOfRootComplex(t *testing.T) {
	const scsi, serial, firstDisk, last = 0x03, 0x04, 0x05, 0x1e
	build := func(disks int) (*libvirtxml.Domain, error) {
		no := false
		vmi := read(t, `{"domain":{"memory":{"guest":"128Mi"},"devices":{}}}`)
		vmi.Spec.Domain.Devices.AutoattachMemBalloon = &no
		vmi.Annotations = map[string]string{v1.PlacePCIDevicesOnRootComplex: "true"}
		for range disks {
			vmi.Spec.Domain.Devices.Disks = append(vmi.Spec.Domain.Devices.Disks,
				v1.Disk{Name: "root", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: "virtio"}}})
		}
		return domain.Build(input(vmi))
	}
	const most = last - firstDisk // 0x1b is left out
	d, err := build(most)
	require.NoError(t, err)
	slot := func(a *libvirtxml.DomainAddress) uint { return *a.PCI.Slot }
	for _, c := range d.Devices.Controllers {
		switch c.Type {
		case "usb":
			require.Nil(t, c.Address)
		case "scsi":
			require.EqualValues(t, scsi, slot(c.Address))
		case "virtio-serial":
			require.EqualValues(t, serial, slot(c.Address))
		}
	}
	want := uint(firstDisk)
	for i := range d.Devices.Disks {
		if want == 0x1b {
			want++
		}
		require.Equal(t, want, slot(d.Devices.Disks[i].Address), "disk %d", i)
		want++
	}
	require.EqualValues(t, last+1, want)

	_, err = build(most + 1)
	var invalid *domain.InvalidError
	require.ErrorAs(t, err, &invalid)
}
