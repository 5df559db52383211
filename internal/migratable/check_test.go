package migratable

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/settings"
)

// guest returns one that can migrate, with a disk that is copied.
func guest() *kubevirt.VirtualMachineInstance {
	return &kubevirt.VirtualMachineInstance{
		Spec: kubevirt.VirtualMachineInstanceSpec{
			Architecture: "amd64",
			Domain: kubevirt.DomainSpec{CPU: &kubevirt.CPU{Model: "host-model"}, Devices: kubevirt.Devices{
				Interfaces: []kubevirt.Interface{{Name: "pod", InterfaceBindingMethod: kubevirt.InterfaceBindingMethod{
					Masquerade: &kubevirt.InterfaceMasquerade{}}}},
				Disks: []kubevirt.Disk{{Name: "root"}, {Name: "seed", DiskDevice: kubevirt.DiskDevice{
					CDRom: &kubevirt.CDRomTarget{}}}},
			}},
			Networks: []kubevirt.Network{{Name: "pod",
				NetworkSource: kubevirt.NetworkSource{Pod: &kubevirt.PodNetwork{}}}},
			Volumes: []kubevirt.Volume{
				{Name: "root", VolumeSource: kubevirt.VolumeSource{ContainerDisk: &kubevirt.ContainerDiskSource{}}},
				{Name: "seed", VolumeSource: kubevirt.VolumeSource{
					CloudInitNoCloud: &kubevirt.CloudInitNoCloudSource{}}},
			},
		},
	}
}

func claim(vmi *kubevirt.VirtualMachineInstance, modes ...corev1.PersistentVolumeAccessMode) {
	vmi.Spec.Volumes[0].VolumeSource = kubevirt.VolumeSource{
		PersistentVolumeClaim: &kubevirt.PersistentVolumeClaimVolumeSource{
			PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}
	if len(modes) > 0 {
		vmi.Status.VolumeStatus = []kubevirt.VolumeStatus{{Name: "root",
			PersistentVolumeClaimInfo: &kubevirt.PersistentVolumeClaimInfo{AccessModes: modes}}}
	}
}

// TestRefusals has KubeVirt's reasons and messages, in its order: each row keeps the changes of those before it, so
// that a later reason never hides an earlier one.
func TestRefusals(t *testing.T) {
	yes := true
	const must = ", live migration requires that all PVCs must be shared (using ReadWriteMany access mode)"
	vmi, s := guest(), settings.Default()
	node := &Node{Name: "n", HostModel: true}
	check := func() contract.Migratable { return Check(vmi, s, node) }
	require.Equal(t, contract.Migratable{Method: "BlockMigration"}, check())
	storage := ""
	for _, c := range []struct {
		reason, message string
		change          func()
	}{
		{"DisksNotLiveMigratable", "cannot migrate VMI with non-shared HostDisk", func() {
			vmi.Spec.Volumes[0].VolumeSource = kubevirt.VolumeSource{HostDisk: &kubevirt.HostDisk{}}
		}},
		{"DisksNotLiveMigratable", "cannot migrate VMI: Unable to determine if PVC data is shared" + must,
			func() { claim(vmi) }},
		{"DisksNotLiveMigratable", "cannot migrate VMI: PVC data is not shared" + must,
			func() { claim(vmi, corev1.ReadWriteOnce) }},
		{"HypervPassthroughNotLiveMigratable", "VMI uses hyperv passthrough", func() {
			vmi.Spec.Domain.Features = &kubevirt.Features{HypervPassthrough: &kubevirt.HyperVPassthrough{Enabled: &yes}}
		}},
		{"NoTSCFrequencyNotLiveMigratable", "HyperV Reenlightenment VMIs cannot migrate when TSC Frequency is not exposed " +
			"on the cluster: guest timers might be inconsistent", func() {
			vmi.Spec.Domain.Features.Hyperv = &kubevirt.FeatureHyperv{Reenlightenment: &kubevirt.FeatureState{}}
		}},
		{"SecureExecutionNotLiveMigratable", "VMI uses Secure Execution", func() {
			vmi.Spec.Domain.LaunchSecurity, vmi.Spec.Architecture = &kubevirt.LaunchSecurity{}, "s390x"
		}},
		{"TDXNotLiveMigratable", "VMI uses TDX", func() { vmi.Spec.Domain.LaunchSecurity.TDX = &kubevirt.TDX{} }},
		{"SEVNotLiveMigratable", "VMI uses SEV", func() { vmi.Spec.Domain.LaunchSecurity.SEV = &kubevirt.SEV{} }},
		{"DedicatedCPUsNotLiveMigratable", "VMI has CPUs of its own, and those of another node have other numbers: " +
			"moving it is not supported yet", func() {
			vmi.Spec.Domain.CPU = &kubevirt.CPU{DedicatedCPUPlacement: true, Model: kubevirt.CPUModeHostModel}
		}},
		{"HostDeviceNotLiveMigratable", "VMI specifies a GPU but feature gate VGPULiveMigration is not enabled", func() {
			vmi.Spec.Domain.Devices.GPUs = []kubevirt.GPU{{}}
		}},
		{"CPUModeLiveMigratable", `the node "n" does not allow migration with host-model`, func() {
			node.HostModel = false
		}},
		{"InterfaceNotLiveMigratable",
			"cannot migrate VMI with an SR-IOV interface: its device is not detached for a migration yet", func() {
				vmi.Spec.Domain.Devices.Interfaces = append(vmi.Spec.Domain.Devices.Interfaces,
					kubevirt.Interface{Name: "fast", InterfaceBindingMethod: kubevirt.InterfaceBindingMethod{
						SRIOV: &kubevirt.InterfaceSRIOV{}}})
			}},
		{"InterfaceNotLiveMigratable",
			"cannot migrate VMI which does not use masquerade or a migratable plugin to connect to the pod network", func() {
				vmi.Spec.Domain.Devices.Interfaces[0].InterfaceBindingMethod = kubevirt.InterfaceBindingMethod{
					Bridge: &kubevirt.InterfaceBridge{}}
			}},
	} {
		c.change()
		m := check()
		require.Equal(t, c.reason, m.Reason)
		require.Equal(t, c.message, m.Message)
		if c.reason != "DisksNotLiveMigratable" {
			storage = ", " + storage
			storage = c.reason + ": " + c.message + map[bool]string{true: storage}[storage != ", "]
		}
		require.Equal(t, storage, m.Storage, "the disks do not count there")
	}
}

func TestMigratable(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*kubevirt.VirtualMachineInstance, *settings.Settings)
		method string
	}{
		"only a read-only disk": {method: "LiveMigration",
			change: func(vmi *kubevirt.VirtualMachineInstance, _ *settings.Settings) {
				vmi.Spec.Volumes = vmi.Spec.Volumes[1:]
			}},
		"a shared claim": {method: "LiveMigration",
			change: func(vmi *kubevirt.VirtualMachineInstance, _ *settings.Settings) {
				claim(vmi, corev1.ReadWriteMany)
			}},
		"no network": {change: func(vmi *kubevirt.VirtualMachineInstance, _ *settings.Settings) {
			vmi.Spec.Networks, vmi.Spec.Domain.Devices.Interfaces = nil, nil
		}},
		"emulated CPUs": {change: func(_ *kubevirt.VirtualMachineInstance, s *settings.Settings) { s.UseEmulation = true }},
		"another CPU": {change: func(vmi *kubevirt.VirtualMachineInstance, _ *settings.Settings) {
			vmi.Spec.Domain.CPU.Model = "Nehalem"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			vmi, s := guest(), settings.Default()
			var node *Node
			c.change(vmi, &s)
			if name == "emulated CPUs" || name == "another CPU" {
				node = &Node{Name: "n"}
			}
			if c.method == "" {
				c.method = "BlockMigration"
			}
			require.Equal(t, contract.Migratable{Method: c.method}, Check(vmi, s, node))
		})
	}
}

