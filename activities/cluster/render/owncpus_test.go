package render

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/settings"
)

// TestOwnCPUs: a kubelet gives CPUs of their own to containers that ask for whole ones, in pods that are guaranteed.
func TestOwnCPUs(t *testing.T) {
	even := map[string]string{kubevirt.EmulatorThreadCompleteToEvenParity: ""}
	for name, c := range map[string]struct {
		cpu         kubevirt.CPU
		annotations map[string]string
		limits      corev1.ResourceList
		overcommit  bool
		pool        uint32
		want        int64
	}{
		"topology":          {cpu: kubevirt.CPU{Sockets: 2, Cores: 2, MaxSockets: 8}, want: 4},
		"emulator":          {cpu: kubevirt.CPU{Cores: 4, IsolateEmulatorThread: true}, want: 5},
		"emulator, even":    {cpu: kubevirt.CPU{Cores: 4, IsolateEmulatorThread: true}, annotations: even, want: 6},
		"is even":           {cpu: kubevirt.CPU{Cores: 3, IsolateEmulatorThread: true}, annotations: even, want: 4},
		"no emulator, even": {cpu: kubevirt.CPU{Cores: 3}, annotations: even, want: 3},
		"pool":              {cpu: kubevirt.CPU{Cores: 2}, pool: 3, want: 5},
		"pool, even": {cpu: kubevirt.CPU{Cores: 2, IsolateEmulatorThread: true}, pool: 1, annotations: even,
			want: 4},
		"limits": {limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3"),
			corev1.ResourceMemory: resource.MustParse("1Gi")}, want: 3},
		"overcommitted": {cpu: kubevirt.CPU{Cores: 2}, overcommit: true, want: 2,
			limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}},
	} {
		t.Run(name, func(t *testing.T) {
			vmi := example()
			c.cpu.DedicatedCPUPlacement = true
			vmi.Annotations, vmi.Spec.Domain.CPU = c.annotations, &c.cpu
			vmi.Spec.Domain.Resources.Limits, vmi.Spec.Domain.Resources.OvercommitGuestOverhead = c.limits, c.overcommit
			setPool(vmi, c.pool)
			pod, err := Pod(vmi, Options{Image: "x", Settings: settings.Default()})
			require.NoError(t, err)
			r := pod.Spec.Containers[0].Resources
			require.EqualValues(t, c.want*1000, r.Limits.Cpu().MilliValue())
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				require.Equal(t, r.Limits.Name(name, resource.DecimalSI).Value(),
					r.Requests.Name(name, resource.DecimalSI).Value(), name)
			}
			require.GreaterOrEqual(t, r.Requests.Memory().Value(), guestMemory(vmi, settings.Default()))
			require.Equal(t, "true", pod.Spec.NodeSelector["kubevirt.io/cpumanager"])
			require.Nil(t, pod.Spec.Containers[0].SecurityContext.Capabilities.Add)
		})
	}
}

func setPool(vmi *kubevirt.VirtualMachineInstance, threads uint32) {
	if threads > 0 {
		policy := kubevirt.IOThreadsPolicySupplementalPool
		vmi.Spec.Domain.IOThreadsPolicy = &policy
		vmi.Spec.Domain.IOThreads = &kubevirt.DiskIOThreads{SupplementalPoolThreadCount: &threads}
	}
}

// TestAThreadPoolIsRequested: the processors of an I/O thread pool are requested in addition to the virtual CPUs,
// divided by the same ratio.
func TestAThreadPoolIsRequested(t *testing.T) {
	vmi := example()
	vmi.Spec.Domain.CPU, vmi.Spec.Domain.Resources.Requests = &kubevirt.CPU{Cores: 2}, nil
	setPool(vmi, 3)
	pod, err := Pod(vmi, Options{Image: "x", Settings: settings.Default(), Limited: Limited{CPU: true}})
	require.NoError(t, err)
	require.EqualValues(t, 500, pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue())
	require.EqualValues(t, 5, pod.Spec.Containers[0].Resources.Limits.Cpu().Value())
}

// TestNUMANeedsACapability: the seccomp profile permits the calls of NUMA only with a capability, and only NUMA needs
// that.
func TestNUMANeedsACapability(t *testing.T) {
	vmi := example()
	vmi.Spec.Domain.CPU = &kubevirt.CPU{Cores: 1, DedicatedCPUPlacement: true,
		NUMA: &kubevirt.NUMA{GuestMappingPassthrough: &kubevirt.NUMAGuestMappingPassthrough{}}}
	pod, err := Pod(vmi, Options{Image: "x", Settings: settings.Default()})
	require.NoError(t, err)
	c := pod.Spec.Containers[0].SecurityContext
	require.Equal(t, []corev1.Capability{"SYS_NICE"}, c.Capabilities.Add)
	require.False(t, *c.AllowPrivilegeEscalation)
}
