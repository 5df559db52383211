package defaults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

func staged() Cluster {
	stage := kubevirtv1.VMRolloutStrategyStage
	return Cluster{Architecture: "amd64", Configuration: kubevirtv1.KubeVirtConfiguration{
		VMRolloutStrategy:    &stage,
		NetworkConfiguration: &kubevirtv1.NetworkConfiguration{NetworkInterface: "masquerade"},
	}}
}

func memory(s string) *resource.Quantity {
	q := resource.MustParse(s)
	return &q
}

func TestVMIGetsWhatItNeedsToRun(t *testing.T) {
	vmi := &kubevirtv1.VirtualMachineInstance{}
	vmi.Spec.Domain.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")}
	vmi.Spec.Domain.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}
	vmi.Spec.Volumes = []kubevirtv1.Volume{
		{Name: "root", VolumeSource: kubevirtv1.VolumeSource{
			ContainerDisk: &kubevirtv1.ContainerDiskSource{Image: "registry/guest"}}},
		{Name: "more", VolumeSource: kubevirtv1.VolumeSource{
			ContainerDisk: &kubevirtv1.ContainerDiskSource{Image: "registry/guest:v1"}}},
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.NoError(t, CreateVMI(vmi, staged(), now))

	d := vmi.Spec.Domain
	require.Equal(t, "amd64", vmi.Spec.Architecture)
	require.Equal(t, "q35", d.Machine.Type)
	require.Equal(t, "128Mi", d.Memory.Guest.String())
	require.Equal(t, kubevirtv1.CPU{Cores: 1, Sockets: 2, Threads: 1, Model: "host-model"}, *d.CPU)
	require.Equal(t, "1500m", d.Resources.Requests.Cpu().String(), "a limit that stands alone is the request, too")
	require.Len(t, d.Devices.Disks, 2)
	require.Equal(t, kubevirtv1.DiskBusSATA, d.Devices.Disks[0].Disk.Bus)
	require.NotNil(t, d.Devices.Interfaces[0].Masquerade)
	require.NotNil(t, vmi.Spec.Networks[0].Pod)
	require.Equal(t, corev1.PullAlways, vmi.Spec.Volumes[0].ContainerDisk.ImagePullPolicy)
	require.Equal(t, corev1.PullIfNotPresent, vmi.Spec.Volumes[1].ContainerDisk.ImagePullPolicy)
	require.Equal(t, kubevirtv1.EvictionStrategyNone, *vmi.Spec.EvictionStrategy)
	require.NotEmpty(t, d.Firmware.UUID)
	require.Nil(t, vmi.Spec.TerminationGracePeriodSeconds, "KubeVirt leaves it open")

	require.Contains(t, vmi.Finalizers, contract.FinalizerVMI)
	require.Equal(t, kubevirtv1.Pending, vmi.Status.Phase)
	require.Equal(t, now, vmi.Status.PhaseTransitionTimestamps[0].PhaseTransitionTimestamp.UTC())
	require.Equal(t, uint64(107), vmi.Status.RuntimeUser)
	require.Equal(t, uint32(2), vmi.Status.CurrentCPUTopology.Sockets)
	require.Equal(t, "128Mi", vmi.Status.Memory.GuestAtBoot.String())
}

func TestKeepsGivenValues(t *testing.T) {
	vmi := &kubevirtv1.VirtualMachineInstance{}
	no := false
	vmi.Spec.Architecture = "arm64"
	vmi.Spec.Domain.Machine = &kubevirtv1.Machine{Type: "virt-6.2"}
	vmi.Spec.Domain.CPU = &kubevirtv1.CPU{Cores: 3, Model: "cortex"}
	vmi.Spec.Domain.Memory = &kubevirtv1.Memory{Guest: memory("1Gi")}
	vmi.Spec.Domain.Devices.AutoattachPodInterface = &no
	require.NoError(t, CreateVMI(vmi, staged(), time.Now()))
	require.Equal(t, "arm64", vmi.Spec.Architecture)
	require.Equal(t, "virt-6.2", vmi.Spec.Domain.Machine.Type)
	require.Equal(t, kubevirtv1.CPU{Cores: 3, Model: "cortex"}, *vmi.Spec.Domain.CPU)
	require.Empty(t, vmi.Spec.Networks)
}

func TestLimitsOfGrowthOnlyWhereTemplatesReachRunningVMs(t *testing.T) {
	vmi := &kubevirtv1.VirtualMachineInstance{}
	vmi.Spec.Domain.Memory = &kubevirtv1.Memory{Guest: memory("1Gi")}
	require.NoError(t, CreateVMI(vmi, staged(), time.Now()))
	require.Zero(t, vmi.Spec.Domain.CPU.MaxSockets)
	require.Nil(t, vmi.Spec.Domain.Memory.MaxGuest)

	live := Cluster{Architecture: "amd64"}
	require.NoError(t, CreateVMI(vmi, live, time.Now()))
	require.Equal(t, uint32(4), vmi.Spec.Domain.CPU.MaxSockets)
	require.Equal(t, "4Gi", vmi.Spec.Domain.Memory.MaxGuest.String())

	vmi.Spec.Domain.CPU.MaxSockets, vmi.Spec.Domain.Memory.MaxGuest = 9, memory("2Gi")
	require.NoError(t, CreateVMI(vmi, live, time.Now()))
	require.Equal(t, uint32(9), vmi.Spec.Domain.CPU.MaxSockets, "what the user asked for stays")
	require.Equal(t, "2Gi", vmi.Spec.Domain.Memory.MaxGuest.String())
}

