package hardware

import (
	"fmt"
	"iter"

	kubevirt "kubevirt.io/api/core/v1"
)

// ClaimRequests are the requests of resource claims (dynamic resource allocation) whose devices a guest gets, each with
// the field that asks for it.
func ClaimRequests(spec *kubevirt.VirtualMachineInstanceSpec) iter.Seq2[string, kubevirt.ClaimRequest] {
	return func(yield func(string, kubevirt.ClaimRequest) bool) {
		one := func(field string, i int, r *kubevirt.ClaimRequest) bool {
			return r == nil || yield(fmt.Sprintf("spec.%s[%d]", field, i), *r)
		}
		for i := range spec.Domain.Devices.GPUs {
			if !one("domain.devices.gpus", i, spec.Domain.Devices.GPUs[i].ClaimRequest) {
				return
			}
		}
		for i := range spec.Domain.Devices.HostDevices {
			if !one("domain.devices.hostDevices", i, spec.Domain.Devices.HostDevices[i].ClaimRequest) {
				return
			}
		}
		for i := range spec.Networks {
			if !one("networks", i, spec.Networks[i].ResourceClaim) {
				return
			}
		}
	}
}
