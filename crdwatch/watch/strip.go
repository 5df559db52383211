package watch

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/internal/observe"
)

// Strip keeps those parts of an object from which observations are made; it never fails. It may change the object.
func Strip(o any) (any, error) {
	switch o := o.(type) {
	case *kubevirt.VirtualMachine:
		return stripVM(o), nil
	case *kubevirt.VirtualMachineInstance:
		return stripVMI(o), nil
	case *kubevirt.VirtualMachineInstanceReplicaSet:
		return stripReplicaSet(o), nil
	case *kubevirt.VirtualMachineInstanceMigration:
		return stripMigration(o), nil
	case *corev1.Pod:
		return stripPod(o), nil
	case *corev1.Node:
		return stripNode(o), nil
	case *corev1.PersistentVolumeClaim:
		return stripPVC(o), nil
	case *cdi.DataVolume:
		return stripDataVolume(o), nil
	case *kubevirt.KubeVirt:
		return stripKubeVirt(o), nil
	default:
		return o, nil // a cache.DeletedFinalStateUnknown
	}
}

func stripMeta(m metav1.ObjectMeta, annotations ...string) metav1.ObjectMeta {
	out := metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		DeletionTimestamp: m.DeletionTimestamp, DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
		Finalizers: m.Finalizers, CreationTimestamp: m.CreationTimestamp,
	}
	if ref := metav1.GetControllerOfNoCopy(&m); ref != nil {
		out.OwnerReferences = []metav1.OwnerReference{*ref}
	}
	for _, name := range annotations {
		if v, ok := m.Annotations[name]; ok {
			if out.Annotations == nil {
				out.Annotations = map[string]string{}
			}
			out.Annotations[name] = v
		}
	}
	return out
}

func stripVM(vm *kubevirt.VirtualMachine) *kubevirt.VirtualMachine {
	meta := stripMeta(vm.ObjectMeta, contract.AnnotationRequestedBy, contract.AnnotationApproval,
		contract.AnnotationDeferDataVolumes)
	meta.Labels = labelsOf(vm)
	return &kubevirt.VirtualMachine{
		ObjectMeta: meta,
		Spec: kubevirt.VirtualMachineSpec{Running: vm.Spec.Running, RunStrategy: vm.Spec.RunStrategy,
			DataVolumeTemplates: stripTemplates(vm.Spec.DataVolumeTemplates),
			Template:            stripTemplate(vm.Spec.Template)},
		Status: kubevirt.VirtualMachineStatus{
			Created: vm.Status.Created, PrintableStatus: vm.Status.PrintableStatus, RunStrategy: vm.Status.RunStrategy,
			StateChangeRequests: vm.Status.StateChangeRequests, StartFailure: vm.Status.StartFailure,
			Conditions: stripConditions(vm.Status.Conditions),
		},
	}
}

// stripConditions keeps of a VM's conditions what observations need, and of the others what the metrics need, without
// their messages.
func stripConditions(list []kubevirt.VirtualMachineCondition) []kubevirt.VirtualMachineCondition {
	out := observe.OwnConditions(list)
	for _, c := range list {
		if string(c.Type) != contract.ConditionHeld {
			out = append(out, kubevirt.VirtualMachineCondition{Type: c.Type, Status: c.Status, Reason: c.Reason,
				LastTransitionTime: c.LastTransitionTime})
		}
	}
	return out
}

func stripVMI(vmi *kubevirt.VirtualMachineInstance) *kubevirt.VirtualMachineInstance {
	meta := stripMeta(vmi.ObjectMeta, contract.AnnotationRequestedBy, contract.AnnotationVMGeneration,
		contract.AnnotationReplica)
	meta.Labels = vmi.Labels // replica sets select by them
	out := &kubevirt.VirtualMachineInstance{
		ObjectMeta: meta,
		Spec: kubevirt.VirtualMachineInstanceSpec{
			TerminationGracePeriodSeconds: vmi.Spec.TerminationGracePeriodSeconds,
			EvictionStrategy:              vmi.Spec.EvictionStrategy,
			Volumes:                       stripVolumes(vmi.Spec.Volumes),
		},
		Status: kubevirt.VirtualMachineInstanceStatus{
			Phase: vmi.Status.Phase, Reason: vmi.Status.Reason, NodeName: vmi.Status.NodeName,
			Conditions:                vmi.Status.Conditions,
			PhaseTransitionTimestamps: vmi.Status.PhaseTransitionTimestamps, ActivePods: vmi.Status.ActivePods,
			VirtualMachineRevisionName: vmi.Status.VirtualMachineRevisionName,
			EvacuationNodeName:         vmi.Status.EvacuationNodeName, MigrationState: vmi.Status.MigrationState,
			LauncherContainerImageVersion: vmi.Status.LauncherContainerImageVersion,
		},
	}
	keepParts(out, vmi)
	if _, needed := claims.State(vmi); needed {
		keepState(out, vmi)
	}
	return out
}

