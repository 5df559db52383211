package validation

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/api/defaults"
)

// subject is what a rule for a VMI's spec looks at. Path is where the spec is: spec, or spec.template.spec.
type subject struct {
	spec    *kubevirtv1.VirtualMachineInstanceSpec
	path    *field.Path
	cluster defaults.Cluster
}

// rule names one rule and the function that applies it.
type rule struct {
	name  string
	apply func(subject) []metav1.StatusCause
}

// specRules hold for every VMI's spec, wherever it stands.
func specRules() []rule {
	return []rule{
		{"hostname", hostname},
		{"subdomain", subdomain},
		{"guest memory request", memoryRequest},
		{"memory limit", memoryLimit},
		{"CPU request", cpuRequest},
		{"CPU limit", cpuLimit},
		{"guest memory", guestMemory},
		{"machine type", machineType},
		{"sockets", sockets},
		{"grace period", gracePeriod},
		{"start strategy", startStrategy},
		{"eviction strategy", evictionStrategy},
		{"probes", probes},
		{"probes need the pod network", probesNeedPodNetwork},
		{"I/O threads policy", ioThreadsPolicy},
		{"inputs", inputs},
		{"disk names", diskNames},
		{"disk volumes", diskVolumes},
		{"disk targets", diskTargets},
		{"disk buses", diskBuses},
		{"disk serials", diskSerials},
		{"disk driver options", diskDrivers},
		{"boot order", bootOrder},
		{"volume names", volumeNames},
		{"volume sources", volumeSources},
		{"cloud-init", cloudInit},
		{"container disk paths", containerDiskPaths},
		{"network sources", networkSources},
		{"networks have interfaces", networksHaveInterfaces},
		{"one pod network", onePodNetwork},
		{"interfaces have networks", interfacesHaveNetworks},
		{"interface names", interfaceNames},
		{"interface bindings", interfaceBindings},
		{"interface bindings and networks", bindingsFitNetworks},
		{"interface models", interfaceModels},
		{"MAC addresses", macAddresses},
		{"DNS", dns},
		{"service account", serviceAccount},
	}
}

// Spec applies every rule for a VMI's spec that stands at path.
func Spec(path *field.Path, spec *kubevirtv1.VirtualMachineInstanceSpec, cluster defaults.Cluster) []metav1.StatusCause {
	var causes []metav1.StatusCause
	s := subject{spec: spec, path: path, cluster: cluster}
	for _, r := range specRules() {
		causes = append(causes, r.apply(s)...)
	}
	return causes
}

func cause(kind metav1.CauseType, path fmt.Stringer, format string, args ...any) metav1.StatusCause {
	return metav1.StatusCause{Type: kind, Field: path.String(), Message: fmt.Sprintf(format, args...)}
}

func invalid(path fmt.Stringer, format string, args ...any) []metav1.StatusCause {
	return []metav1.StatusCause{cause(metav1.CauseTypeFieldValueInvalid, path, format, args...)}
}

func required(path fmt.Stringer, format string, args ...any) []metav1.StatusCause {
	return []metav1.StatusCause{cause(metav1.CauseTypeFieldValueRequired, path, format, args...)}
}

func unsupported(path fmt.Stringer, format string, args ...any) []metav1.StatusCause {
	return []metav1.StatusCause{cause(metav1.CauseTypeFieldValueNotSupported, path, format, args...)}
}

func (s subject) domain(names ...string) *field.Path {
	p := s.path.Child("domain")
	for _, n := range names {
		p = p.Child(n)
	}
	return p
}

func isTrue(b *bool) bool { return b != nil && *b }

func isFalse(b *bool) bool { return b != nil && !*b }
