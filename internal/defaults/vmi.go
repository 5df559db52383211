package defaults

import (
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// runtimeUser is the uid of every launcher, as in KubeVirt.
const runtimeUser = 107

// CreateVMI fills in a VirtualMachineInstance that is being created: spec, annotations, finalizer, and the first
// status. It returns an error for the user if the cluster's configuration contradicts itself for this VMI.
func CreateVMI(vmi *kubevirtv1.VirtualMachineInstance, cluster Cluster, now time.Time) error {
	if err := Instance(vmi, cluster); err != nil {
		return err
	}
	if cluster.LiveUpdate() && vmi.Spec.Architecture != arm64 {
		hotplugLimits(&vmi.Spec, cluster)
	}
	firstStatus(vmi, cluster, now)
	if hasPCIe(&vmi.Spec) {
		annotate(&vmi.ObjectMeta, AnnotationPCITopology, pciTopologyVersion)
	}
	if l := vmi.Spec.Domain.LaunchSecurity; l != nil && l.TDX != nil {
		metav1.SetMetaDataAnnotation(&vmi.ObjectMeta, kubevirtv1.QGSSocketPathAnnotation, quoteGenerationSocket)
	}
	if !slices.Contains(vmi.Finalizers, contract.FinalizerVMI) {
		vmi.Finalizers = append(vmi.Finalizers, contract.FinalizerVMI)
	}
	return nil
}

// quoteGenerationSocket is where KubeVirt expects the service that attests a guest with TDX.
const quoteGenerationSocket = "/var/run/tdx-qgs/qgs.socket"

// annotate adds an annotation unless it exists.
func annotate(m *metav1.ObjectMeta, name, value string) {
	if _, ok := m.Annotations[name]; ok {
		return
	}
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[name] = value
}

// Instance fills in a VMI's spec with all that a guest needs, except hotplug limits.
func Instance(vmi *kubevirtv1.VirtualMachineInstance, cluster Cluster) error {
	spec := &vmi.Spec
	if err := Spec(spec, cluster); err != nil {
		return err
	}
	inputDevice(spec)
	zFeatures(spec)
	kubevirtv1.SetObjectDefaults_VirtualMachineInstance(vmi)
	hypervFeatures(spec)
	architecture(spec)
	cpuModel(spec, cluster)
	return nil
}

// Spec fills in the fields that KubeVirt's rules check, in its order: some defaults depend on earlier ones.
func Spec(spec *kubevirtv1.VirtualMachineInstanceSpec, cluster Cluster) error {
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
	return nil
}

func firstStatus(vmi *kubevirtv1.VirtualMachineInstance, cluster Cluster, now time.Time) {
	s := &vmi.Status
	if m := vmi.Spec.Domain.Memory; m != nil && m.Guest != nil {
		at, current, requested := m.Guest.DeepCopy(), m.Guest.DeepCopy(), m.Guest.DeepCopy()
		s.Memory = &kubevirtv1.MemoryStatus{GuestAtBoot: &at, GuestCurrent: &current, GuestRequested: &requested}
	}
	if cpu := vmi.Spec.Domain.CPU; s.CurrentCPUTopology == nil {
		s.CurrentCPUTopology = &kubevirtv1.CPUTopology{Cores: cpu.Cores, Sockets: cpu.Sockets, Threads: cpu.Threads}
	}
	if !cluster.Enabled(GateRoot) {
		s.RuntimeUser = runtimeUser
	}
	s.Phase = kubevirtv1.Pending
	s.PhaseTransitionTimestamps = append(s.PhaseTransitionTimestamps,
		kubevirtv1.VirtualMachineInstancePhaseTransitionTimestamp{
			Phase:                    kubevirtv1.Pending,
			PhaseTransitionTimestamp: metav1.NewTime(now),
		})
}

// podNetwork connects a VMI without networks to the pod network.
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
