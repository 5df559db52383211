package validation

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/defaults"
)

// subject has the input of a rule for a VMI's spec. Path is the path of the spec: spec, or spec.template.spec.
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

// element is a rule for one element of a list: a disk, a volume, an interface, by its number.
type element struct {
	name  string
	apply func(subject, int) []metav1.StatusCause
}

// maxFound bounds the findings about elements of a list: no more are reported.
const maxFound = 1000

// each applies rules to n elements, one element after the other.
func each(n func(subject) int, rules []element) func(subject) []metav1.StatusCause {
	return func(s subject) []metav1.StatusCause {
		var causes []metav1.StatusCause
		for i := range n(s) {
			if len(causes) >= maxFound {
				break
			}
			for _, r := range rules {
				causes = append(causes, r.apply(s, i)...)
			}
		}
		return causes
	}
}

// specRules apply to every VMI's spec, in any object. They are KubeVirt's, in the order in which it reports them.
func specRules() []rule {
	return []rule{
		{"hostname", hostname},
		{"subdomain", subdomain},
		{"memory request", memoryRequest},
		{"memory limit", memoryLimit},
		{"huge pages", hugepages},
		{"guest memory within the limit", guestMemoryLimit},
		{"machine type", machineType},
		{"ACPI tables", acpiTables},
		{"CPU request", cpuRequest},
		{"CPU limit", cpuLimit},
		{"CPU request within the limit", cpuRequestWithinLimit},
		{"dedicated CPUs", dedicatedCPUs},
		{"NUMA", numa},
		{"isolated emulator thread", isolatedEmulatorThread},
		{"CPU features", cpuFeatures},
		{"sockets", sockets},
		{"start strategy", startStrategy},
		{"realtime", realtime},
		{"affinity", affinity},
		{"topology spread", topologySpread},
		{"networks", networks},
		{"devices with resource claims", claimedDevices},
		{"disks and volumes", disksAndVolumes},
		{"interface boot order", interfaceBootOrder},
		{"inputs", inputs},
		{"I/O threads policy", ioThreadsPolicy},
		{"probes", probes},
		{"probes need the pod network", probesNeedPodNetwork},
		{"disks", each(diskCount, diskRules())},
		{"boot loader", bootloader},
		{"kernel boot", kernelBoot},
		{"secure boot", secureBoot},
		{"volumes", each(volumeCount, volumeRules())},
		{"single volumes", singleVolumes},
		{"container disk paths", containerDiskPaths},
		{"utility volumes", noUtilityVolumes},
		{"access credentials", accessCredentials},
		{"DNS policy", dnsPolicy},
		{"DNS settings", dnsConfig},
		{"eviction strategy", evictionStrategy},
		{"GPU displays", gpuDisplays},
		{"host devices", hostDevices},
		{"sound", sound},
		{"launch security", launchSecurity},
		{"vsock", vsock},
		{"persistent reservation", persistentReservation},
		{"downward metrics device", downwardMetricsDevice},
		{"file systems", filesystems},
		{"video", video},
		{"panic devices", panicDevices},
		{"reboot policy", rebootPolicy},
		{"reserved overhead", reservedOverhead},
		{"service account", serviceAccount},
	}
}

// networkRules are the part of specRules about networks and interfaces.
func networkRules() []rule {
	return []rule{
		{"one default network", oneDefaultNetwork},
		{"network sources", networkSources},
		{"Multus networks", multusNetworks},
		{"interface states", each(interfaceCount, interfaceStateRules())},
		{"interface bindings", each(interfaceCount, interfaceBindingRules())},
		{"network names", networkNames},
		{"networks with resource claims", claimedNetworks},
		{"networks have interfaces", networksHaveInterfaces},
		{"interface names differ", interfaceNamesDiffer},
		{"interfaces have networks", interfacesHaveNetworks},
		{"interfaces", each(interfaceCount, interfaceRules())},
	}
}

func networks(s subject) []metav1.StatusCause { return s.apply(networkRules()) }

// instanceRules apply to a VMI itself, beyond those for its spec.
func instanceRules() []rule {
	return []rule{
		{"volumes are used", volumesUsed},
		{"memory", someMemory},
	}
}

// ownRules are not KubeVirt's: what they refuse could never start, and the user would only see that later.
func ownRules() []rule {
	return []rule{
		{"guest memory", guestMemory},
		{"grace period", gracePeriod},
	}
}

// Spec applies KubeVirt's rules for a VMI's spec at that path.
func Spec(
	path *field.Path, spec *kubevirtv1.VirtualMachineInstanceSpec, cluster defaults.Cluster,
) []metav1.StatusCause {
	return subject{spec: spec, path: path, cluster: cluster}.apply(specRules())
}

// Startable returns causes for what KubeVirt would accept although it could never start. Path is the path of the spec.
func Startable(
	path *field.Path, spec *kubevirtv1.VirtualMachineInstanceSpec, cluster defaults.Cluster,
) []metav1.StatusCause {
	s := subject{spec: spec, path: path, cluster: cluster}
	return append(s.apply(ownRules()), someMemory(s)...)
}

func (s subject) apply(rules []rule) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for _, r := range rules {
		causes = append(causes, r.apply(s)...)
	}
	return causes
}

func cause(kind metav1.CauseType, path fmt.Stringer, format string, args ...any) metav1.StatusCause {
	return metav1.StatusCause{Type: kind, Field: path.String(), Message: fmt.Sprintf(format, args...)}
}

func causeOf(kind metav1.CauseType, path fmt.Stringer, format string, args ...any) []metav1.StatusCause {
	return []metav1.StatusCause{cause(kind, path, format, args...)}
}

func invalid(path fmt.Stringer, format string, args ...any) []metav1.StatusCause {
	return causeOf(metav1.CauseTypeFieldValueInvalid, path, format, args...)
}

func required(path fmt.Stringer, format string, args ...any) []metav1.StatusCause {
	return causeOf(metav1.CauseTypeFieldValueRequired, path, format, args...)
}

func duplicate(path fmt.Stringer, format string, args ...any) []metav1.StatusCause {
	return causeOf(metav1.CauseTypeFieldValueDuplicate, path, format, args...)
}

func unsupported(path fmt.Stringer, format string, args ...any) []metav1.StatusCause {
	return causeOf(metav1.CauseTypeFieldValueNotSupported, path, format, args...)
}

// nowhere is the field of causes for which KubeVirt has none.
type nowhere struct{}

func (nowhere) String() string { return "" }

func (s subject) domain(names ...string) *field.Path {
	p := s.path.Child("domain")
	for _, n := range names {
		p = p.Child(n)
	}
	return p
}

func (s subject) cpuPath(name string) *field.Path { return s.domain("cpu", name) }

func isTrue(b *bool) bool { return b != nil && *b }

func isFalse(b *bool) bool { return b != nil && !*b }

// on reports whether an optional switch is on, as KubeVirt reads it: unless it is set to false.
func on(b *bool) bool { return b == nil || *b }
