package render

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/settings"
)

// TestHostDevices: host devices are extended resources that the administrator has named; a VM requests no others.
func TestHostDevices(t *testing.T) {
	kv := &kubevirt.KubeVirt{}
	kv.Spec.Configuration.PermittedHostDevices = &kubevirt.PermittedHostDevices{
		PciHostDevices:  []kubevirt.PciHostDevice{{ResourceName: "v/gpu"}},
		MediatedDevices: []kubevirt.MediatedHostDevice{{ResourceName: "v/slice"}},
		USB:             []kubevirt.USBHostDevice{{ResourceName: "v/stick"}},
	}
	s := settings.From(kv)
	vmi := example()
	without := Overhead(vmi, s)
	vmi.Spec.Domain.Devices.GPUs = []kubevirt.GPU{{DeviceName: "v/gpu"}, {DeviceName: "v/slice"}, {DeviceName: "v/gpu"}}
	vmi.Spec.Domain.Devices.HostDevices = []kubevirt.HostDevice{{DeviceName: "v/stick"}}
	pod, err := Pod(vmi, Options{Image: "x", Settings: s})
	require.NoError(t, err)
	for name, n := range map[corev1.ResourceName]int64{"v/gpu": 2, "v/slice": 1, "v/stick": 1} {
		limit := pod.Spec.Containers[0].Resources.Limits[name]
		require.Equal(t, n, limit.Value(), name)
	}
	require.EqualValues(t, without+1024*mi, Overhead(vmi, s))

	_, err = Pod(vmi, Options{Image: "x", Settings: settings.Default()})
	require.EqualError(t, err, "GPU v/gpu is not permitted in permittedHostDevices configuration")
	vmi.Spec.Domain.Devices.GPUs, vmi.Spec.Domain.Devices.HostDevices[0].DeviceName = nil, "memory"
	_, err = Pod(vmi, Options{Image: "x", Settings: s})
	require.EqualError(t, err, "HostDevice memory is not permitted in permittedHostDevices configuration")
}

func TestResourceClaimsAreThePods(t *testing.T) {
	name := "mine"
	vmi := example()
	vmi.Spec.ResourceClaims = []kubevirt.VirtualMachineInstanceResourceClaim{{Name: "c", ResourceClaimName: &name}}
	pod, err := Pod(vmi, Options{Image: "x", Settings: settings.Default()})
	require.NoError(t, err)
	require.Equal(t, []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: &name}}, pod.Spec.ResourceClaims)
}

// TestDevicesOfClaims: devices of ResourceClaims are requested for the container, by claim and request; they need no
// permission in the configuration.
func TestDevicesOfClaims(t *testing.T) {
	template := "gpus"
	vmi := example()
	without := Overhead(vmi, settings.Default())
	vmi.Spec.ResourceClaims = []kubevirt.VirtualMachineInstanceResourceClaim{{
		Name: "c", ResourceClaimTemplateName: &template}}
	vmi.Spec.Domain.Devices.GPUs = []kubevirt.GPU{{Name: "a",
		ClaimRequest: &kubevirt.ClaimRequest{ClaimName: "c", RequestName: "gpu"}}}
	vmi.Spec.Domain.Devices.HostDevices = []kubevirt.HostDevice{{Name: "b",
		ClaimRequest: &kubevirt.ClaimRequest{ClaimName: "c", RequestName: "card"}}}
	vmi.Spec.Networks = append(vmi.Spec.Networks, kubevirt.Network{Name: "fast", NetworkSource: kubevirt.NetworkSource{
		ResourceClaim: &kubevirt.ClaimRequest{ClaimName: "c", RequestName: "port"}}})
	pod, err := Pod(vmi, Options{Image: "x", Settings: settings.Default()})
	require.NoError(t, err)
	r := pod.Spec.Containers[0].Resources
	require.Equal(t, []corev1.ResourceClaim{{Name: "c", Request: "gpu"}, {Name: "c", Request: "card"},
		{Name: "c", Request: "port"}}, r.Claims)
	require.NotContains(t, r.Limits, corev1.ResourceName(""))
	require.EqualValues(t, without+1024*mi, Overhead(vmi, settings.Default()))
}

func TestReservedOverheadIsAdded(t *testing.T) {
	vmi, more := example(), resource.MustParse("100Mi")
	without := Overhead(vmi, settings.Default())
	vmi.Spec.Domain.Memory.ReservedOverhead = &kubevirt.ReservedOverhead{AddedOverhead: &more}
	require.EqualValues(t, without+100*mi, Overhead(vmi, settings.Default()))
}