// keepState keeps what claims.State reads.
func keepState(out, vmi *kubevirt.VirtualMachineInstance) {
	out.Spec.Domain.Devices.TPM = vmi.Spec.Domain.Devices.TPM
	if f := vmi.Spec.Domain.Firmware; f != nil {
		out.Spec.Domain.Firmware = &kubevirt.Firmware{Bootloader: f.Bootloader}
	}
	if known := claims.Known(vmi, claims.StateVolume); known != nil {
		out.Status.VolumeStatus = []kubevirt.VolumeStatus{{Name: claims.StateVolume,
			PersistentVolumeClaimInfo: &kubevirt.PersistentVolumeClaimInfo{ClaimName: known.ClaimName}}}
	}
}

func stripReplicaSet(set *kubevirt.VirtualMachineInstanceReplicaSet) *kubevirt.VirtualMachineInstanceReplicaSet {
	out := &kubevirt.VirtualMachineInstanceReplicaSet{
		ObjectMeta: stripMeta(set.ObjectMeta, contract.AnnotationRequestedBy, contract.AnnotationRequestedGeneration),
		Spec: kubevirt.VirtualMachineInstanceReplicaSetSpec{Replicas: set.Spec.Replicas,
			Selector: set.Spec.Selector, Paused: set.Spec.Paused},
		Status: set.Status,
	}
	if t := set.Spec.Template; t != nil {
		out.Spec.Template = &kubevirt.VirtualMachineInstanceTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: t.ObjectMeta.Labels},
			Spec: kubevirt.VirtualMachineInstanceSpec{
				TerminationGracePeriodSeconds: t.Spec.TerminationGracePeriodSeconds},
		}
	}
	return out
}

func stripMigration(vmim *kubevirt.VirtualMachineInstanceMigration) *kubevirt.VirtualMachineInstanceMigration {
	meta := stripMeta(vmim.ObjectMeta, contract.AnnotationRequestedBy, contract.AnnotationEvacuation,
		contract.AnnotationWorkloadUpdate, contract.AnnotationUnschedulableTimeout, contract.AnnotationPendingTimeout,
		contract.AnnotationConnections)
	return &kubevirt.VirtualMachineInstanceMigration{
		ObjectMeta: meta,
		Spec: kubevirt.VirtualMachineInstanceMigrationSpec{VMIName: vmim.Spec.VMIName,
			AddedNodeSelector: vmim.Spec.AddedNodeSelector, Priority: vmim.Spec.Priority,
			SendTo: vmim.Spec.SendTo, Receive: vmim.Spec.Receive},
		Status: kubevirt.VirtualMachineInstanceMigrationStatus{
			Phase: vmim.Status.Phase, Conditions: vmim.Status.Conditions,
			PhaseTransitionTimestamps: vmim.Status.PhaseTransitionTimestamps,
		},
	}
}

func stripPod(pod *corev1.Pod) *corev1.Pod {
	meta := stripMeta(pod.ObjectMeta, contract.AnnotationDomain, contract.AnnotationMigrationName)
	for _, name := range []string{contract.LabelLauncher, contract.LabelCreatedBy, contract.LabelMigration} {
		if v, ok := pod.Labels[name]; ok {
			if meta.Labels == nil {
				meta.Labels = map[string]string{}
			}
			meta.Labels[name] = v
		}
	}
	out := &corev1.Pod{
		ObjectMeta: meta,
		Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName,
			TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds},
		Status: corev1.PodStatus{
			Phase: pod.Status.Phase, Conditions: pod.Status.Conditions, PodIPs: pod.Status.PodIPs,
			QOSClass:              pod.Status.QOSClass,
			InitContainerStatuses: pod.Status.InitContainerStatuses, ContainerStatuses: pod.Status.ContainerStatuses,
		},
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == observe.ComputeContainer {
			out.Spec.Containers = []corev1.Container{{Name: c.Name, Image: c.Image}}
		}
	}
	return out
}

