//go:build libvirt

package realtest

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/suite"
)

// machineOf is a VMI whose machine has what a JSON object says beside the root disk.
func machineOf(t *testing.T, domain string) string {
	t.Helper()
	return vmi(func(spec map[string]any) {
		root := spec["domain"].(map[string]any)
		var more map[string]any
		require.NoError(t, json.Unmarshal([]byte(domain), &more))
		merge(root, more)
		disks := root["devices"].(map[string]any)["disks"].([]any)
		for _, d := range disks[3:] {
			spec["volumes"] = append(spec["volumes"].([]any), map[string]any{
				"name": d.(map[string]any)["name"], "emptyDisk": map[string]any{"capacity": "16Mi"}})
		}
	})
}

// merge adds what is in from: objects within objects, lists at the end of lists.
func merge(to, from map[string]any) {
	for k, v := range from {
		switch had := to[k].(type) {
		case map[string]any:
			merge(had, v.(map[string]any))
		case []any:
			to[k] = append(had, v.([]any)...)
		default:
			to[k] = v
		}
	}
}

// guest runs a command in the guest and returns what it wrote.
func (p *pod) guest(command string) string {
	p.t.Helper()
	p.eventually("the agent answers", func() bool { _, code := p.probe("--guest-agent-ping"); return code == 0 })
	out, code := p.probe("--command", "sh", "--", "-c", command)
	require.Zero(p.t, code, "%s: %s", command, out)
	return strings.TrimSpace(out)
}

// pci lists the classes of the guest's PCI devices.
const pci = `cat /sys/bus/pci/devices/*/class`

// TestGuestSeesItsMachine: one guest with much of what a machine can have.
func TestGuestSeesItsMachine(t *testing.T) {
	suite.TakeTurn(t, 7)
	object := machineOf(t, `{
		"cpu":{"sockets":1,"cores":1,"maxSockets":4,"features":[{"name":"sse4.2","policy":"disable"}]},
		"memory":{"guest":"1Gi","maxGuest":"4Gi"},
		"chassis":{"manufacturer":"Maker","version":"2","serial":"c-1","asset":"a-1","sku":"k-1"},
		"firmware":{"serial":"s-1"},
		"clock":{"timezone":"Asia/Tokyo","timer":{"hpet":{"present":false},"pit":{"tickPolicy":"delay"},"rtc":{"tickPolicy":"catchup"},"kvm":{},"hyperv":{}}},
		"features":{"acpi":{},"apic":{},"kvm":{"hidden":true},"pvspinlock":{"enabled":false},"smm":{},
			"hyperv":{"relaxed":{},"vapic":{},"vpindex":{},"spinlocks":{"spinlocks":8191},"synic":{},"tlbflush":{"direct":{}}}},
		"ioThreadsPolicy":"supplementalPool","ioThreads":{"supplementalPoolThreadCount":2},
		"devices":{
			"sound":{"name":"card","model":"ich9"},"video":{"type":"virtio"},"watchdog":{"name":"dog","i6300esb":{"action":"poweroff"}},
			"panicDevices":[{"model":"isa"},{"model":"pvpanic"},{"model":"hyperv"}],
			"inputs":[{"type":"tablet","bus":"usb","name":"a"},{"type":"tablet","bus":"virtio","name":"b"}],
			"disks":[{"name":"big","blockSize":{"custom":{"logical":4096,"physical":4096,"discardGranularity":1048576}},"disk":{"bus":"virtio"}},
				{"name":"s0","disk":{"bus":"scsi"}},{"name":"s1","disk":{"bus":"scsi"}},{"name":"s2","disk":{"bus":"scsi"}},
				{"name":"s3","disk":{"bus":"scsi"}},{"name":"s4","disk":{"bus":"scsi"}},{"name":"s5","disk":{"bus":"scsi"}},
				{"name":"s6","disk":{"bus":"scsi"}},{"name":"s7","disk":{"bus":"scsi"},"serial":"eighth"},
				{"name":"stick","disk":{"bus":"usb"}},{"name":"disc","cdrom":{"bus":"usb"}}],
			"interfaces":[{"name":"default","masquerade":{},"model":"igb","bootOrder":2}]}}`)
	object = strings.Replace(object, `"volumes":`, `"networks":[{"name":"default","pod":{}}],"volumes":`, 1)
	p := newPodIn(t, object, podNetwork(t))
	p.bootWith(podInterface())
	require.Equal(t, "0", p.guest("cat /sys/devices/system/cpu/online"))
	require.Equal(t, "0-3", p.guest("cat /sys/devices/system/cpu/possible"), "there is room for three more sockets")
	require.NotContains(t, p.guest("grep ^flags /proc/cpuinfo"), "sse4_2")
	for file, want := range map[string]string{
		"chassis_vendor": "Maker", "chassis_version": "2", "chassis_serial": "c-1", "chassis_asset_tag": "a-1",
		"product_serial": "s-1", "sys_vendor": "KubeVirt", "product_family": "KubeVirt",
	} {
		require.Equal(t, want, p.guest("cat /sys/class/dmi/id/"+file), file)
	}
	booted, err := strconv.ParseInt(p.guest("date +%s"), 10, 64)
	require.NoError(t, err)
	ahead := time.Unix(booted, 0).Sub(time.Now()).Round(time.Hour)
	require.Equal(t, 9*time.Hour, ahead, "the guest takes its clock for UTC, and it is Tokyo's")
	classes := p.guest(pci)
	for class, what := range map[string]string{
		"0x040300": "sound", "0x088000": "watchdog", "0x0c0330": "USB 3",
	} {
		require.Contains(t, classes, class, what)
	}
	require.Equal(t, "0x1af4", p.guest("cat $(dirname $(grep -l 0x030000 /sys/bus/pci/devices/*/class))/vendor"),
		"the display is virtio's")
	require.Contains(t, p.guest("cat /sys/bus/pci/devices/*/device"), "0x10c9", "the network card is an igb")
	require.Equal(t, "4096", p.guest("cat /sys/block/vdd/queue/logical_block_size"))
	require.Equal(t, "1048576", p.guest("cat /sys/block/vdd/queue/discard_granularity"))
	// Eight disks, and unit 7 is the controller's own.
	require.Equal(t, "0 1 2 3 4 5 6 8", p.guest(`ls -d /sys/bus/scsi/devices/*:0:0:*/block | `+
		`sed 's/.*:0:0:\([0-9]*\).*/\1/' | sort -n | uniq | xargs`))
	free := p.guest(`cd /sys/bus/pci/devices; for p in *; do grep -q 0x060400 $p/class || continue; ` +
		`ls | grep -q "^0000:$(printf %02x $(cat $p/secondary_bus_number)):" || echo $p; done | wc -l`)
	require.Equal(t, "3", free, "ports for what is plugged in later")
	order := strings.Split(p.guest("tr '\\0' '\\n' </sys/firmware/qemu_fw_cfg/by_name/bootorder/raw"), "\n")
	require.GreaterOrEqual(t, len(order), 2, order)
	require.Contains(t, order[0], "/scsi@", "the root disk is first in the firmware's boot order")
	require.Contains(t, order[1], "/ethernet@", "and of the network card then")
	// The watchdog gets no more input: ten seconds are for the answer.
	p.guest("watchdog -T 10 -t 600 /dev/watchdog")
	m, _ := p.ends()
	require.Equal(t, contract.TerminationMessage{Reason: contract.ReasonCrashed, Ran: true}, m)
}

