package support

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/internal/hardware"
)

// Combinations returns a cause for each combination of supported fields for which no launcher builds a domain. The
// launcher would refuse it too, but only after its pod has started. The prefix is the path of the spec, and permitted
// has the host devices that the KubeVirt object permits, or is nil.
func Combinations(
	spec *kubevirtv1.VirtualMachineInstanceSpec, permitted *kubevirtv1.PermittedHostDevices, prefix string,
) []metav1.StatusCause {
	var causes []metav1.StatusCause
	refuse := func(path, message string) {
		causes = append(causes, metav1.StatusCause{
			Type: metav1.CauseTypeFieldValueNotSupported, Field: prefix + path, Message: prefix + path + message,
		})
	}
	volumes := map[string]*kubevirtv1.Volume{}
	cloudInit := ""
	configDrive := false // only that shows a guest the tags of its devices
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		volumes[v.Name] = v
		if problems := validation.IsDNS1123Subdomain(v.Name); len(problems) > 0 {
			refuse(fmt.Sprintf(".volumes[%d].name", i), ": "+problems[0])
		}
		if v.EmptyDisk != nil && v.EmptyDisk.Capacity.Value() < 1<<20 {
			refuse(fmt.Sprintf(".volumes[%d].emptyDisk.capacity", i), ": less than 1Mi is not supported yet")
		}
		if v.Sysprep != nil && v.Sysprep.Secret == nil && v.Sysprep.ConfigMap == nil {
			refuse(fmt.Sprintf(".volumes[%d].sysprep", i), ": must set secret or configMap")
		}
		if source, label := volumeLabel(v); len(label) > maxLabel {
			refuse(fmt.Sprintf(".volumes[%d].%s.volumeLabel", i, source),
				fmt.Sprintf(": more than %d bytes are not supported yet", maxLabel))
		}
		configDrive = configDrive || v.CloudInitConfigDrive != nil
		kind := cloudInitKind(v)
		if kind == "" {
			continue
		}
		if cloudInit != "" {
			refuse(fmt.Sprintf(".volumes[%d].%s", i, kind),
				": a second cloud-init volume, beside "+cloudInit+", is not supported yet")
			continue
		}
		cloudInit = v.Name
	}
	for i, d := range spec.Domain.Devices.Disks {
		at := fmt.Sprintf(".domain.devices.disks[%d]", i)
		v := volumes[d.Name]
		if v == nil {
			v = &kubevirtv1.Volume{}
		}
		if d.Tag != "" && configDrive {
			refuse(at+".tag", ": a tag together with a config drive is not supported yet")
		}
		if _, kept := claims.Kept(v); d.Shareable != nil && *d.Shareable && !kept {
			refuse(at+".shareable", ": shareable for a volume of a single pod is not supported yet")
		}
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly && d.Disk != nil && !d.Disk.ReadOnly &&
			(d.Disk.Bus == "" || d.Disk.Bus == kubevirtv1.DiskBusSATA) {
			refuse(at+".disk.bus", ": sata for a PersistentVolumeClaim that is mounted read-only is not supported yet")
		}
		if d.IO == kubevirtv1.IONative && d.Cache != "" && d.Cache != kubevirtv1.CacheNone {
			refuse(at+".io", ": native needs cache mode none")
		}
	}
	for i, f := range spec.Domain.Devices.Filesystems {
		at := fmt.Sprintf(".domain.devices.filesystems[%d].name", i)
		if v := volumes[f.Name]; v == nil || !hasFiles(v) {
			refuse(at, ": a file system of another kind of volume than persistentVolumeClaim, dataVolume, configMap, "+
				"secret, serviceAccount and downwardAPI is not supported yet")
		}
		if len(f.Name) > maxTag {
			refuse(at, fmt.Sprintf(": more than %d bytes are not supported yet", maxTag))
		}
		if slices.ContainsFunc(spec.Domain.Devices.Filesystems[:i], func(o kubevirtv1.Filesystem) bool {
			return o.Name == f.Name
		}) {
			refuse(at, ": a second file system of one volume is not supported yet")
		}
		if slices.ContainsFunc(spec.Domain.Devices.Disks, func(d kubevirtv1.Disk) bool { return d.Name == f.Name }) {
			// The guest could put a link in the place of the file that the launcher opens for the disk.
			refuse(at, ": a volume that is a disk as well is not supported yet")
		}
	}
	for at, r := range hardware.ClaimRequests(spec) {
		// It is a part of a path in the launcher, and of a pod, whose admission would refuse it late.
		if problems := validation.IsDNS1123Label(r.RequestName); r.RequestName != "" && len(problems) > 0 {
			refuse("."+at+".requestName", ": "+problems[0])
		}
	}
	if o := reservedOverhead(&spec.Domain); o != nil && o.MemLock != nil &&
		*o.MemLock == kubevirtv1.MemLockRequired && !hasVFIODevice(&spec.Domain, permitted) {
		refuse(".domain.memory.reservedOverhead.memLock",
			": Required for a machine without a VFIO device is not supported yet: only such devices need it")
	}
	if n := hardware.SupplementalPool(&spec.Domain); n > hardware.MostPoolThreads {
		refuse(".domain.ioThreads.supplementalPoolThreadCount",
			fmt.Sprintf(": more than %d are not supported yet", hardware.MostPoolThreads))
	}
	for i, f := range spec.Domain.Devices.Interfaces {
		if f.Tag != "" && configDrive {
			refuse(fmt.Sprintf(".domain.devices.interfaces[%d].tag", i),
				": a tag together with a config drive is not supported yet")
		}
		if f.MacAddress != "" && slices.ContainsFunc(spec.Networks, func(n kubevirtv1.Network) bool {
			return n.Name == f.Name && n.ResourceClaim != nil
		}) {
			// For Multus networks the pod's annotation sets it; for a ResourceClaim nothing does.
			refuse(fmt.Sprintf(".domain.devices.interfaces[%d].macAddress", i),
				": a MAC address for a device of a ResourceClaim is not supported yet: its driver sets the address")
		}
	}
	return causes
}

