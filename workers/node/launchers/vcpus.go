package launchers

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// cpuSpec has what decides how many virtual CPUs a VMI may have.
type cpuSpec struct {
	CPU struct {
		Sockets    uint32 `json:"sockets"`
		MaxSockets uint32 `json:"maxSockets"`
		Cores      uint32 `json:"cores"`
		Threads    uint32 `json:"threads"`
	} `json:"cpu"`
	Resources struct {
		Limits   cpuResource `json:"limits"`
		Requests cpuResource `json:"requests"`
	} `json:"resources"`
}

type cpuResource struct {
	CPU resource.Quantity `json:"cpu"`
}

// mostVCPUs returns how many virtual CPUs the guest may have, present and hot-pluggable, as package launcher/domain
// builds it: if the spec has no topology, the sockets are the CPU limit or request, rounded up. It is at most
// rpc.MaxVCPUs.
func (s *cpuSpec) mostVCPUs() uint32 {
	c := s.CPU
	sockets := uint64(max(1, c.Sockets))
	if c.Sockets == 0 && c.Cores == 0 && c.Threads == 0 {
		if limit := s.Resources.Limits.CPU.Value(); limit > 0 {
			sockets = uint64(limit)
		} else if request := s.Resources.Requests.CPU.Value(); request > 0 {
			sockets = uint64(request)
		}
	}
	n := uint64(1)
	for _, factor := range []uint64{max(sockets, uint64(c.MaxSockets)), uint64(c.Cores), uint64(c.Threads)} {
		n = min(n*max(1, min(factor, rpc.MaxVCPUs)), rpc.MaxVCPUs)
	}
	return uint32(n)
}
