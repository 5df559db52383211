package validation

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtflow/virtflow/internal/defaults"
)

// leastMemory is the least that a pod for a guest may request; less is probably a wrong unit.
const leastMemory = 1_000_000

// checkNotNegative refuses a quantity below 0.
func checkNotNegative(q *resource.Quantity, p *field.Path) []metav1.StatusCause {
	if q.Value() < 0 {
		return invalid(p, "%s '%s': must be greater than or equal to 0.", p, q)
	}
	return nil
}

func negativeMilli(q *resource.Quantity, p *field.Path) []metav1.StatusCause {
	if q.MilliValue() < 0 {
		return invalid(p, "%s '%s': must be greater than or equal to 0.", p, q)
	}
	return nil
}

func memoryRequest(s subject) []metav1.StatusCause {
	request := s.spec.Domain.Resources.Requests.Memory()
	p := s.domain("resources", "requests", "memory")
	if request.Value() > 0 && request.Cmp(*resource.NewQuantity(leastMemory, resource.DecimalSI)) < 0 {
		return invalid(p, "%s '%s': must be greater than or equal to 1M.", p, request)
	}
	return checkNotNegative(request, p)
}

func memoryLimit(s subject) []metav1.StatusCause {
	request, limit := s.spec.Domain.Resources.Requests.Memory(), s.spec.Domain.Resources.Limits.Memory()
	p, limitPath := s.domain("resources", "requests", "memory"), s.domain("resources", "limits", "memory")
	if limit.Value() > 0 && request.Value() > limit.Value() {
		return invalid(p, "%s '%s' is greater than %s '%s'", p, request, limitPath, limit)
	}
	return checkNotNegative(limit, limitPath)
}

// hugepages: the memory is a multiple of the page size.
func hugepages(s subject) []metav1.StatusCause {
	m := s.spec.Domain.Memory
	if m == nil || m.Hugepages == nil {
		return nil
	}
	sizePath := s.domain("memory", "hugepages", "pageSize")
	size, err := resource.ParseQuantity(m.Hugepages.PageSize)
	if err != nil {
		return invalid(sizePath, "%s '%s': %s", sizePath, m.Hugepages.PageSize, resource.ErrFormatWrong)
	}
	request := s.spec.Domain.Resources.Requests.Memory()
	memory := request.Value()
	if memory == 0 && m.Guest != nil {
		memory = m.Guest.Value()
	}
	if memory == 0 {
		memory = s.spec.Domain.Resources.Limits.Memory().Value()
	}
	p := s.domain("resources", "requests", "memory")
	switch {
	case memory != 0 && memory < size.Value():
		return invalid(p, "%s '%s' must be equal to or larger than page size %s '%s'", p, request, sizePath,
			m.Hugepages.PageSize)
	case size.Value() == 0 || memory%size.Value() != 0: // a page of nothing fits nowhere
		return invalid(p, "%s '%s' is not a multiple of the page size %s '%s'", p, request, sizePath,
			m.Hugepages.PageSize)
	}
	return nil
}

// guestMemoryLimit: if memory can be hot-plugged, the limit must cover the guest's.
func guestMemoryLimit(s subject) []metav1.StatusCause {
	m := s.spec.Domain.Memory
	if s.cluster.LiveUpdate() || m == nil || m.Guest == nil {
		return nil
	}
	limit := s.spec.Domain.Resources.Limits.Memory()
	if limit.Value() == 0 || limit.Value() >= m.Guest.Value() {
		return nil
	}
	p := s.domain("memory", "guest")
	return invalid(p, "%s '%s' must be equal to or less than the memory limit %s '%s'", p, m.Guest,
		s.domain("resources", "limits", "memory"), limit)
}

func someMemory(s subject) []metav1.StatusCause {
	m := s.spec.Domain.Memory
	if m != nil && (m.Guest != nil || m.Hugepages != nil) || s.spec.Domain.Resources.Requests.Memory().Value() != 0 {
		return nil
	}
	return required(nowhere{}, "no memory requested, at least one of '%s', '%s' or '%s' must be set",
		s.domain("memory", "guest"),
		s.domain("memory", "hugepages", "pageSize"), s.domain("resources", "requests", "memory"))
}

// guestMemory: KubeVirt checks only the pod's request, and less than this does not boot here either.
func guestMemory(s subject) []metav1.StatusCause {
	m := s.spec.Domain.Memory
	if m == nil || m.Guest == nil || m.Guest.Value() >= leastMemory {
		return nil
	}
	p := s.domain("memory", "guest")
	return invalid(p, "%s '%s': must be greater than or equal to 1M.", p, m.Guest)
}

func reservedOverhead(s subject) []metav1.StatusCause {
	if m := s.spec.Domain.Memory; m == nil || m.ReservedOverhead == nil ||
		s.cluster.Enabled(defaults.GateReservedOverhead) {
		return nil
	}
	return invalid(s.domain("memory", "reservedOverhead"),
		"Reserved overhead memlock feature gate is not enabled in kubevirt-config")
}
