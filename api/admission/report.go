package admission

import (
	"context"
	"encoding/json"

	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/contract"
)

// Reports reports to a workflow the name of the user who has requested a change of its object. It must be safe for
// concurrent use, and not wait: nothing depends on its outcome.
type Reports interface {
	Report(workflow string, r contract.RequestReport)
}

// report reports to the object's workflow the name of the user who deletes or scales it. It never refuses. A dry run is
// not reported.
func (h *handler) report(_ context.Context, req admission.Request) admission.Response {
	if h.Reports == nil || h.isOwnCall(req) || req.DryRun != nil && *req.DryRun {
		return admission.Allowed("")
	}
	if id, r, ok := h.reportOf(req); ok {
		h.Reports.Report(id, r)
	}
	return admission.Allowed("")
}

// reportOf returns the workflow and the report for a request; false if there is none.
func (h *handler) reportOf(req admission.Request) (workflow string, r contract.RequestReport, ok bool) {
	r = contract.RequestReport{Actor: req.UserInfo.Username}
	id := map[string]func(namespace, name string) string{
		h.vm.resource: contract.VMID, h.vmi.resource: contract.VMIID, h.vmirs.resource: contract.ReplicaSetID,
		h.vmim.resource: contract.MigrationID,
	}[req.Resource.Resource]
	if id == nil || r.Actor == "" {
		return "", r, false
	}
	// The deletion of a collection has no name in the request, and a scale's version is that of the object: so the old
	// object has them.
	var old struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(req.OldObject.Raw, &old); err != nil || old.Metadata.Name == "" {
		return "", r, false
	}
	r.UID, r.ResourceVersion = string(old.Metadata.UID), old.Metadata.ResourceVersion
	switch {
	case req.Operation == admissionv1.Delete && req.SubResource == "":
		if old.Metadata.DeletionTimestamp != nil {
			return "", r, false // it is being deleted already: another request changes nothing
		}
		// The annotation of a set does not name the user who has scaled it since.
		if r.Actor == old.Metadata.Annotations[contract.AnnotationRequestedBy] &&
			req.Resource.Resource != h.vmirs.resource {
			return "", r, false // the workflow assumes that user, unless another one is reported
		}
		r.Operation = contract.OperationDelete
	case req.Operation == admissionv1.Update && req.SubResource == "scale" && req.Resource.Resource == h.vmirs.resource:
		scale := &autoscalingv1.Scale{}
		if err := json.Unmarshal(req.Object.Raw, scale); err != nil {
			return "", r, false
		}
		r.Operation, r.Replicas = contract.OperationReplicate, int(scale.Spec.Replicas)
	default:
		return "", r, false
	}
	return id(old.Metadata.Namespace, old.Metadata.Name), r, true
}
