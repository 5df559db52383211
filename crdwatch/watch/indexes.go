package watch

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/internal/observe"
)

// The names of the informers' indexes.
const (
	byNode  = "node"  // pods, of node workers and of launchers, by the node they are on
	byOwner = "owner" // launcher pods by the UID of their VMI
	byVMI   = "vmi"   // launcher pods and migrations by the namespace and name of their VMI
	byEnd   = "end"   // migrations that have not ended: all under one value, unended

	byEvacuation = "evacuation" // instances by the node that they have to leave
	byImage      = "image"      // instances that have not ended by the image of their launcher
	byPVC        = "pvc"        // instances by the namespaces and names of their PVCs
	byTemplate   = "template"   // VMs by the namespaces and names of the DataVolumes of their templates
)

// unended is the value of byEnd for migrations that have not ended.
const unended = "not ended"

// ownerOf indexes launcher pods by the UID of their VMI.
func ownerOf(o any) ([]string, error) {
	if pod, ok := o.(*corev1.Pod); ok {
		if ref := observe.Owner(pod); ref != nil {
			return []string{ref.UID}, nil
		}
	}
	return nil, nil
}

// vmiOf indexes launcher pods and migrations by the namespace and name of their VMI.
func vmiOf(o any) ([]string, error) {
	switch o := o.(type) {
	case *corev1.Pod:
		if ref := observe.Owner(o); ref != nil {
			return []string{o.Namespace + "/" + ref.Name}, nil
		}
	case *kubevirt.VirtualMachineInstanceMigration:
		return []string{o.Namespace + "/" + o.Spec.VMIName}, nil
	}
	return nil, nil
}

// endOf indexes the migrations that have not ended.
func endOf(o any) ([]string, error) {
	if vmim, ok := o.(*kubevirt.VirtualMachineInstanceMigration); ok && !vmim.IsFinal() {
		return []string{unended}, nil
	}
	return nil, nil
}

// nodeOf indexes pods by the node that they are on.
func nodeOf(o any) ([]string, error) {
	if pod, ok := o.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

// pvcsOf indexes instances by the namespaces and names of their PVCs.
func pvcsOf(o any) ([]string, error) {
	vmi, ok := o.(*kubevirt.VirtualMachineInstance)
	if !ok || vmi.IsFinal() {
		return nil, nil
	}
	var out []string
	for i := range vmi.Spec.Volumes {
		if name, isClaim := claims.Of(&vmi.Spec.Volumes[i]); isClaim {
			out = append(out, vmi.Namespace+"/"+name)
		}
	}
	if name, needed := claims.State(vmi); needed {
		out = append(out, vmi.Namespace+"/"+name)
	}
	return out, nil
}

// templatesOf indexes VMs by the namespaces and names of the DataVolumes of their templates.
func templatesOf(o any) ([]string, error) {
	vm, ok := o.(*kubevirt.VirtualMachine)
	if !ok {
		return nil, nil
	}
	var out []string
	for i := range vm.Spec.DataVolumeTemplates {
		out = append(out, vm.Namespace+"/"+vm.Spec.DataVolumeTemplates[i].Name)
	}
	return out, nil
}

// evacueeOf indexes instances by the node that they have to leave.
func evacueeOf(o any) ([]string, error) {
	if vmi, ok := o.(*kubevirt.VirtualMachineInstance); ok {
		if node := observe.Evacuates(vmi); node != "" {
			return []string{node}, nil
		}
	}
	return nil, nil
}

// imageOf indexes the instances that have not ended by the image of their launcher.
func imageOf(o any) ([]string, error) {
	vmi, ok := o.(*kubevirt.VirtualMachineInstance)
	if !ok || vmi.IsFinal() || vmi.Status.LauncherContainerImageVersion == "" {
		return nil, nil
	}
	return []string{vmi.Status.LauncherContainerImageVersion}, nil
}

// indexed returns the objects of an informer that have a value in one of its indexes.
func indexed[T any](i cache.SharedIndexInformer, index, value string) []T {
	objects, err := i.GetIndexer().ByIndex(index, value)
	if err != nil {
		return nil
	}
	var out []T
	for _, o := range objects {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}
