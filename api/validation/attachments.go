package validation

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/defaults"
)

// disksAndVolumes: each disk has a volume of a kind that it can have, and no two have the same boot order.
func disksAndVolumes(s subject) []metav1.StatusCause {
	volumes := map[string]*kubevirtv1.Volume{}
	for i := range s.spec.Volumes {
		volumes[s.spec.Volumes[i].Name] = &s.spec.Volumes[i]
	}
	var causes []metav1.StatusCause
	orders := map[uint]bool{}
	for i := range s.spec.Domain.Devices.Disks {
		d := s.diskOf(i)
		v := volumes[d.Name]
		causes = append(causes, s.diskVolume(i, d, v)...)
		causes = append(causes, s.downwardMetricsDisk(i, d, v)...)
		if d.BootOrder != nil {
			if orders[*d.BootOrder] {
				p := s.disk(i).Child("bootOrder")
				causes = append(causes, invalid(p, "Boot order for %s already set for a different device.", p)...)
			}
			orders[*d.BootOrder] = true
		}
	}
	return causes
}

func (s subject) diskVolume(i int, d *kubevirtv1.Disk, v *kubevirtv1.Volume) []metav1.StatusCause {
	p := s.disk(i)
	switch {
	case v == nil && d.CDRom == nil:
		return invalid(p.Child("name"), "%s '%s' not found.", p.Child("Name"), d.Name)
	case v == nil && !s.cluster.Enabled(defaults.GateDeclarativeHotplug):
		return invalid(p.Child("name"), "%s feature gate not enabled, cannot define an empty CD-ROM disk",
			defaults.GateDeclarativeHotplug)
	case v != nil && d.LUN != nil && v.PersistentVolumeClaim == nil && v.DataVolume == nil:
		return invalid(p.Child("lun"), "%s can only be mapped to a DataVolume or PersistentVolumeClaim volume.",
			p.Child("lun"))
	default:
		return nil
	}
}

func (s subject) downwardMetricsDisk(i int, d *kubevirtv1.Disk, v *kubevirtv1.Volume) []metav1.StatusCause {
	if v == nil || v.DownwardMetrics == nil {
		return nil
	}
	p := s.disk(i).Child("disk")
	switch {
	case d.Disk == nil:
		return required(p, "DownwardMetrics volume must be mapped to a disk, but disk is not set on %s.", p)
	case d.Disk.Bus != kubevirtv1.DiskBusVirtio && d.Disk.Bus != "":
		return invalid(p.Child("bus"), "DownwardMetrics volume must be mapped to virtio bus, but %s is set to %s",
			p.Child("bus"), d.Disk.Bus)
	default:
		return nil
	}
}

// interfaceBootOrder: a number belongs to one disk or interface.
func interfaceBootOrder(s subject) []metav1.StatusCause {
	orders := map[uint]bool{}
	for _, d := range s.spec.Domain.Devices.Disks {
		if d.BootOrder != nil {
			orders[*d.BootOrder] = true
		}
	}
	var causes []metav1.StatusCause
	for i, n := range s.spec.Domain.Devices.Interfaces {
		switch {
		case n.BootOrder == nil:
			continue
		case *n.BootOrder < 1: // KubeVirt gives the path of the spec
			causes = append(causes, invalid(s.path.Index(i).Child("bootOrder"),
				"%s must have a boot order > 0, if supplied", s.path.Index(i))...)
			continue
		case orders[*n.BootOrder]:
			p := s.iface(i).Child("bootOrder")
			causes = append(causes, invalid(p, "Boot order for %s already set for a different device.", p)...)
		}
		orders[*n.BootOrder] = true
	}
	return causes
}

// volumesUsed: each volume of an instance is used by a disk or file system.
func volumesUsed(s subject) []metav1.StatusCause {
	disks, filesystems := map[string]bool{}, map[string]bool{}
	for _, d := range s.spec.Domain.Devices.Disks {
		disks[d.Name] = true
	}
	for _, f := range s.spec.Domain.Devices.Filesystems {
		filesystems[f.Name] = true
	}
	var causes []metav1.StatusCause
	for i, v := range s.spec.Volumes {
		if v.MemoryDump != nil {
			continue
		}
		p := s.domain("volumes").Index(i)
		if !disks[v.Name] && !filesystems[v.Name] {
			causes = append(causes, invalid(p.Child("name"), "%s '%s' not found.", p.Child("name"), v.Name)...)
		}
		if v.ContainerPath == nil {
			continue
		}
		if disks[v.Name] {
			causes = append(causes, invalid(p, "ContainerPath volume '%s' must be mapped to a filesystem, not a disk",
				v.Name)...)
		}
		if !filesystems[v.Name] {
			causes = append(causes, invalid(p,
				"ContainerPath volume '%s' must have a matching filesystem defined in spec.domain.devices.filesystems", v.Name)...)
		}
		for _, reserved := range []string{"/var/run/kubevirt", "/var/run/libvirt"} {
			if strings.HasPrefix(v.ContainerPath.Path, reserved) {
				causes = append(causes, invalid(p.Child("containerPath", "path"),
					"ContainerPath volume '%s' uses reserved path prefix '%s'", v.Name, reserved)...)
				break
			}
		}
	}
	return causes
}