// TestKernelOfItsOwn: a guest with a kernel image of its own boots without a disk.
func TestKernelOfItsOwn(t *testing.T) {
	suite.TakeTurn(t, 1)
	p := newPod(t, machineOf(t, `{"cpu":{"maxSockets":4},"firmware":{"kernelBoot":{"kernelArgs":"console=ttyS0 virtflow.own",
		"container":{"image":"x","kernelPath":"/boot/vmlinuz","initrdPath":"/boot/initrd"}}}}`))
	disk := filepath.Join(image(t, "guest"), "disk/disk.img")
	for _, file := range []string{"vmlinuz", "initrd"} {
		out, err := exec.Command("mcopy", "-i", disk, "::"+file, p.at("kernel-boot/boot/"+file)).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	p.boot()
	require.Contains(t, p.guest("cat /proc/cmdline"), "virtflow.own")
	require.Equal(t, "0-3", p.guest("cat /sys/devices/system/cpu/possible"), "a small guest has room for CPUs, too")
}

// TestLicencesOfFirmware: the guest finds the ACPI tables that Secrets bring.
func TestLicencesOfFirmware(t *testing.T) {
	suite.TakeTurn(t, 4)
	p := newPod(t, vmi(func(spec map[string]any) {
		spec["domain"].(map[string]any)["firmware"] = map[string]any{
			"acpi": map[string]any{"slicNameRef": "windows", "msdmNameRef": "key"}}
		spec["volumes"] = append(spec["volumes"].([]any),
			map[string]any{"name": "windows", "secret": map[string]any{"secretName": "w"}},
			map[string]any{"name": "key", "secret": map[string]any{"secretName": "k"}})
	}))
	// A header of 36 bytes, and what the table says. QEMU corrects length and checksum.
	table := func(signature string) string { return signature + strings.Repeat("\x00", 32) + "said: " + signature }
	p.put("files/windows/slic.bin", table("SLIC"))
	p.put("files/key/msdm.bin", table("MSDM"))
	p.boot()
	for _, name := range []string{"SLIC", "MSDM"} {
		require.Equal(t, "said: "+name, p.guest("tail -c +37 /sys/firmware/acpi/tables/"+name))
	}
}

// TestDevicesOnRootComplex: nothing is behind a port, and no port is there.
func TestDevicesOnRootComplex(t *testing.T) {
	suite.TakeTurn(t, 2)
	object := strings.Replace(machineOf(t, `{"devices":{"watchdog":{"name":"dog","i6300esb":{}},
		"inputs":[{"type":"tablet","bus":"virtio","name":"b"}]}}`), `"uid":`,
		`"annotations":{"kubevirt.io/placePCIDevicesOnRootComplex":"true","kubevirt.io/disablePCIHole64":"true"},"uid":`, 1)
	p := newPod(t, object)
	p.boot()
	require.NotContains(t, p.guest(pci), "0x060400")
	require.Empty(t, p.guest("ls /sys/bus/pci/devices | grep -v ^0000:00: || true"))
}

// TestUEFI: a guest boots with secure boot and a TPM, and with neither.
func TestUEFI(t *testing.T) {
	for name, c := range map[string]struct{ spec, says string }{
		"secure": {spec: `"features":{"smm":{}},"firmware":{"bootloader":{"efi":{}}},"devices":{"tpm":{}}`,
			says: "Secure boot enabled"},
		"open": {spec: `"firmware":{"bootloader":{"efi":{"secureBoot":false}}}`, says: "Secure boot disabled"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, machineOf(t, `{"memory":{"guest":"512Mi"},`+c.spec+`}`))
			p.boot()
			require.Contains(t, p.guest("ls /sys/firmware"), "efi")
			require.Contains(t, p.guest("dmesg | grep -i 'secure boot'"), c.says)
			tpm := p.guest("ls /sys/firmware/acpi/tables")
			if strings.Contains(c.spec, "tpm") {
				require.Contains(t, tpm, "TPM2")
			} else {
				require.NotContains(t, tpm, "TPM2")
			}
		})
	}
}