func reservedOverhead(d *kubevirtv1.DomainSpec) *kubevirtv1.ReservedOverhead {
	if d.Memory == nil {
		return nil
	}
	return d.Memory.ReservedOverhead
}

// hasVFIODevice reports whether a machine has a device of its host that it reaches by VFIO, for which the node worker
// lets its launcher lock memory. USB devices are not among these.
func hasVFIODevice(d *kubevirtv1.DomainSpec, permitted *kubevirtv1.PermittedHostDevices) bool {
	isPCI := func(h kubevirtv1.HostDevice) bool {
		return permitted == nil || !slices.ContainsFunc(permitted.USB, func(u kubevirtv1.USBHostDevice) bool {
			return u.ResourceName == h.DeviceName
		})
	}
	return len(d.Devices.GPUs) > 0 ||
		slices.ContainsFunc(d.Devices.HostDevices, isPCI) ||
		slices.ContainsFunc(d.Devices.Interfaces, func(i kubevirtv1.Interface) bool { return i.SRIOV != nil })
}

// maxTag is virtio's limit for the tag by which a guest mounts a file system, in bytes.
const maxTag = 36

// hasFiles reports whether a volume is a directory in the launcher's pod.
func hasFiles(v *kubevirtv1.Volume) bool {
	_, claim := claims.Kept(v)
	return claim || v.ConfigMap != nil || v.Secret != nil || v.ServiceAccount != nil || v.DownwardAPI != nil
}

// maxLabel is the space for a label in an ISO, in bytes.
const maxLabel = 32

// volumeLabel returns the user's label for a volume's ISO, and the field of the volume's source.
func volumeLabel(v *kubevirtv1.Volume) (source, label string) {
	switch {
	case v.Secret != nil:
		return "secret", v.Secret.VolumeLabel
	case v.ConfigMap != nil:
		return "configMap", v.ConfigMap.VolumeLabel
	case v.DownwardAPI != nil:
		return "downwardAPI", v.DownwardAPI.VolumeLabel
	default:
		return "", ""
	}
}

// cloudInitKind returns the field with a volume's cloud-init data; "" if it has none.
func cloudInitKind(v *kubevirtv1.Volume) string {
	switch {
	case v.CloudInitNoCloud != nil:
		return "cloudInitNoCloud"
	case v.CloudInitConfigDrive != nil:
		return "cloudInitConfigDrive"
	default:
		return ""
	}
}