// TestPluginDecidesWhetherGuestMigrates: a binding plugin on the pod network permits migrations by its configuration.
func TestPluginDecidesWhetherGuestMigrates(t *testing.T) {
	for name, want := range map[string]string{
		"moves": "", "stays": "InterfaceNotLiveMigratable", "unknown": "InterfaceNotLiveMigratable",
	} {
		vmi, s := guest(), settings.Default()
		s.Configuration.NetworkConfiguration = &kubevirt.NetworkConfiguration{
			Binding: map[string]kubevirt.InterfaceBindingPlugin{
				"moves": {DomainAttachmentType: kubevirt.Tap, Migration: &kubevirt.InterfaceBindingMigration{}},
				"stays": {DomainAttachmentType: kubevirt.Tap},
			}}
		f := &vmi.Spec.Domain.Devices.Interfaces[0]
		f.InterfaceBindingMethod, f.Binding = kubevirt.InterfaceBindingMethod{}, &kubevirt.PluginBinding{Name: name}
		require.Equal(t, want, Check(vmi, s, nil).Reason, name)
		annotations := map[string]string{kubevirt.AllowPodBridgeNetworkLiveMigrationAnnotation: ""}
		require.Empty(t, Warnings(annotations, &vmi.Spec), name)
	}
}

// TestNoAnnotationMovesBridgedGuest: it would keep the address of the pod that it has left.
func TestNoAnnotationMovesBridgedGuest(t *testing.T) {
	vmi := guest()
	vmi.Spec.Domain.Devices.Interfaces[0].InterfaceBindingMethod = kubevirt.InterfaceBindingMethod{
		Bridge: &kubevirt.InterfaceBridge{}}
	vmi.Annotations = map[string]string{kubevirt.AllowPodBridgeNetworkLiveMigrationAnnotation: ""}
	require.Equal(t, "InterfaceNotLiveMigratable", Check(vmi, settings.Default(), nil).Reason)
}

