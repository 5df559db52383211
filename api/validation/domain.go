package validation

import (
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// leastMemory is the least that a pod for a guest may request; less is taken for a slip of the unit.
const leastMemory = 1_000_000

func hostname(s subject) []metav1.StatusCause {
	if s.spec.Hostname == "" {
		return nil
	}
	p := s.path.Child("hostname")
	if errs := validation.IsDNS1123Label(s.spec.Hostname); len(errs) > 0 {
		return invalid(p, "%s does not conform to the kubernetes DNS_LABEL rules : %s", p, strings.Join(errs, ", "))
	}
	return nil
}

func subdomain(s subject) []metav1.StatusCause {
	if s.spec.Subdomain == "" {
		return nil
	}
	p := s.path.Child("subdomain")
	if errs := validation.IsDNS1123Subdomain(s.spec.Subdomain); len(errs) > 0 {
		return invalid(p, "%s does not conform to the kubernetes DNS_SUBDOMAIN rules : %s", p, strings.Join(errs, ", "))
	}
	return nil
}

func negative(q *resource.Quantity, p *field.Path) []metav1.StatusCause {
	if q.Sign() < 0 {
		return invalid(p, "%s '%s': must be greater than or equal to 0.", p, q)
	}
	return nil
}

func memoryRequest(s subject) []metav1.StatusCause {
	request, limit := s.spec.Domain.Resources.Requests.Memory(), s.spec.Domain.Resources.Limits.Memory()
	p, limitPath := s.domain("resources", "requests", "memory"), s.domain("resources", "limits", "memory")
	causes := negative(request, p)
	if request.Sign() > 0 && request.Cmp(*resource.NewQuantity(leastMemory, resource.DecimalSI)) < 0 {
		causes = append(causes, invalid(p, "%s '%s': must be greater than or equal to 1M.", p, request)...)
	}
	if limit.Sign() > 0 && request.Cmp(*limit) > 0 {
		causes = append(causes, invalid(p, "%s '%s' is greater than %s '%s'", p, request, limitPath, limit)...)
	}
	return causes
}

func memoryLimit(s subject) []metav1.StatusCause {
	return negative(s.spec.Domain.Resources.Limits.Memory(), s.domain("resources", "limits", "memory"))
}

func cpuRequest(s subject) []metav1.StatusCause {
	request, limit := s.spec.Domain.Resources.Requests.Cpu(), s.spec.Domain.Resources.Limits.Cpu()
	p, limitPath := s.domain("resources", "requests", "cpu"), s.domain("resources", "limits", "cpu")
	causes := negative(request, p)
	if limit.Sign() > 0 && request.Cmp(*limit) > 0 {
		causes = append(causes, invalid(p, "%s '%s' is greater than %s '%s'", p, request, limitPath, limit)...)
	}
	return causes
}

func cpuLimit(s subject) []metav1.StatusCause {
	return negative(s.spec.Domain.Resources.Limits.Cpu(), s.domain("resources", "limits", "cpu"))
}

// guestMemory is not in KubeVirt's list: there, nothing less than this boots either.
func guestMemory(s subject) []metav1.StatusCause {
	m := s.spec.Domain.Memory
	if m == nil || m.Guest == nil || m.Guest.Value() >= leastMemory {
		return nil
	}
	if m.Guest.Cmp(*s.spec.Domain.Resources.Requests.Memory()) == 0 {
		return nil // that one is told already
	}
	p := s.domain("memory", "guest")
	return invalid(p, "%s '%s': must be greater than or equal to 1M.", p, m.Guest)
}

func machineType(s subject) []metav1.StatusCause {
	m := s.spec.Domain.Machine
	if m == nil || m.Type == "" {
		return nil
	}
	allowed := s.cluster.EmulatedMachines(s.spec.Architecture)
	for _, pattern := range allowed {
		if ok, err := path.Match(pattern, m.Type); err == nil && ok {
			return nil
		}
	}
	p := s.domain("machine", "type")
	return invalid(p, "%s is not supported: %s (allowed values: %v)", p, m.Type, allowed)
}

func sockets(s subject) []metav1.StatusCause {
	cpu := s.spec.Domain.CPU
	if cpu == nil || cpu.MaxSockets == 0 || cpu.Sockets <= cpu.MaxSockets {
		return nil
	}
	return invalid(s.domain("cpu", "sockets"), "Number of sockets in CPU topology is greater than the maximum sockets allowed")
}

func ioThreadsPolicy(s subject) []metav1.StatusCause {
	policy := s.spec.Domain.IOThreadsPolicy
	if policy == nil {
		return nil
	}
	switch *policy {
	case kubevirtv1.IOThreadsPolicyShared, kubevirtv1.IOThreadsPolicyAuto:
		return nil
	case kubevirtv1.IOThreadsPolicySupplementalPool:
		t := s.spec.Domain.IOThreads
		if t == nil || t.SupplementalPoolThreadCount == nil || *t.SupplementalPoolThreadCount < 1 {
			return invalid(s.domain("ioThreads", "count"), "the number of iothreads needs to be set and positive for the dedicated policy")
		}
		return nil
	default:
		return invalid(s.domain("ioThreadsPolicy"), "Invalid IOThreadsPolicy (%s)", *policy)
	}
}

func inputs(s subject) []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i, input := range s.spec.Domain.Devices.Inputs {
		p := s.domain("devices", "inputs").Index(i)
		if input.Bus != kubevirtv1.InputBusVirtio && input.Bus != kubevirtv1.InputBusUSB && input.Bus != "" {
			causes = append(causes, invalid(p.Child("bus"), "Input device can have only virtio or usb bus.")...)
		}
		if input.Type != kubevirtv1.InputTypeTablet {
			causes = append(causes, invalid(p.Child("type"), "Input device can have only tablet type.")...)
		}
	}
	return causes
}

