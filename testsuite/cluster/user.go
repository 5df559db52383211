package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// Actor is the default user.
const Actor = "alice"

func template() *kubevirt.VirtualMachineInstanceTemplateSpec {
	memory := resource.MustParse("128Mi")
	return &kubevirt.VirtualMachineInstanceTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": Name}},
		Spec: kubevirt.VirtualMachineInstanceSpec{
			Domain: kubevirt.DomainSpec{Memory: &kubevirt.Memory{Guest: &memory}},
			Volumes: []kubevirt.Volume{
				{Name: "root", VolumeSource: kubevirt.VolumeSource{
					ContainerDisk: &kubevirt.ContainerDiskSource{Image: "localhost/guest:1"}}},
			},
		},
	}
}

// CreateVM creates the VM as a user would, with admission's defaults.
func (c *Cluster) CreateVM(strategy string, change ...func(*kubevirt.VirtualMachine)) {
	s := kubevirt.VirtualMachineRunStrategy(strategy)
	vm := &kubevirt.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: Name, Finalizers: []string{contract.FinalizerVM},
			Annotations: map[string]string{contract.AnnotationRequestedBy: Actor},
		},
		Spec: kubevirt.VirtualMachineSpec{RunStrategy: &s, Template: template()},
	}
	for _, f := range change {
		f(vm)
	}
	_, err := kube.Put(c.Kube, vm)
	require.NoError(c.t, err)
}

// EditVM changes the VM's object, but not its status.
func (c *Cluster) EditVM(change func(*kubevirt.VirtualMachine)) {
	_, err := kube.Edit(c.Kube, Namespace, Name, "", change)
	require.NoError(c.t, err)
}

// EditVMStatus changes the VM's status.
func (c *Cluster) EditVMStatus(change func(*kubevirt.VirtualMachineStatus)) {
	_, err := kube.Edit(c.Kube, Namespace, Name, "status", func(vm *kubevirt.VirtualMachine) { change(&vm.Status) })
	require.NoError(c.t, err)
}

// SetStrategy changes the run strategy.
func (c *Cluster) SetStrategy(strategy string) {
	s := kubevirt.VirtualMachineRunStrategy(strategy)
	c.EditVM(func(vm *kubevirt.VirtualMachine) { vm.Spec.RunStrategy = &s })
}

// Ask writes state change requests as the API server does.
func (c *Cluster) Ask(list ...contract.StateChangeRequest) {
	c.EditVMStatus(func(s *kubevirt.VirtualMachineStatus) {
		s.StateChangeRequests = nil
		for _, r := range list {
			request := kubevirt.VirtualMachineStateChangeRequest{Action: kubevirt.StateChangeRequestAction(r.Action),
				Data: r.Data}
			if r.UID != "" {
				uid := types.UID(r.UID)
				request.UID = &uid
			}
			s.StateChangeRequests = append(s.StateChangeRequests, request)
		}
	})
}

// DeleteVM deletes the VM.
func (c *Cluster) DeleteVM() {
	require.NoError(c.t, kube.Remove[kubevirt.VirtualMachine](c.Kube, Namespace, Name, nil))
}

// VM returns the VM as crdwatch would send it, or nil.
func (c *Cluster) VM() *contract.VMObservation {
	if vm := kube.Get[kubevirt.VirtualMachine](c.Kube, Namespace, Name); vm != nil {
		o := observe.VM(vm)
		return &o
	}
	return nil
}

// CreateVMI creates an instance without a VM.
func (c *Cluster) CreateVMI(change ...func(*kubevirt.VirtualMachineInstance)) {
	made := template()
	vmi := &kubevirt.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Name, Labels: made.ObjectMeta.Labels,
			Finalizers: []string{contract.FinalizerVMI}},
		Spec: made.Spec,
	}
	for _, f := range change {
		f(vmi)
	}
	_, err := kube.Put(c.Kube, vmi)
	require.NoError(c.t, err)
}

// EditVMI changes the instance, and its status.
func (c *Cluster) EditVMI(change func(*kubevirt.VirtualMachineInstance)) { c.editVMI(Name, change) }

