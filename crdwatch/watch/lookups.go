package watch

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/internal/settings"
)

// PodsOfVMI returns the launcher pods of a VMI, by the VMI's name.
func (i *Informers) PodsOfVMI(namespace, name string) []*corev1.Pod {
	return indexed[*corev1.Pod](i.Pods, byVMI, namespace+"/"+name)
}

// PodsOf returns the launcher pods that were made for a VMI, by the VMI's UID.
func (i *Informers) PodsOf(uid string) []*corev1.Pod {
	return indexed[*corev1.Pod](i.Pods, byOwner, uid)
}

// HasOwner reports whether the VMI exists for which a launcher pod was made.
func (i *Informers) HasOwner(pod *corev1.Pod, ref *contract.Object) bool {
	vmi, ok := Get[*kubevirt.VirtualMachineInstance](i.VMIs, pod.Namespace+"/"+ref.Name)
	return ok && string(vmi.UID) == ref.UID
}

// IsOwnerDeleted reports whether the VMI of a pod is being deleted.
func (i *Informers) IsOwnerDeleted(pod *corev1.Pod, ref *contract.Object) bool {
	vmi, ok := Get[*kubevirt.VirtualMachineInstance](i.VMIs, pod.Namespace+"/"+ref.Name)
	return ok && string(vmi.UID) == ref.UID && vmi.DeletionTimestamp != nil
}

// LaunchersOn returns the launcher pods on a node.
func (i *Informers) LaunchersOn(node string) []*corev1.Pod {
	pods := indexed[*corev1.Pod](i.Pods, byNode, node)
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return observe.Owner(pod) == nil })
}

// EvacueesOf returns the instances that have to leave a node.
func (i *Informers) EvacueesOf(node string) []*kubevirt.VirtualMachineInstance {
	return indexed[*kubevirt.VirtualMachineInstance](i.VMIs, byEvacuation, node)
}

// VMIsWithPVC returns the instances that use a PVC; key is its namespace and name.
func (i *Informers) VMIsWithPVC(key string) []*kubevirt.VirtualMachineInstance {
	return indexed[*kubevirt.VirtualMachineInstance](i.VMIs, byPVC, key)
}

// VMsWithTemplate returns the VMs that have a template for a DataVolume; key is its namespace and name.
func (i *Informers) VMsWithTemplate(key string) []*kubevirt.VirtualMachine {
	return indexed[*kubevirt.VirtualMachine](i.VMs, byTemplate, key)
}

// SetsIn returns the replica sets of a namespace.
func (i *Informers) SetsIn(namespace string) []*kubevirt.VirtualMachineInstanceReplicaSet {
	return indexed[*kubevirt.VirtualMachineInstanceReplicaSet](i.ReplicaSets, cache.NamespaceIndex, namespace)
}

// VMIsIn returns the instances of a namespace.
func (i *Informers) VMIsIn(namespace string) []*kubevirt.VirtualMachineInstance {
	return indexed[*kubevirt.VirtualMachineInstance](i.VMIs, cache.NamespaceIndex, namespace)
}

// CountOutdated returns how many instances have launchers of another image than new ones get.
func (i *Informers) CountOutdated() int {
	n := 0
	if i.Image == "" {
		return n
	}
	for _, image := range i.VMIs.GetIndexer().ListIndexFuncValues(byImage) {
		if image != i.Image {
			n += len(indexed[*kubevirt.VirtualMachineInstance](i.VMIs, byImage, image))
		}
	}
	return n
}

// MigrationObject returns the object that a migration's observations name.
func MigrationObject(vmim *kubevirt.VirtualMachineInstanceMigration) contract.Object {
	return contract.Object{Namespace: vmim.Namespace, Name: vmim.Name, UID: string(vmim.UID)}
}

// MigrationsOfPod returns the migrations that a launcher pod concerns: all of its VMI that are not closed, since the
// guest may be in the pod or move to it. The migration that the pod was made for may need it although it does not exist
// any more.
func (i *Informers) MigrationsOfPod(pod *corev1.Pod) []contract.Object {
	ref := observe.Owner(pod)
	if ref == nil {
		return nil
	}
	var out []contract.Object
	for _, vmim := range i.migrationsOf(pod.Namespace, ref.Name) {
		if !observe.ClosedMigration(vmim) {
			out = append(out, MigrationObject(vmim))
		}
	}
	made := contract.Object{Namespace: pod.Namespace, Name: pod.Annotations[contract.AnnotationMigrationName],
		UID: pod.Labels[contract.LabelMigration]}
	if made.UID == "" || made.Name == "" {
		return out
	}
	key := made.Namespace + "/" + made.Name
	vmim, ok := Get[*kubevirt.VirtualMachineInstanceMigration](i.Migrations, key)
	if !ok || string(vmim.UID) != made.UID {
		out = append(out, made)
	}
	return out
}

func (i *Informers) migrationsOf(namespace, vmi string) []*kubevirt.VirtualMachineInstanceMigration {
	return indexed[*kubevirt.VirtualMachineInstanceMigration](i.Migrations, byVMI, namespace+"/"+vmi)
}

// UnendedMigrations returns the migrations that have not ended.
func (i *Informers) UnendedMigrations() []*kubevirt.VirtualMachineInstanceMigration {
	return indexed[*kubevirt.VirtualMachineInstanceMigration](i.Migrations, byEnd, unended)
}

// SourceOf returns the node that a migration's guest is on, or was on before it moved; "": unknown.
func (i *Informers) SourceOf(vmim *kubevirt.VirtualMachineInstanceMigration) string {
	vmi, ok := Get[*kubevirt.VirtualMachineInstance](i.VMIs, vmim.Namespace+"/"+vmim.Spec.VMIName)
	if !ok {
		return ""
	}
	if s := vmi.Status.MigrationState; s != nil && s.MigrationUID == vmim.UID && s.SourceNode != "" {
		return s.SourceNode
	}
	return vmi.Status.NodeName
}

// LauncherOf returns the running launcher pod of a VMI on the VMI's node; nil: there is none.
func (i *Informers) LauncherOf(vmi *kubevirt.VirtualMachineInstance) *corev1.Pod {
	for _, pod := range i.PodsOf(string(vmi.UID)) {
		if pod.Status.Phase == corev1.PodRunning && pod.Spec.NodeName == vmi.Status.NodeName {
			return pod
		}
	}
	return nil
}

// Configuration returns the settings of the KubeVirt object.
func (i *Informers) Configuration() settings.Settings {
	kv, _ := Get[*kubevirt.KubeVirt](i.Settings, i.settingsKey)
	return settings.From(kv)
}
