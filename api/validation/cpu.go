package validation

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func cpuRequest(s subject) []metav1.StatusCause {
	return negativeMilli(s.spec.Domain.Resources.Requests.Cpu(), s.domain("resources", "requests", "cpu"))
}

func cpuLimit(s subject) []metav1.StatusCause {
	return negativeMilli(s.spec.Domain.Resources.Limits.Cpu(), s.domain("resources", "limits", "cpu"))
}

func cpuRequestWithinLimit(s subject) []metav1.StatusCause {
	request, limit := s.spec.Domain.Resources.Requests.Cpu(), s.spec.Domain.Resources.Limits.Cpu()
	if limit.MilliValue() <= 0 || request.MilliValue() <= limit.MilliValue() {
		return nil
	}
	p := s.domain("resources", "requests", "cpu")
	return invalid(p, "%s '%s' is greater than %s '%s'", p, request, s.domain("resources", "limits", "cpu"), limit)
}

// dedicatedCPUs: each dedicated CPU is a whole one, and their number is unambiguous.
func dedicatedCPUs(s subject) []metav1.StatusCause {
	if s.spec.Domain.CPU == nil || !s.spec.Domain.CPU.DedicatedCPUPlacement {
		return nil
	}
	return s.apply([]rule{
		{"memory is given", dedicatedMemory},
		{"request is whole", wholeCPURequest},
		{"limit is whole", wholeCPULimit},
		{"memory is guaranteed", guaranteedMemory},
		{"number of CPUs is given", dedicatedCount},
		{"CPUs are guaranteed", guaranteedCPUs},
		{"one number of CPUs", oneNumberOfCPUs},
		{"threads of the architecture", armThreads},
		{"threads", dedicatedThreads},
	})
}

func dedicatedMemory(s subject) []metav1.StatusCause {
	m, r := s.spec.Domain.Memory, s.spec.Domain.Resources
	given := !r.Limits.Memory().IsZero() || !r.Requests.Memory().IsZero() ||
		m != nil && (m.Hugepages != nil || m.Guest != nil && !m.Guest.IsZero())
	if given {
		return nil
	}
	limit := s.domain("resources", "limits", "memory")
	return invalid(limit, "%s, %s, %s or %s should be provided", s.domain("resources", "requests", "memory"), limit,
		s.domain("memory", "hugepages"), s.domain("memory", "guest"))
}

func wholeCPURequest(s subject) []metav1.StatusCause {
	if q := s.spec.Domain.Resources.Requests.Cpu(); q.Value() > 0 && q.Value()*1000 != q.MilliValue() {
		return invalid(s.domain("resources", "requests", "cpu"), "provided resources CPU requests must be an interger")
	}
	return nil
}

func wholeCPULimit(s subject) []metav1.StatusCause {
	if q := s.spec.Domain.Resources.Limits.Cpu(); q.Value() > 0 && q.Value()*1000 != q.MilliValue() {
		return invalid(s.domain("resources", "limits", "cpu"), "provided resources CPU limits must be an interger")
	}
	return nil
}

func guaranteedMemory(s subject) []metav1.StatusCause {
	request, limit := s.spec.Domain.Resources.Requests.Memory().Value(), s.spec.Domain.Resources.Limits.Memory().Value()
	if request <= 0 || limit <= 0 || request == limit {
		return nil
	}
	p := s.domain("resources", "requests", "memory")
	return invalid(p, "%s must be equal to %s", p, s.domain("resources", "limits", "memory"))
}

func (s subject) cpuCounts() (request, limit, topology int64) {
	return s.spec.Domain.Resources.Requests.Cpu().Value(), s.spec.Domain.Resources.Limits.Cpu().Value(),
		vCPUs(s.spec.Domain.CPU)
}

func dedicatedCount(s subject) []metav1.StatusCause {
	if request, limit, topology := s.cpuCounts(); request != 0 || limit != 0 || topology != 0 {
		return nil
	}
	return invalid(s.cpuPath("dedicatedCpuPlacement"),
		"either %s or %s or %s must be provided when DedicatedCPUPlacement is true ",
		s.domain("resources", "requests", "cpu"), s.domain("resources", "limits", "cpu"), s.cpuPath("cores"))
}

func guaranteedCPUs(s subject) []metav1.StatusCause {
	request, limit, _ := s.cpuCounts()
	if request <= 0 || limit <= 0 || request == limit {
		return nil
	}
	return invalid(s.cpuPath("dedicatedCpuPlacement"), "%s or %s must be equal when DedicatedCPUPlacement is true ",
		s.domain("resources", "requests", "cpu"), s.domain("resources", "limits", "cpu"))
}

