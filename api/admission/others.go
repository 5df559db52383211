package admission

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/api/support"
	"github.com/virtflow/virtflow/internal/defaults"
)

// validateKubeVirt refuses settings in the configuration object that would change what guests get, and do not. It warns
// of settings of KubeVirt's operator, which has nothing to do here.
func (h *handler) validateKubeVirt(_ context.Context, req admission.Request) admission.Response {
	kv, err := decode[kubevirtv1.KubeVirt](req.Object.Raw, "KubeVirt")
	if err != nil {
		return badRequest(err)
	}
	if kv.DeletionTimestamp != nil {
		return admission.Allowed("")
	}
	unlisted, err := support.Check(kv.Spec, support.Configuration(), "spec")
	if err != nil {
		return badRequest(err)
	}
	causes, warnings := []metav1.StatusCause{}, append(gateWarnings(kv), networkWarnings(kv)...)
	for _, c := range unlisted {
		if why := support.WhyNoEffect(strings.TrimPrefix(c.Field, "spec.")); why != "" {
			warnings = append(warnings, c.Field+" has no effect: "+why)
		} else {
			causes = append(causes, c)
		}
	}
	return answer(append(causes, support.InvalidConfiguration(&kv.Spec.Configuration)...), warnings...)
}

// networkWarnings warns of a network for migrations: in KubeVirt, the operator adds it to the pods that need it.
func networkWarnings(kv *kubevirtv1.KubeVirt) []string {
	m := kv.Spec.Configuration.MigrationConfiguration
	if m == nil || m.Network == nil || *m.Network == "" {
		return nil
	}
	return []string{"spec.configuration.migrations.network: no operator adds this network to the pods of node workers, " +
		"and guests move only between nodes whose node worker has it as migration0: annotate them, as deploy/migration-network does"}
}

// gateWarnings returns warnings for gates that have no effect.
func gateWarnings(kv *kubevirtv1.KubeVirt) []string {
	developer := kv.Spec.Configuration.DeveloperConfiguration
	if developer == nil {
		return nil
	}
	var out []string
	for _, gate := range developer.FeatureGates {
		out = append(out, defaults.GateWarning(gate))
	}
	for _, gate := range developer.DisabledFeatureGates {
		out = append(out, defaults.DisabledGateWarning(gate))
	}
	return slices.DeleteFunc(out, func(w string) bool { return w == "" })
}
