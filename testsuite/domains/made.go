package domains

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster/render"
	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/internal/hardware"
	"github.com/virtflow/virtflow/internal/settings"
	"github.com/virtflow/virtflow/launcher/disk"
	"github.com/virtflow/virtflow/launcher/domain"
)

// pod returns the launcher pod of an admitted instance.
func pod(vmi *kubevirtv1.VirtualMachineInstance, s settings.Settings) (*corev1.Pod, error) {
	return render.Pod(vmi, render.Options{Image: launcherImage, Settings: s})
}

const launcherImage = "registry.example/virtflow/launcher:dev"

// xml returns the domain that the launcher of an admitted instance builds.
func xml(
	t *testing.T, vmi *kubevirtv1.VirtualMachineInstance, r *Record, v Variant, s settings.Settings,
) (string, error) {
	t.Helper()
	launched := render.VMIForLauncher(vmi, &s)
	withoutClaimed(launched)
	volumes, err := prepared(t, launched, r)
	if err != nil {
		return "", err
	}
	d, err := domain.Build(domain.Input{
		VMI: launched, Hardware: hardware.From(&s.Configuration), KVM: v != Emulated,
		Volumes: volumes, Interfaces: interfaces(launched, r),
		Boot: boot(launched), CPUs: ownCPUs(vmi, s), HostDevices: hostDevices(launched),
		FileSystems: fileSystems(launched), ACPITables: acpiTables(launched),
		Paths: domain.Paths{
			Emulator: "/usr/bin/qemu-system-x86_64", Serial: "/serial", SerialLog: "/serial.log", VNC: "/vnc",
			USB:   []string{"/usb0", "/usb1", "/usb2", "/usb3"},
			Agent: "/agent", NVRAM: "/nvram", TPM: "/tpm",
		},
	})
	if err != nil {
		return "", err
	}
	return d.Marshal()
}

func acpiTables(vmi *kubevirtv1.VirtualMachineInstance) domain.ACPITables {
	if f := vmi.Spec.Domain.Firmware; f != nil && f.ACPI != nil {
		return domain.ACPITables{SLIC: f.ACPI.SlicNameRef, MSDM: f.ACPI.MsdmNameRef}
	}
	return domain.ACPITables{}
}

// ownCPUs returns the CPUs that a node gives an instance's pod: the first ones of the recorded host, with two NUMA
// nodes of 16 CPUs, two threads a core.
func ownCPUs(vmi *kubevirtv1.VirtualMachineInstance, s settings.Settings) []domain.HostCPU {
	p, err := pod(vmi, s)
	if err != nil {
		return nil
	}
	var out []domain.HostCPU
	for i := range int(p.Spec.Containers[0].Resources.Limits.Cpu().Value()) {
		out = append(out, domain.HostCPU{ID: i, Core: i - i%2, Node: i / 16})
	}
	return out
}

// fileSystems returns the sockets of daemons.
func fileSystems(vmi *kubevirtv1.VirtualMachineInstance) map[string]string {
	out := map[string]string{}
	for _, f := range vmi.Spec.Domain.Devices.Filesystems {
		out[f.Name] = "/virtiofs-" + f.Name
	}
	return out
}

// hostDevices returns the devices that a node's device plugins give an instance's pod. The guest does not see their
// addresses; the name in the records has the kind of each.
func hostDevices(vmi *kubevirtv1.VirtualMachineInstance) domain.HostDevices {
	out := domain.HostDevices{PCI: map[string][]string{}, Mediated: map[string][]string{}, USB: map[string][]string{}}
	add := func(name string) {
		switch {
		case strings.Contains(name, "usb"), strings.HasSuffix(name, "/storage"):
			out.USB[name] = append(out.USB[name], "1:2")
		case strings.Contains(name, "GRID"):
			out.Mediated[name] = append(out.Mediated[name], "aa618089-8b16-4d01-a136-000000000000")
		default:
			out.PCI[name] = append(out.PCI[name], fmt.Sprintf("0000:60:%02x.0", len(out.PCI[name])))
		}
	}
	for _, g := range vmi.Spec.Domain.Devices.GPUs {
		add(g.DeviceName)
	}
	for _, h := range vmi.Spec.Domain.Devices.HostDevices {
		add(h.DeviceName)
	}
	return out
}

// withoutClaimed removes the devices of ResourceClaims, which the recorded domains lack: there was no driver.
func withoutClaimed(vmi *kubevirtv1.VirtualMachineInstance) {
	d := &vmi.Spec.Domain.Devices
	d.GPUs = slices.DeleteFunc(d.GPUs, func(g kubevirtv1.GPU) bool { return g.ClaimRequest != nil })
	d.HostDevices = slices.DeleteFunc(d.HostDevices, func(h kubevirtv1.HostDevice) bool {
		return h.ClaimRequest != nil
	})
}

// boot returns the files of a kernel to boot.
func boot(vmi *kubevirtv1.VirtualMachineInstance) domain.Boot {
	f := vmi.Spec.Domain.Firmware
	if f == nil || f.KernelBoot == nil || f.KernelBoot.Container == nil {
		return domain.Boot{}
	}
	return domain.Boot{Kernel: f.KernelBoot.Container.KernelPath, Initrd: f.KernelBoot.Container.InitrdPath}
}