func oneNumberOfCPUs(s subject) []metav1.StatusCause {
	request, limit, topology := s.cpuCounts()
	if request <= 0 && limit <= 0 || topology == 0 || request == topology || limit == topology {
		return nil
	}
	return invalid(s.cpuPath("dedicatedCpuPlacement"),
		"%s or %s must not be provided at the same time with %s when DedicatedCPUPlacement is true ",
		s.domain("resources", "requests", "cpu"), s.domain("resources", "limits", "cpu"), s.cpuPath("cores"))
}

func armThreads(s subject) []metav1.StatusCause {
	threads := s.spec.Domain.CPU.Threads
	if threads <= 1 || s.architecture() != arm64 {
		return nil
	}
	p := s.path.Child("architecture")
	return invalid(p, "threads must not be greater than 1 at %s (got %d) when %s is arm64", s.cpuPath("threads"),
		threads, p)
}

func dedicatedThreads(s subject) []metav1.StatusCause {
	threads := s.spec.Domain.CPU.Threads
	if threads <= 2 {
		return nil
	}
	return invalid(s.cpuPath("dedicatedCpuPlacement"),
		"Not more than two threads must be provided at %s (got %d) when DedicatedCPUPlacement is true",
		s.cpuPath("threads"), threads)
}

// vCPUs returns the size of a topology; a missing part counts as one, but a wholly missing topology as 0.
func vCPUs(cpu *kubevirtv1.CPU) int64 {
	var n uint32
	for _, part := range []uint32{cpu.Cores, cpu.Sockets, cpu.Threads} {
		switch {
		case part == 0:
		case n == 0:
			n = part
		default:
			n *= part
		}
	}
	return int64(n)
}

func (s subject) guestMapping() bool {
	cpu := s.spec.Domain.CPU
	return cpu != nil && cpu.NUMA != nil && cpu.NUMA.GuestMappingPassthrough != nil
}

func numa(s subject) []metav1.StatusCause {
	if !s.guestMapping() {
		return nil
	}
	p := s.domain("cpu", "numa", "guestMappingPassthrough")
	var causes []metav1.StatusCause
	if !s.spec.Domain.CPU.DedicatedCPUPlacement {
		causes = append(causes, invalid(p, "%s must be set to true when NUMA topology strategy is set in %s",
			s.cpuPath("dedicatedCpuPlacement"), p)...)
	}
	if s.spec.Domain.Memory == nil || s.spec.Domain.Memory.Hugepages == nil {
		causes = append(causes, invalid(p, "%s must be requested when NUMA topology strategy is set in %s",
			s.domain("memory", "hugepages"), p)...)
	}
	return causes
}

func isolatedEmulatorThread(s subject) []metav1.StatusCause {
	if cpu := s.spec.Domain.CPU; cpu == nil || !cpu.IsolateEmulatorThread || cpu.DedicatedCPUPlacement {
		return nil
	}
	return invalid(s.cpuPath("isolateEmulatorThread"),
		"IsolateEmulatorThread should be only set in combination with DedicatedCPUPlacement")
}

func cpuFeatures(s subject) []metav1.StatusCause {
	if s.spec.Domain.CPU == nil {
		return nil
	}
	policies := []string{"", "force", "require", "optional", "disable", "forbid"}
	var causes []metav1.StatusCause
	for i, f := range s.spec.Domain.CPU.Features {
		if !slices.Contains(policies, f.Policy) {
			causes = append(causes, unsupported(s.cpuPath("features").Index(i).Child("policy"),
				"CPU feature %s uses policy %s that is not supported.", f.Name, f.Policy)...)
		}
	}
	return causes
}

const tooManySockets = "Number of sockets in CPU topology is greater than the maximum sockets allowed"

func sockets(s subject) []metav1.StatusCause {
	cpu := s.spec.Domain.CPU
	if cpu == nil || cpu.MaxSockets == 0 || cpu.Sockets <= cpu.MaxSockets {
		return nil
	}
	return invalid(s.cpuPath("sockets"), tooManySockets)
}

func realtime(s subject) []metav1.StatusCause {
	if s.spec.Domain.CPU == nil || s.spec.Domain.CPU.Realtime == nil {
		return nil
	}
	var causes []metav1.StatusCause
	if p := s.cpuPath("dedicatedCpuPlacement"); !s.spec.Domain.CPU.DedicatedCPUPlacement {
		causes = append(causes, required(p, "%s must be set to true when %s is used", p, s.cpuPath("realtime"))...)
	}
	if p := s.domain("cpu", "numa", "guestMappingPassthrough"); !s.guestMapping() {
		causes = append(causes, required(p, "%s must be defined when %s is used", p, s.cpuPath("realtime"))...)
	}
	return causes
}
