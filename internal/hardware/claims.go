package hardware

import (
	"fmt"
	"iter"

	kubevirt "kubevirt.io/api/core/v1"
)

// ClaimRequests returns the requests of ResourceClaims (dynamic resource allocation) whose devices a guest gets, each
// with the field of the spec that names it. A network's is its resourceClaim.
func ClaimRequests(spec *kubevirt.VirtualMachineInstanceSpec) iter.Seq2[string, kubevirt.ClaimRequest] {
	return func(yield func(string, kubevirt.ClaimRequest) bool) {
		one := func(field string, i int, r *kubevirt.ClaimRequest) bool {
			return r == nil || yield(fmt.Sprintf(field, i), *r)
		}
		for i := range spec.Domain.Devices.GPUs {
			if !one("domain.devices.gpus[%d]", i, spec.Domain.Devices.GPUs[i].ClaimRequest) {
				return
			}
		}
		for i := range spec.Domain.Devices.HostDevices {
			if !one("domain.devices.hostDevices[%d]", i, spec.Domain.Devices.HostDevices[i].ClaimRequest) {
				return
			}
		}
		for i := range spec.Networks {
			if !one("networks[%d].resourceClaim", i, spec.Networks[i].ResourceClaim) {
				return
			}
		}
	}
}
