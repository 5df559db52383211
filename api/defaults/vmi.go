package defaults

import (
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// runtimeUser is the uid that every launcher runs as, as KubeVirt's do.
const runtimeUser = 107

// CreateVMI fills in a VirtualMachineInstance that is being created: spec, finalizer, and the first status. The error is for the user:
// the cluster's configuration contradicts itself for this VMI.
func CreateVMI(vmi *kubevirtv1.VirtualMachineInstance, cluster Cluster, now time.Time) error {
	if err := Spec(vmi, cluster); err != nil {
		return err
	}
	firstStatus(vmi, now)
	if vmi.Spec.Architecture != s390x {
		if vmi.Annotations == nil {
			vmi.Annotations = map[string]string{}
		}
		vmi.Annotations[AnnotationPCITopology] = pciTopologyVersion
	}
	if !slices.Contains(vmi.Finalizers, contract.FinalizerVMI) {
		vmi.Finalizers = append(vmi.Finalizers, contract.FinalizerVMI)
	}
	return nil
}

// Spec fills in a VMI's spec only, in KubeVirt's order: some defaults build on earlier ones.
func Spec(vmi *kubevirtv1.VirtualMachineInstance, cluster Cluster) error {
	spec := &vmi.Spec
	platform(spec, cluster)
	cpuRequest(spec, cluster)
	guestMemory(spec)
	cpuTopology(spec)
	pullPolicies(spec)
	if spec.EvictionStrategy == nil {
		s := cluster.EvictionStrategy()
		spec.EvictionStrategy = &s
	}
	if err := podNetwork(spec, cluster); err != nil {
		return err
	}
	missingDisks(spec)
	kubevirtv1.SetObjectDefaults_VirtualMachineInstance(vmi)
	diskBuses(spec)
	cpuModel(spec, cluster)
	if cluster.LiveUpdate() && spec.Architecture != arm64 {
		hotplugLimits(spec, cluster)
	}
	return nil
}

func firstStatus(vmi *kubevirtv1.VirtualMachineInstance, now time.Time) {
	s := &vmi.Status
	if m := vmi.Spec.Domain.Memory; m != nil && m.Guest != nil {
		at, current, requested := m.Guest.DeepCopy(), m.Guest.DeepCopy(), m.Guest.DeepCopy()
		s.Memory = &kubevirtv1.MemoryStatus{GuestAtBoot: &at, GuestCurrent: &current, GuestRequested: &requested}
	}
	if cpu := vmi.Spec.Domain.CPU; s.CurrentCPUTopology == nil {
		s.CurrentCPUTopology = &kubevirtv1.CPUTopology{Cores: cpu.Cores, Sockets: cpu.Sockets, Threads: cpu.Threads}
	}
	s.RuntimeUser = runtimeUser
	if s.Phase == kubevirtv1.VmPhaseUnset {
		s.Phase = kubevirtv1.Pending
		s.PhaseTransitionTimestamps = append(s.PhaseTransitionTimestamps, kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp{
			Phase:                    kubevirtv1.Pending,
			PhaseTransitionTimestamp: metav1.NewTime(now),
		})
	}
}

// podNetwork connects a VMI that says nothing of networks to the pod network.
func podNetwork(spec *kubevirtv1.VirtualMachineInstanceSpec, cluster Cluster) error {
	devices := &spec.Domain.Devices
	if devices.AutoattachPodInterface != nil && !*devices.AutoattachPodInterface {
		return nil
	}
	if len(spec.Networks) > 0 || len(devices.Interfaces) > 0 {
		return nil
	}
	iface := kubevirtv1.DefaultMasqueradeNetworkInterface()
	if cluster.defaultInterface() == "bridge" {
		if !cluster.BridgeOnPodNetwork() {
			return errors.New("bridge interface is not enabled in kubevirt-config")
		}
		iface = kubevirtv1.DefaultBridgeNetworkInterface()
	}
	devices.Interfaces = []kubevirtv1.Interface{*iface}
	spec.Networks = []kubevirtv1.Network{*kubevirtv1.DefaultPodNetwork()}
	return nil
}