func stripNode(node *corev1.Node) *corev1.Node {
	out := &corev1.Node{
		ObjectMeta: stripMeta(node.ObjectMeta),
		Spec:       corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable},
	}
	out.Labels = observe.OwnedLabels(node.Labels)
	out.Annotations = map[string]string{observe.AnnotationCapabilities: contract.CapabilityDigest(node.Labels)}
	for _, t := range node.Spec.Taints { // of any key: the KubeVirt object names the one that drains a node
		out.Spec.Taints = append(out.Spec.Taints, corev1.Taint{Key: t.Key, Effect: t.Effect})
	}
	out.Status.NodeInfo.ContainerRuntimeVersion = node.Status.NodeInfo.ContainerRuntimeVersion
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Status.Conditions = []corev1.NodeCondition{c}
		}
	}
	return out
}

// stripKubeVirt keeps what decides about nodes, the level of crdwatch's log, and what the metrics need.
func stripKubeVirt(kv *kubevirt.KubeVirt) *kubevirt.KubeVirt {
	out := &kubevirt.KubeVirt{ObjectMeta: stripMeta(kv.ObjectMeta)}
	out.Spec.Configuration.ObsoleteCPUModels = kv.Spec.Configuration.ObsoleteCPUModels
	if m := kv.Spec.Configuration.MigrationConfiguration; m != nil {
		out.Spec.Configuration.MigrationConfiguration = &kubevirt.MigrationConfiguration{
			NodeDrainTaintKey: m.NodeDrainTaintKey}
	}
	if n := kv.Spec.Configuration.NetworkConfiguration; n != nil {
		plugins := map[string]kubevirt.InterfaceBindingPlugin{}
		for name, plugin := range n.Binding {
			plugins[name] = kubevirt.InterfaceBindingPlugin{ComputeResourceOverhead: plugin.ComputeResourceOverhead}
		}
		out.Spec.Configuration.NetworkConfiguration = &kubevirt.NetworkConfiguration{Binding: plugins}
	}
	out.Spec.Configuration.AdditionalGuestMemoryOverheadRatio = kv.Spec.Configuration.AdditionalGuestMemoryOverheadRatio
	if d := kv.Spec.Configuration.DeveloperConfiguration; d != nil {
		kept := &kubevirt.DeveloperConfiguration{UseEmulation: d.UseEmulation}
		if d.LogVerbosity != nil {
			kept.LogVerbosity = &kubevirt.LogVerbosity{VirtController: d.LogVerbosity.VirtController}
		}
		out.Spec.Configuration.DeveloperConfiguration = kept
	}
	return out
}

// stripVolumes keeps the volumes that use a PVC.
func stripVolumes(volumes []kubevirt.Volume) []kubevirt.Volume {
	var out []kubevirt.Volume
	for i := range volumes {
		if _, isClaim := claims.Of(&volumes[i]); isClaim {
			out = append(out, volumes[i])
		}
	}
	return out
}

func stripPVC(pvc *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	out := &corev1.PersistentVolumeClaim{
		ObjectMeta: stripMeta(pvc.ObjectMeta),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: pvc.Spec.AccessModes, VolumeMode: pvc.Spec.VolumeMode, Resources: pvc.Spec.Resources,
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: pvc.Status.Phase, Capacity: pvc.Status.Capacity},
	}
	out.Annotations = observe.ThickAnnotations(pvc.Annotations)
	return out
}

func stripDataVolume(dv *cdi.DataVolume) *cdi.DataVolume {
	return &cdi.DataVolume{
		ObjectMeta: stripMeta(dv.ObjectMeta),
		Status:     cdi.DataVolumeStatus{Phase: dv.Status.Phase, Conditions: dv.Status.Conditions},
	}
}
