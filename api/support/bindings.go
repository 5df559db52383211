package support

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/bindings"
)

// BindingPlugins returns a cause for each field of a configured binding plugin that is not supported.
func BindingPlugins(c *kubevirtv1.KubeVirtConfiguration) []metav1.StatusCause {
	plugins := bindings.From(c)
	var causes []metav1.StatusCause
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		plugin := plugins[name]
		for _, p := range bindings.Problems(&plugin) {
			field := fmt.Sprintf("spec.configuration.network.binding[%s].%s", name, p.Field)
			causes = append(causes, metav1.StatusCause{
				Type: metav1.CauseTypeFieldValueNotSupported, Field: field, Message: field + ": " + p.Why,
			})
		}
	}
	return causes
}

// Bindings returns a cause for each interface whose binding plugin the KubeVirt object does not configure, or
// configures in a way that is not supported: no launcher pod would be created. The prefix is the path of the spec.
func Bindings(
	spec *kubevirtv1.VirtualMachineInstanceSpec, c *kubevirtv1.KubeVirtConfiguration, prefix string,
) []metav1.StatusCause {
	plugins := bindings.From(c)
	var causes []metav1.StatusCause
	for i := range spec.Domain.Devices.Interfaces {
		b := spec.Domain.Devices.Interfaces[i].Binding
		if b == nil {
			continue
		}
		_, err := plugins.Attachment(b.Name)
		if at := slices.IndexFunc(spec.Networks, func(n kubevirtv1.Network) bool {
			return n.Name == spec.Domain.Devices.Interfaces[i].Name && n.ResourceClaim != nil
		}); err == nil && at >= 0 {
			err = fmt.Errorf("a binding plugin cannot connect the device of %s.networks[%d].resourceClaim: use sriov", prefix, at)
		}
		if err != nil {
			field := fmt.Sprintf("%s.domain.devices.interfaces[%d].binding.name", prefix, i)
			causes = append(causes, metav1.StatusCause{
				Type: metav1.CauseTypeFieldValueNotSupported, Field: field, Message: field + ": " + err.Error(),
			})
		}
	}
	return causes
}
