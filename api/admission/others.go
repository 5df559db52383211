package admission

import (
	"context"

	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/api/support"
	"github.com/virtflow/virtflow/api/validation"
	"github.com/virtflow/virtflow/internal/defaults"
)

// validateKubeVirt keeps settings out of the configuration object that would do nothing.
func (h *handler) validateKubeVirt(_ context.Context, req admission.Request) admission.Response {
	kv, err := decode[kubevirtv1.KubeVirt](req.Object.Raw, "KubeVirt")
	if err != nil {
		return bad(err)
	}
	if kv.DeletionTimestamp != nil {
		return admission.Allowed("")
	}
	causes, err := support.Check(kv.Spec, support.Configuration(), "spec")
	if err != nil {
		return bad(err)
	}
	causes = append(causes, support.HostDevices(kv.Spec.Configuration.PermittedHostDevices)...)
	causes = append(causes, validation.MigrationConfiguration(kv.Spec.Configuration.MigrationConfiguration)...)
	causes = append(causes, validation.MachineConfiguration(&kv.Spec.Configuration)...)
	return answer(causes, gateWarnings(kv)...)
}

// gateWarnings are for gates that say nothing any more.
func gateWarnings(kv *kubevirtv1.KubeVirt) []string {
	developer := kv.Spec.Configuration.DeveloperConfiguration
	if developer == nil {
		return nil
	}
	var out []string
	for _, gate := range developer.FeatureGates {
		if w := defaults.GateWarning(gate); w != "" {
			out = append(out, w)
		}
	}
	return out
}