func (c *Cluster) editVMI(name string, change func(*kubevirt.VirtualMachineInstance)) {
	_, err := kube.Edit(c.Kube, Namespace, name, "", change)
	require.NoError(c.t, err)
}

// DeleteVMI deletes the instance.
func (c *Cluster) DeleteVMI() {
	require.NoError(c.t, kube.Remove[kubevirt.VirtualMachineInstance](c.Kube, Namespace, Name, nil))
}

// VMI returns the instance, with or without a VM, as crdwatch would send it, or nil.
func (c *Cluster) VMI() *contract.VMIObservation {
	if vmi := kube.Get[kubevirt.VirtualMachineInstance](c.Kube, Namespace, Name); vmi != nil {
		o := observe.VMI(vmi)
		return &o
	}
	return nil
}

// CreateSet creates a replica set.
func (c *Cluster) CreateSet(replicas int, change ...func(*kubevirt.VirtualMachineInstanceReplicaSet)) {
	n, labels := int32(replicas), map[string]string{"app": Name}
	set := &kubevirt.VirtualMachineInstanceReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: Name,
			Annotations: map[string]string{contract.AnnotationRequestedBy: Actor,
				contract.AnnotationRequestedGeneration: "1"},
		},
		Spec: kubevirt.VirtualMachineInstanceReplicaSetSpec{
			Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template(),
		},
	}
	for _, f := range change {
		f(set)
	}
	_, err := kube.Put(c.Kube, set)
	require.NoError(c.t, err)
}

// EditSet changes the replica set.
func (c *Cluster) EditSet(change func(*kubevirt.VirtualMachineInstanceReplicaSetSpec)) {
	_, err := kube.Edit(c.Kube, Namespace, Name, "", func(set *kubevirt.VirtualMachineInstanceReplicaSet) {
		change(&set.Spec)
	})
	require.NoError(c.t, err)
}

// Scale sets the replicas as kubectl scale does.
func (c *Cluster) Scale(replicas int) {
	n := int32(replicas)
	c.EditSet(func(s *kubevirt.VirtualMachineInstanceReplicaSetSpec) { s.Replicas = &n })
}

// DeleteSet deletes the replica set and orphans its instances.
func (c *Cluster) DeleteSet() {
	require.NoError(c.t, kube.Orphan[kubevirt.VirtualMachineInstanceReplicaSet](c.Kube, Namespace, Name))
}

// SetUID returns the replica set's UID, or "".
func (c *Cluster) SetUID() string {
	if set := kube.Get[kubevirt.VirtualMachineInstanceReplicaSet](c.Kube, Namespace, Name); set != nil {
		return string(set.UID)
	}
	return ""
}

// CreateReplica creates an instance that a set could adopt.
func (c *Cluster) CreateReplica(name string, change ...func(*kubevirt.VirtualMachineInstance)) {
	c.CreateVMI(slices.Insert(change, 0, func(vmi *kubevirt.VirtualMachineInstance) { vmi.Name = name })...)
}

// Replicas returns all instances, by ordinal and name.
func (c *Cluster) Replicas() []*kubevirt.VirtualMachineInstance {
	all := kube.List[kubevirt.VirtualMachineInstance](c.Kube, Namespace)
	slices.SortStableFunc(all, func(a, b *kubevirt.VirtualMachineInstance) int {
		return observe.Ordinal(a) - observe.Ordinal(b)
	})
	return all
}

// Ordinals returns the ordinals of the instances; an instance that no set has created has 0.
func (c *Cluster) Ordinals() []int {
	var out []int
	for _, vmi := range c.Replicas() {
		out = append(out, observe.Ordinal(vmi))
	}
	return out
}

// Replica returns the name of the instance with that ordinal.
func (c *Cluster) Replica(ordinal int) string {
	all := c.Replicas()
	i := slices.IndexFunc(all, func(vmi *kubevirt.VirtualMachineInstance) bool {
		return observe.Ordinal(vmi) == ordinal
	})
	require.GreaterOrEqual(c.t, i, 0, "there is no replica %d", ordinal)
	return all[i].Name
}