// prepared prepares the disks in a directory of the test's.
func prepared(
	t *testing.T, vmi *kubevirtv1.VirtualMachineInstance, r *Record,
) (map[string]domain.Volume, error) {
	t.Helper()
	dir := t.TempDir()
	at := disk.Directories{
		Images: filepath.Join(dir, "images"), CloudInit: filepath.Join(dir, "cloud-init"),
		UserData: filepath.Join(dir, "user-data"), NetworkData: filepath.Join(dir, "network-data"),
		Files: filepath.Join(dir, "files"), AccessCredentials: filepath.Join(dir, "access-credentials"),
		Disks: filepath.Join(dir, "disks"), Claims: filepath.Join(dir, "claims"),
		Devices: filepath.Join(dir, "devices"),
	}
	plan, err := disk.Plan(vmi, at)
	if err != nil {
		return nil, err
	}
	require.NoError(t, os.MkdirAll(at.Disks, 0o700))
	for _, p := range plan {
		if p.Kind == disk.ContainerDisk {
			file := p.File
			if file == "" {
				file = "disk/disk.qcow2"
			}
			write(t, filepath.Join(p.Source, file))
		}
		files := map[string]string{"userdata": p.UserData, "networkdata": p.NetworkData}
		switch p.Kind {
		case disk.ContainerDisk:
		case disk.ClaimFile:
			image(t, p.Path)
		case disk.Ephemeral:
			image(t, p.Source)
		default:
			files["autounattend.xml"] = p.Source
		}
		for file, d := range files {
			if d != "" {
				write(t, filepath.Join(d, file))
			}
		}
		for _, d := range p.PublicKeys {
			write(t, filepath.Join(d, "key"))
		}
	}
	devices, plan := claimDevices(plan)
	preparer := disk.NewPreparer("qemu-img", qemuImg{}, hardware.Default().Disks)
	volumes, err := preparer.Prepare(context.Background(), vmi, plan)
	maps.Copy(volumes, devices)
	for name, v := range volumes {
		v.DirectIO = r.Facts.DirectIO // of the recorded host
		volumes[name] = v
	}
	return volumes, err
}

// claimSize is the size of each recorded PVC, in bytes.
const claimSize = 10 << 30

// image creates the sparse file on a PVC.
func image(t *testing.T, file string) {
	t.Helper()
	write(t, file)
	require.NoError(t, os.Truncate(file, claimSize))
}

// claimDevices returns the plan's volumes that are devices, which only root can create, and the rest of the plan.
func claimDevices(plan []disk.Volume) (map[string]domain.Volume, []disk.Volume) {
	out := map[string]domain.Volume{}
	for _, v := range plan {
		if v.Kind == disk.ClaimDevice {
			out[v.Name] = domain.Volume{Path: v.Path, Format: "raw", Size: claimSize, Claim: true, Block: true,
				Allocated: true, ReadOnly: v.ReadOnly, Thick: v.Thick}
		}
	}
	return out, slices.DeleteFunc(plan, func(v disk.Volume) bool { return v.Kind == disk.ClaimDevice })
}

// withClaims adds the recorded PVCs to an instance's status, as the control worker does.
func withClaims(vmi *kubevirtv1.VirtualMachineInstance, r *Record, v Variant) {
	for i := range vmi.Spec.Volumes {
		volume := &vmi.Spec.Volumes[i]
		name, isClaim := claims.Of(volume)
		if !isClaim {
			continue
		}
		mode, access := corev1.PersistentVolumeFilesystem, corev1.ReadWriteOnce
		if (r.Facts.Claims[name] == string(corev1.PersistentVolumeBlock)) != (v == Block) {
			mode = corev1.PersistentVolumeBlock
		}
		if strings.Contains(name, "shared") {
			access = corev1.ReadWriteMany
		}
		vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, kubevirtv1.VolumeStatus{
			Name: volume.Name, PersistentVolumeClaimInfo: &kubevirtv1.PersistentVolumeClaimInfo{
				ClaimName: name, VolumeMode: &mode, AccessModes: []corev1.PersistentVolumeAccessMode{access},
				Capacity: corev1.ResourceList{
					corev1.ResourceStorage: *resource.NewQuantity(claimSize, resource.BinarySI)},
			},
		})
	}
}

// withState adds the PVC for persistent state to an instance's status, with KubeVirt's name: virtflow derives another
// name from the VM's UID.
func withState(vmi *kubevirtv1.VirtualMachineInstance) {
	if _, needed := claims.State(vmi); needed {
		vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus, kubevirtv1.VolumeStatus{Name: claims.StateVolume,
			PersistentVolumeClaimInfo: &kubevirtv1.PersistentVolumeClaimInfo{
				ClaimName: claims.StatePrefix + "-" + vmi.Name}})
	}
}

func write(t *testing.T, file string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
}

// qemuImg replaces the program: every image is qcow2, as in the records.
type qemuImg struct{}

func (qemuImg) Run(cmd *exec.Cmd, _ func(int)) error {
	if slices.Contains(cmd.Args, "info") {
		_, err := fmt.Fprint(cmd.Stdout, `{"format":"qcow2","virtual-size":1073741824}`)
		return err
	}
	for _, arg := range slices.Backward(cmd.Args) {
		if filepath.IsAbs(arg) {
			return os.WriteFile(arg, nil, 0o600)
		}
	}
	return fmt.Errorf("qemu-img %q makes no file", cmd.Args)
}

// interfaces returns the devices that a node worker would create.
func interfaces(vmi *kubevirtv1.VirtualMachineInstance, r *Record) map[string]domain.Interface {
	out := map[string]domain.Interface{}
	for i, n := range vmi.Spec.Networks {
		out[n.Name] = domain.Interface{
			Tap: fmt.Sprintf("tap%d", i), MTU: r.Facts.PodMTU, PCI: "0000:81:01.0",
		}
	}
	return out
}
