package watch

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	kubevirt "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/internal/observe"
)

// ObserveVM observes a VM with the DataVolumes of its templates.
func (i *Informers) ObserveVM(vm *kubevirt.VirtualMachine) contract.VMObservation {
	version := i.volumesVersion()
	o := observe.VM(vm)
	for n := range vm.Spec.DataVolumeTemplates {
		name := vm.Spec.DataVolumeTemplates[n].Name
		dv, _ := Get[*cdi.DataVolume](i.DataVolumes, vm.Namespace+"/"+name)
		pvc, _ := Get[*corev1.PersistentVolumeClaim](i.PVCs, vm.Namespace+"/"+name)
		o.DataVolumes, o.DataVolumesVersion = append(o.DataVolumes, observe.Template(name, dv, pvc)), version
	}
	return o
}

// ObserveVMI observes an instance with the PVCs of its volumes.
func (i *Informers) ObserveVMI(vmi *kubevirt.VirtualMachineInstance) contract.VMIObservation {
	version := i.volumesVersion()
	o := observe.VMI(vmi)
	add := func(volume, name, dataVolume string) {
		pvc, _ := Get[*corev1.PersistentVolumeClaim](i.PVCs, vmi.Namespace+"/"+name)
		c := observe.VolumeClaim(volume, name, pvc)
		c.DataVolume, _ = observe.PopulatedBy(dataVolume, pvc, func(name string) (*cdi.DataVolume, error) {
			dv, _ := Get[*cdi.DataVolume](i.DataVolumes, vmi.Namespace+"/"+name)
			return dv, nil
		})
		o.Claims, o.ClaimsVersion = append(o.Claims, c), version
	}
	for n := range vmi.Spec.Volumes {
		v := &vmi.Spec.Volumes[n]
		if name, isClaim := claims.Of(v); isClaim {
			add(v.Name, name, claims.DataVolume(v))
		}
	}
	if name, needed := claims.State(vmi); needed {
		add(claims.StateVolume, name, "")
	}
	return o
}

// volumesVersion returns the resourceVersion up to which PVCs and DataVolumes are known. Versions are of the whole
// cluster. Of two observations with the same version the later one counts.
func (i *Informers) volumesVersion() string {
	return newest(i.PVCs.LastSyncResourceVersion(), i.DataVolumes.LastSyncResourceVersion())
}

// newest returns the newer of two versions; "": nothing has been read.
func newest(a, b string) string {
	if c, err := resourceversion.CompareResourceVersion(a, b); a == "" || err == nil && c <= 0 {
		return b
	}
	return a
}

// ObserveNode observes a node, and whether a node worker is ready there.
func (i *Informers) ObserveNode(node *corev1.Node) contract.NodeObservation {
	version := i.Workers.LastSyncResourceVersion() // of two with the same version the later one counts
	cluster := i.NodeSettings()
	o := observe.Node(node, i.isWorkerReady(node.Name), cluster.drainTaint)
	o.WorkerVersion = version
	o.ObsoleteCPUModels, o.SettingsVersion = cluster.obsoleteModels, cluster.version
	return o
}

func (i *Informers) isWorkerReady(node string) bool {
	return slices.ContainsFunc(indexed[*corev1.Pod](i.Workers, byNode, node), observe.WorkerReady)
}
