package crdwatch

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/workflows/contract"
)

// claimsOf indexes instances by the namespaces and names of their claims.
func claimsOf(o any) ([]string, error) {
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

// observeVMI observes an instance with the claims of its volumes.
func (i *Informers) observeVMI(vmi *kubevirt.VirtualMachineInstance) contract.VMIObservation {
	version := i.claimsVersion()
	o := observe.VMI(vmi)
	add := func(volume, name, dataVolume string) {
		pvc, _ := get[*corev1.PersistentVolumeClaim](i.Claims, vmi.Namespace+"/"+name)
		c := observe.VolumeClaim(volume, name, pvc)
		c.DataVolume, _ = observe.PopulatedBy(dataVolume, pvc, func(name string) (*cdi.DataVolume, error) {
			dv, _ := get[*cdi.DataVolume](i.DataVolumes, vmi.Namespace+"/"+name)
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

// claimsVersion is that of what is known of claims and DataVolumes. Versions are of the whole cluster. Of two
// observations with the same the one that comes last counts.
func (i *Informers) claimsVersion() string {
	return newest(i.Claims.LastSyncResourceVersion(), i.DataVolumes.LastSyncResourceVersion())
}

// newest is the newer of two versions; "": nothing has been read.
func newest(a, b string) string {
	if a == "" || notNewer(a, b) {
		return b
	}
	return a
}

// claim sends a claim, or that it is gone, to the instances that have it, and to the VMs that have it made.
func (d *differ) claim(pvc *corev1.PersistentVolumeClaim) {
	key := cache.MetaObjectToName(pvc).String()
	for _, vmi := range indexed[*kubevirt.VirtualMachineInstance](d.informers.VMIs, byClaim, key) {
		d.entities.vmi.changed(d, cache.MetaObjectToName(vmi).String(), change)
	}
	for _, vm := range indexed[*kubevirt.VirtualMachine](d.informers.VMs, byTemplate, key) {
		d.entities.vm.changed(d, cache.MetaObjectToName(vm).String(), change)
	}
}
