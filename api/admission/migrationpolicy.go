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

// validateMigrationPolicy answers as KubeVirt does. The schema of a policy is its definition's: the API server has
// looked at it before.
func (h *handler) validateMigrationPolicy(ctx context.Context, req admission.Request) admission.Response {
	if req.Resource.Group != migrations.GroupName || req.Resource.Resource != migrations.ResourceMigrationPolicies {
		return bad(fmt.Errorf("unexpected resource %+v", req.Resource))
	}
	policy := &v1alpha1.MigrationPolicy{}
	if err := json.Unmarshal(req.Object.Raw, policy); err != nil {
		return bad(err)
	}
	var old *v1alpha1.MigrationPolicy
	if req.Operation == admissionv1.Update {
		if err := json.Unmarshal(req.OldObject.Raw, &old); err != nil {
			return bad(err)
		}
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return bad(err)
	}
	if causes := validation.MigrationPolicy(old, policy, cluster); len(causes) > 0 {
		return refused(causes)
	}
	return answer(validation.OwnMigrationPolicy(policy))
}
