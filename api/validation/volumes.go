package validation

import (
	"path"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/defaults"
)

func volumeRules() []element {
	return []element{
		{"name differs", volumeNameDiffers},
		{"data volume", dataVolumeNamed},
		{"one source", volumeSource},
		{"cloud-init", cloudInit},
		{"downward metrics", downwardMetricsVolume},
		{"host disk", hostDisk},
		{"names of sources", volumeSourceNamed},
	}
}

func volumeCount(s subject) int { return len(s.spec.Volumes) }

func (s subject) volume(i int) *field.Path { return s.path.Child("volumes").Index(i) }

func volumeNameDiffers(s subject, i int) []metav1.StatusCause {
	for j := range min(i, maxSameNames) {
		if s.spec.Volumes[j].Name == s.spec.Volumes[i].Name {
			return invalid(s.volume(i).Child("name"), "%s and %s must not have the same Name.", s.volume(i),
				s.volume(j))
		}
	}
	return nil
}

func dataVolumeNamed(s subject, i int) []metav1.StatusCause {
	if v := s.spec.Volumes[i].DataVolume; v == nil || v.Name != "" {
		return nil
	}
	return required(s.volume(i).Child("name"), "DataVolume 'name' must be set")
}

func volumeSource(s subject, i int) []metav1.StatusCause {
	sources := 0
	// Every field of a volume's source is one kind of source.
	v := reflect.ValueOf(s.spec.Volumes[i].VolumeSource)
	for f := range v.NumField() {
		if !v.Field(f).IsNil() {
			sources++
		}
	}
	if sources == 1 {
		return nil
	}
	return invalid(s.volume(i), "%s must have exactly one source type set", s.volume(i))
}

func downwardMetricsVolume(s subject, i int) []metav1.StatusCause {
	if s.spec.Volumes[i].DownwardMetrics == nil || s.cluster.Enabled(defaults.GateDownwardMetrics) {
		return nil
	}
	return invalid(s.volume(i), "downwardMetrics disks are not allowed: DownwardMetrics feature gate is not enabled.")
}

func hostDisk(s subject, i int) []metav1.StatusCause {
	h := s.spec.Volumes[i].HostDisk
	if h == nil {
		return nil
	}
	p := s.volume(i).Child("hostDisk")
	var causes []metav1.StatusCause
	if !s.cluster.Enabled(defaults.GateHostDisk) {
		causes = append(causes, invalid(s.volume(i), "HostDisk feature gate is not enabled")...)
	}
	if h.Path == "" {
		causes = append(causes, cause(metav1.CauseTypeFieldValueNotFound, p.Child("path"),
			"%s is required for hostDisk volume", p.Child("path")))
	}
	if h.Type != kubevirtv1.HostDiskExists && h.Type != kubevirtv1.HostDiskExistsOrCreate {
		causes = append(causes, invalid(p.Child("type"), "%s has invalid value '%s', allowed are '%s' or '%s'",
			p.Child("type"), h.Type,
			kubevirtv1.HostDiskExists, kubevirtv1.HostDiskExistsOrCreate)...)
	}
	if h.Type == kubevirtv1.HostDiskExists && !h.Capacity.IsZero() {
		causes = append(causes, invalid(p.Child("capacity"), "%s is allowed to pass only with %s equal to '%s'",
			p.Child("capacity"), p.Child("type"),
			kubevirtv1.HostDiskExistsOrCreate)...)
	}
	return causes
}

func volumeSourceNamed(s subject, i int) []metav1.StatusCause {
	v, p := s.spec.Volumes[i], s.volume(i)
	var causes []metav1.StatusCause
	need := func(missing bool, p *field.Path) {
		if missing {
			causes = append(causes, invalid(p, "%s is a required field", p)...)
		}
	}
	need(v.ConfigMap != nil && v.ConfigMap.Name == "", p.Child("configMap", "name"))
	need(v.Secret != nil && v.Secret.SecretName == "", p.Child("secret", "secretName"))
	need(v.ServiceAccount != nil && v.ServiceAccount.ServiceAccountName == "",
		p.Child("serviceAccount", "serviceAccountName"))
	return causes
}

// singleVolumes returns the kinds of volumes of which a guest can have one.
func singleVolumes(s subject) []metav1.StatusCause {
	var accounts, metrics, dumps int
	for _, v := range s.spec.Volumes {
		if v.ServiceAccount != nil {
			accounts++
		}
		if v.DownwardMetrics != nil {
			metrics++
		}
		if v.MemoryDump != nil {
			dumps++
		}
	}
	var causes []metav1.StatusCause
	p := s.path.Child("volumes")
	for _, one := range []struct {
		n    int
		name string
	}{{accounts, "serviceAccount"}, {metrics, "downwardMetric"}, {dumps, "memory dump"}} {
		if one.n > 1 {
			causes = append(causes, invalid(p, "%s must have max one %s volume set", p, one.name)...)
		}
	}
	return causes
}

func containerDiskPaths(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i, v := range s.spec.Volumes {
		if v.ContainerDisk != nil {
			causes = append(causes, filePath(s.volume(i).Child("containerDisk"), v.ContainerDisk.Path)...)
		}
	}
	return causes
}

// filePath checks a path within an image; an empty one is the image's usual one.
func filePath(p *field.Path, file string) []metav1.StatusCause {
	switch {
	case file == "":
		return nil
	case file == "/":
		return invalid(p, "%s must not point to root", p)
	case path.Join("/", file) != strings.TrimSuffix(file, "/"):
		return invalid(p, "%s must be an absolute path to a file without relative components", p)
	default:
		return nil
	}
}

func noUtilityVolumes(s subject) []metav1.StatusCause {
	if s.spec.UtilityVolumes == nil {
		return nil
	}
	return invalid(s.path.Child("utilityVolumes"),
		"cannot create VMI with utility volumes in spec, utility volumes can only be added via hotplug")
}
