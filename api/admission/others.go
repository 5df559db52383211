package admission

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/api/support"
	"github.com/virtflow/virtflow/api/validation"
)

// validateKubeVirt keeps settings out of the configuration object that would do nothing, and asks for those without
// which KubeVirt's defaults would ask for something that is not supported yet.
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
	causes = append(causes, neededConfiguration(&kv.Spec.Configuration)...)
	return answer(append(causes, validation.MigrationConfiguration(kv.Spec.Configuration.MigrationConfiguration)...))
}

func neededConfiguration(c *kubevirtv1.KubeVirtConfiguration) []metav1.StatusCause {
	path := field.NewPath("spec", "configuration")
	var causes []metav1.StatusCause
	need := func(p *field.Path, value, why string) {
		causes = append(causes, metav1.StatusCause{
			Type: metav1.CauseTypeFieldValueRequired, Field: p.String(),
			Message: p.String() + " must be " + value + ": " + why + " is not supported yet",
		})
	}
	if c.NetworkConfiguration == nil || c.NetworkConfiguration.NetworkInterface == "" {
		need(path.Child("network", "defaultNetworkInterface"), "masquerade", "bridge (the default)")
	}
	return causes
}
