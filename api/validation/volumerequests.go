package validation

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/defaults"
)

// VolumeRequests checks the requests in a VM's status to add and to remove volumes. Only the first finding is reported.
// VMI is the VM's running instance; nil if there is none.
func VolumeRequests(
	vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, cluster defaults.Cluster,
) []metav1.StatusCause {
	if len(vm.Status.VolumeRequests) == 0 || vm.Spec.Template == nil {
		return nil
	}
	r := requests{
		template: volumesByName(vm.Spec.Template.Spec.Volumes), running: map[string]kubevirtv1.Volume{},
		added: map[string]bool{}, removed: map[string]bool{},
	}
	spec := vm.Spec.Template.Spec.DeepCopy()
	if vmi != nil {
		vmi = vmi.DeepCopy()
		r.running = volumesByName(vmi.Spec.Volumes)
	}
	for i := range vm.Status.VolumeRequests {
		request := &vm.Status.VolumeRequests[i]
		if causes := r.check(request); len(causes) > 0 {
			return causes
		}
		applyRequest(spec, request)
		if vmi != nil {
			applyRequest(&vmi.Spec, request)
		}
	}
	if causes := Spec(TemplatePath(), spec, cluster); len(causes) > 0 || vmi == nil {
		return causes
	}
	if causes := Spec(TemplatePath(), &vmi.Spec, cluster); len(causes) > 0 {
		return causes
	}
	if m := vmi.Status.MigrationState; m != nil && m.StartTimestamp != nil && m.EndTimestamp == nil {
		return unsupported(specPath(), "Cannot handle volume requests while VMI migration is in progress")
	}
	return nil
}

type requests struct {
	template, running map[string]kubevirtv1.Volume
	added, removed    map[string]bool
}

func volumesByName(list []kubevirtv1.Volume) map[string]kubevirtv1.Volume {
	m := map[string]kubevirtv1.Volume{}
	for _, v := range list {
		m[v.Name] = v
	}
	return m
}

func (r *requests) check(request *kubevirtv1.VirtualMachineVolumeRequest) []metav1.StatusCause {
	p := field.NewPath("Status", "volumeRequests")
	add, remove := request.AddVolumeOptions, request.RemoveVolumeOptions
	switch {
	case add != nil && remove != nil:
		return invalid(p, "VolumeRequests require either addVolumeOptions or removeVolumeOptions to be set, not both")
	case add != nil:
		return r.checkAdd(p, add)
	case remove != nil:
		if r.removed[remove.Name] {
			return invalid(p, "RemoveVolume request for [%s] aleady exists", remove.Name)
		}
		r.removed[remove.Name] = true
		return nil
	default:
		return invalid(p, "VolumeRequests require one of either addVolumeOptions or removeVolumeOptions to be set")
	}
}

func (r *requests) checkAdd(p *field.Path, add *kubevirtv1.AddVolumeOptions) []metav1.StatusCause {
	if r.added[add.Name] {
		return invalid(p, "AddVolume request for [%s] aleady exists", add.Name)
	}
	if causes := pluggedDisk(add.Disk, add.Name, "AddVolume request", p); len(causes) > 0 {
		return causes
	}
	v := kubevirtv1.Volume{Name: add.Name}
	if add.VolumeSource != nil {
		if v.PersistentVolumeClaim = add.VolumeSource.PersistentVolumeClaim; v.PersistentVolumeClaim == nil {
			v.DataVolume = add.VolumeSource.DataVolume
		}
	}
	if there, ok := r.template[add.Name]; ok && !equality.Semantic.DeepEqual(v, there) {
		return invalid(p, "AddVolume request for [%s] conflicts with an existing volume of the same name on the vmi "+
			"template.", add.Name)
	}
	if there, ok := r.running[add.Name]; ok && !equality.Semantic.DeepEqual(v, there) {
		return invalid(p, "AddVolume request for [%s] conflicts with an existing volume of the same name on "+
			"currently running vmi", add.Name)
	}
	r.added[add.Name] = true
	return nil
}

// applyRequest changes a spec as requested.
func applyRequest(spec *kubevirtv1.VirtualMachineInstanceSpec, request *kubevirtv1.VirtualMachineVolumeRequest) {
	if remove := request.RemoveVolumeOptions; remove != nil {
		spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v kubevirtv1.Volume) bool { return v.Name == remove.Name })
		spec.Domain.Devices.Disks = slices.DeleteFunc(spec.Domain.Devices.Disks, func(d kubevirtv1.Disk) bool {
			return d.Name == remove.Name
		})
		return
	}
	add := request.AddVolumeOptions
	if slices.ContainsFunc(spec.Volumes, func(v kubevirtv1.Volume) bool { return v.Name == add.Name }) {
		return
	}
	v := kubevirtv1.Volume{Name: add.Name}
	if s := add.VolumeSource; s != nil {
		switch {
		case s.PersistentVolumeClaim != nil:
			v.PersistentVolumeClaim = s.PersistentVolumeClaim.DeepCopy()
			v.PersistentVolumeClaim.Hotpluggable = true
		case s.DataVolume != nil:
			v.DataVolume = s.DataVolume.DeepCopy()
			v.DataVolume.Hotpluggable = true
		}
	}
	spec.Volumes = append(spec.Volumes, v)
	if add.Disk != nil {
		d := add.Disk.DeepCopy()
		d.Name = add.Name
		spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, *d)
	}
}