// TestReservationKeepsStorage: the guest migrates without its disks.
func TestReservationKeepsStorage(t *testing.T) {
	vmi := guest()
	vmi.Spec.Domain.Devices.Disks[0].LUN = &kubevirt.LunTarget{Reservation: true}
	m := Check(vmi, settings.Default(), nil)
	require.Empty(t, m.Reason)
	require.Equal(t, "PersistentReservationNotLiveMigratable: VMI uses SCSI persistent reservation", m.Storage)
}

// TestEphemeralVolumeNeedsSharedClaim: otherwise the target's pod would not start. KubeVirt does not check it.
func TestEphemeralVolumeNeedsSharedClaim(t *testing.T) {
	for mode, message := range map[corev1.PersistentVolumeAccessMode]string{
		corev1.ReadWriteMany: "", corev1.ReadOnlyMany: "",
		corev1.ReadWriteOnce: "cannot migrate VMI: PVC data is not shared, live migration requires that all PVCs must be " +
			"shared (using ReadWriteMany access mode)",
	} {
		vmi := guest()
		claim(vmi, mode)
		source := &vmi.Spec.Volumes[0].PersistentVolumeClaim.PersistentVolumeClaimVolumeSource
		vmi.Spec.Volumes[0].VolumeSource = kubevirt.VolumeSource{
			Ephemeral: &kubevirt.EphemeralVolumeSource{PersistentVolumeClaim: source}}
		got := Check(vmi, settings.Default(), nil)
		require.Equal(t, message, got.Message, mode)
		require.Equal(t, "BlockMigration", got.Method)
	}
}

// TestTooManyImagesToCarry: KubeVirt carries none.
func TestTooManyImagesToCarry(t *testing.T) {
	vmi := guest() // with one
	cdrom := kubevirt.DiskDevice{CDRom: &kubevirt.CDRomTarget{}}
	for i := range contract.MostMigrationFiles {
		require.Empty(t, Check(vmi, settings.Default(), nil).Message)
		name := fmt.Sprint("s", i)
		disks := &vmi.Spec.Domain.Devices.Disks
		*disks = append(*disks, kubevirt.Disk{Name: name, DiskDevice: cdrom})
		vmi.Spec.Volumes = append(vmi.Spec.Volumes, kubevirt.Volume{Name: name, VolumeSource: kubevirt.VolumeSource{
			Secret: &kubevirt.SecretVolumeSource{}}})
	}
	got := Check(vmi, settings.Default(), nil)
	require.Equal(t, "DisksNotLiveMigratable", got.Reason)
	require.Equal(t, "cannot migrate VMI with 17 CD-ROMs generated from ConfigMaps, Secrets, cloud-init and the like: "+
		"at most 16 are supported", got.Message)
}

// TestMultusDefaultNetwork: on a Multus network that replaces the pod network, too, a bridged guest has its pod's
// address, so it cannot migrate.
func TestMultusDefaultNetwork(t *testing.T) {
	for _, isDefault := range []bool{true, false} {
		vmi := guest()
		vmi.Spec.Networks[0].NetworkSource = kubevirt.NetworkSource{
			Multus: &kubevirt.MultusNetwork{NetworkName: "blue", Default: isDefault}}
		vmi.Spec.Domain.Devices.Interfaces[0].InterfaceBindingMethod = kubevirt.InterfaceBindingMethod{
			Bridge: &kubevirt.InterfaceBridge{}}
		got := Check(vmi, settings.Default(), &Node{Name: "n", HostModel: true})
		refused := got.Reason == kubevirt.VirtualMachineInstanceReasonInterfaceNotMigratable
		require.Equal(t, isDefault, refused, "%+v", got)
	}
}

// TestNamesTheAnnotationThatLetsNoGuestMove: the condition of the guest that the annotation was meant for states that
// the annotation has no effect.
func TestNamesTheAnnotationThatLetsNoGuestMove(t *testing.T) {
	vmi := &kubevirt.VirtualMachineInstance{}
	vmi.Annotations = map[string]string{kubevirt.AllowPodBridgeNetworkLiveMigrationAnnotation: "true"}
	vmi.Spec.Networks = []kubevirt.Network{*kubevirt.DefaultPodNetwork()}
	vmi.Spec.Domain.Devices.Interfaces = []kubevirt.Interface{*kubevirt.DefaultBridgeNetworkInterface()}
	m := Check(vmi, settings.Default(), nil)
	require.Equal(t, kubevirt.VirtualMachineInstanceReasonInterfaceNotMigratable, m.Reason)
	require.Contains(t, m.Message, "; the annotation kubevirt.io/allow-pod-bridge-network-live-migration has no effect")
	vmi.Spec.Domain.Devices.Interfaces = []kubevirt.Interface{*kubevirt.DefaultMasqueradeNetworkInterface()}
	require.NotContains(t, Check(vmi, settings.Default(), nil).Message, "annotation")
	require.Empty(t, Warnings(vmi.Annotations, &vmi.Spec))
}
