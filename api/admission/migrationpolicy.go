package admission

import (
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	"kubevirt.io/api/migrations"
	"kubevirt.io/api/migrations/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/api/validation"
)

// validateMigrationPolicy answers as KubeVirt does. The API server has already checked the policy against the schema of
// its definition.
func (h *handler) validateMigrationPolicy(ctx context.Context, req admission.Request) admission.Response {
	if req.Resource.Group != migrations.GroupName || req.Resource.Resource != migrations.ResourceMigrationPolicies {
		return badRequest(fmt.Errorf("unexpected resource %+v", req.Resource))
	}
	policy := &v1alpha1.MigrationPolicy{}
	if err := json.Unmarshal(req.Object.Raw, policy); err != nil {
		return badRequest(err)
	}
	var old *v1alpha1.MigrationPolicy
	if req.Operation == admissionv1.Update {
		if err := json.Unmarshal(req.OldObject.Raw, &old); err != nil {
			return badRequest(err)
		}
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return badRequest(err)
	}
	if causes := validation.MigrationPolicy(old, policy, cluster); len(causes) > 0 {
		return refusal(causes)
	}
	return answer(validation.OwnMigrationPolicy(policy))
}