func startStrategy(s subject) []metav1.StatusCause {
	if s.spec.StartStrategy == nil {
		return nil
	}
	p := s.path.Child("startStrategy")
	if *s.spec.StartStrategy != kubevirtv1.StartStrategyPaused {
		return invalid(p, "%s is set with an unrecognized option: %s", p, *s.spec.StartStrategy)
	}
	if s.spec.LivenessProbe != nil {
		return invalid(p, "either %s or %s should be provided.Pausing VMI with LivenessProbe is not supported", p, s.path.Child("livenessProbe"))
	}
	return nil
}

func evictionStrategy(s subject) []metav1.StatusCause {
	if s.spec.EvictionStrategy == nil {
		return nil
	}
	switch *s.spec.EvictionStrategy {
	case kubevirtv1.EvictionStrategyNone, kubevirtv1.EvictionStrategyLiveMigrate,
		kubevirtv1.EvictionStrategyLiveMigrateIfPossible, kubevirtv1.EvictionStrategyExternal:
		return nil
	default:
		p := s.path.Child("evictionStrategy")
		return invalid(p, "%s is set with an unrecognized option: %s", p, *s.spec.EvictionStrategy)
	}
}

func serviceAccount(s subject) []metav1.StatusCause {
	if s.spec.ServiceAccountName == "" {
		return nil
	}
	p := s.path.Child("serviceAccountName")
	if errs := validation.IsDNS1123Subdomain(s.spec.ServiceAccountName); len(errs) > 0 {
		return invalid(p, "%s is not a valid service account name: %s", p, strings.Join(errs, ", "))
	}
	return nil
}

// gracePeriod is not in KubeVirt's list: a pod with such a value is refused when it is made, when it is too late to tell the user.
func gracePeriod(s subject) []metav1.StatusCause {
	if g := s.spec.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		p := s.path.Child("terminationGracePeriodSeconds")
		return invalid(p, "%s '%d': must be greater than or equal to 0.", p, *g)
	}
	return nil
}