// OwnedByVM makes the VM the controller of an instance.
func (c *Cluster) OwnedByVM(vmi *kubevirt.VirtualMachineInstance) {
	vm := kube.Get[kubevirt.VirtualMachine](c.Kube, Namespace, Name)
	vmi.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(vm, kubevirt.VirtualMachineGroupVersionKind)}
}

// Disown simulates the garbage collector after the deletion of a VM with --cascade=orphan.
func (c *Cluster) Disown() {
	c.EditVMI(func(vmi *kubevirt.VirtualMachineInstance) { vmi.OwnerReferences = nil })
	for _, r := range kube.List[appsv1.ControllerRevision](c.Kube, Namespace) {
		_, err := kube.Edit(c.Kube, Namespace, r.Name, "", func(r *appsv1.ControllerRevision) {
			r.OwnerReferences = nil
		})
		require.NoError(c.t, err)
	}
}

// StartsPaused reports whether the instance's spec asks for a paused start.
func (c *Cluster) StartsPaused() bool {
	vmi := kube.Get[kubevirt.VirtualMachineInstance](c.Kube, Namespace, Name)
	return vmi.Spec.StartStrategy != nil && *vmi.Spec.StartStrategy == kubevirt.StartStrategyPaused
}

// EditReplica changes an instance of a replica set.
func (c *Cluster) EditReplica(name string, change func(*kubevirt.VirtualMachineInstance)) {
	c.editVMI(name, change)
}

// OwnerOf returns the UID of an instance's controller; "": none.
func (c *Cluster) OwnerOf(name string) string {
	if ref := metav1.GetControllerOf(kube.Get[kubevirt.VirtualMachineInstance](c.Kube, Namespace, name)); ref != nil {
		return string(ref.UID)
	}
	return ""
}

// CreateReplicas creates instances of the set as an earlier run of the workflow would have, from that ordinal.
func (c *Cluster) CreateReplicas(from, count int) {
	_, err := c.real.CreateReplicas(context.Background(), contract.CreateReplicasInput{
		Set: contract.Object{Namespace: Namespace, Name: Name, UID: c.SetUID()}, From: from, Count: count,
	})
	require.NoError(c.t, err)
}

// TakeName creates an instance without owner that has the name of the replica with that ordinal.
func (c *Cluster) TakeName(ordinal int) {
	var name string
	c.Unseen(func() {
		c.CreateReplicas(ordinal, 1)
		name = c.Replica(ordinal)
		c.Vanish(name)
		c.removeVMI(name)
	})
	c.CreateReplica(name, func(vmi *kubevirt.VirtualMachineInstance) { vmi.Labels = nil })
}

// Quota limits the number of instances; 0: unlimited.
func (c *Cluster) Quota(most int) {
	if most == 0 {
		c.Kube.Intercept(nil)
		return
	}
	status := errors.NewForbidden(schema.GroupResource{Resource: "virtualmachineinstances"}, Name,
		fmt.Errorf("exceeded quota")).Status()
	c.Kube.Intercept(func(r kube.Request) *kube.Fault {
		if r.Resource == "virtualmachineinstances" && r.Verb == "create" && len(c.Replicas()) >= most {
			return &kube.Fault{Status: &status}
		}
		return nil
	})
}

// OnClaim puts a volume of the instance on a PVC.
func OnClaim(name string) func(*kubevirt.VirtualMachineInstance) {
	return func(vmi *kubevirt.VirtualMachineInstance) {
		vmi.Spec.Volumes = append(vmi.Spec.Volumes, kubevirt.Volume{Name: "data", VolumeSource: kubevirt.VolumeSource{
			PersistentVolumeClaim: &kubevirt.PersistentVolumeClaimVolumeSource{
				PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}})
	}
}

// CreateClaim creates an unbound PVC.
func (c *Cluster) CreateClaim(name string, modes ...corev1.PersistentVolumeAccessMode) {
	_, err := kube.Put(c.Kube, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes, Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	})
	require.NoError(c.t, err)
}

// BindClaim binds a PVC to a volume.
func (c *Cluster) BindClaim(name, capacity string) {
	_, err := kube.Edit(c.Kube, Namespace, name, "status", func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Status.Phase = corev1.ClaimBound
		pvc.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(capacity)}
	})
	require.NoError(c.t, err)
}