func TestBridgeIsKubeVirtsDefaultAndMayBeForbidden(t *testing.T) {
	vmi := &kubevirtv1.VirtualMachineInstance{}
	require.NoError(t, Spec(&vmi.Spec, Cluster{Architecture: "amd64"}))
	require.NotNil(t, vmi.Spec.Domain.Devices.Interfaces[0].Bridge)

	no := false
	forbidden := Cluster{Architecture: "amd64", Configuration: kubevirtv1.KubeVirtConfiguration{
		NetworkConfiguration: &kubevirtv1.NetworkConfiguration{PermitBridgeInterfaceOnPodNetwork: &no},
	}}
	require.EqualError(t, Spec(&kubevirtv1.VirtualMachineInstanceSpec{}, forbidden),
		"bridge interface is not enabled in kubevirt-config")
}

func TestVMKeepsItsIdentities(t *testing.T) {
	vm := &kubevirtv1.VirtualMachine{}
	vm.Spec.Template = &kubevirtv1.VirtualMachineInstanceTemplateSpec{}
	CreateVM(vm, staged())
	first := vm.Spec.Template.Spec.Domain.Firmware.DeepCopy()
	require.NotEmpty(t, first.UUID)
	require.NotEmpty(t, first.Serial)
	require.Equal(t, []string{contract.FinalizerVM}, vm.Finalizers)

	CreateVM(vm, staged())
	UpdateVM(vm, staged())
	require.Equal(t, first, vm.Spec.Template.Spec.Domain.Firmware)
	require.Equal(t, []string{contract.FinalizerVM}, vm.Finalizers)
}

func TestIgnoresVMWithoutTemplate(t *testing.T) {
	vm := &kubevirtv1.VirtualMachine{}
	CreateVM(vm, staged())
	UpdateVM(vm, staged())
	require.Nil(t, vm.Spec.Template)
}

// TestInputDevice: a guest gets one if it asks for any and names none.
func TestInputDevice(t *testing.T) {
	yes, no := true, false
	named := kubevirtv1.Input{Name: "mine", Type: kubevirtv1.InputTypeTablet, Bus: kubevirtv1.InputBusVirtio}
	for name, c := range map[string]struct {
		asks *bool
		has  []kubevirtv1.Input
		want []kubevirtv1.Input
	}{
		"nothing": {nil, nil, nil},
		"no":      {&no, nil, nil},
		"yes": {&yes, nil, []kubevirtv1.Input{
			{Name: "default-0", Type: kubevirtv1.InputTypeTablet, Bus: kubevirtv1.InputBusUSB}}},
		"yes, and one of its own": {&yes, []kubevirtv1.Input{named}, []kubevirtv1.Input{named}},
	} {
		t.Run(name, func(t *testing.T) {
			vmi := &kubevirtv1.VirtualMachineInstance{}
			vmi.Spec.Domain.Devices.AutoattachInputDevice, vmi.Spec.Domain.Devices.Inputs = c.asks, c.has
			require.NoError(t, Instance(vmi, Cluster{Architecture: "amd64"}))
			require.Equal(t, c.want, vmi.Spec.Domain.Devices.Inputs)
		})
	}
}

func TestDrainTaint(t *testing.T) {
	for key, want := range map[string]string{
		"example.com/maintenance": "example.com/maintenance", "drain": "drain", "": "kubevirt.io/drain",
		"no key": "kubevirt.io/drain",
	} {
		c := Cluster{Configuration: kubevirtv1.KubeVirtConfiguration{
			MigrationConfiguration: &kubevirtv1.MigrationConfiguration{NodeDrainTaintKey: &key}}}
		require.Equal(t, want, c.DrainTaint(), key)
	}
	require.Equal(t, "kubevirt.io/drain", Cluster{}.DrainTaint())
}

func TestObsoleteCPUModels(t *testing.T) {
	require.Nil(t, Cluster{}.ObsoleteCPUModels())
	c := Cluster{Configuration: kubevirtv1.KubeVirtConfiguration{ObsoleteCPUModels: map[string]bool{
		"b": true, "a": false, "": true, strings.Repeat("x", 64): true}}}
	require.Equal(t, []string{"a", "b"}, c.ObsoleteCPUModels())
	for i := range 100 {
		c.Configuration.ObsoleteCPUModels[fmt.Sprint("model", i)] = true
	}
	require.Len(t, c.ObsoleteCPUModels(), contract.MostObsoleteModels)
}
