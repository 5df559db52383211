package admission

import (
	"context"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/api/validation"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/defaults"
)

// mutateVMIRS fills in the defaults that apply in any case, so that users see them, and records the user.
func (h *handler) mutateVMIRS(_ context.Context, req admission.Request) admission.Response {
	set, old, end := h.vmirs.read(req)
	if end != nil {
		return *end
	}
	if set.DeletionTimestamp != nil {
		if old == nil {
			return admission.Allowed("")
		}
		return h.keepRecord(req, &set.ObjectMeta, &old.ObjectMeta)
	}
	if set.Spec.Replicas == nil {
		one := int32(1)
		set.Spec.Replicas = &one
	}
	switch {
	case h.isOwnCall(req):
	case old == nil:
		h.recordRequest(req, &set.ObjectMeta, nil, true)
		requestedGeneration(&set.ObjectMeta, "1")
	default:
		changed := !equality.Semantic.DeepEqual(old.Spec, set.Spec)
		h.recordRequest(req, &set.ObjectMeta, &old.ObjectMeta, changed)
		generation := old.Annotations[contract.AnnotationRequestedGeneration]
		if changed { // the API server counts it afterwards
			generation = strconv.FormatInt(old.Generation+1, 10)
		}
		requestedGeneration(&set.ObjectMeta, generation)
	}
	return patchResponse(part{"spec", set.Spec}, part{"metadata", set.ObjectMeta})
}

// requestedGeneration records the generation to which the recorded user belongs.
func requestedGeneration(object *metav1.ObjectMeta, generation string) {
	if generation == "" || object.Annotations[contract.AnnotationRequestedBy] == "" {
		delete(object.Annotations, contract.AnnotationRequestedGeneration)
		return
	}
	object.Annotations[contract.AnnotationRequestedGeneration] = generation
}

func (h *handler) validateVMIRS(ctx context.Context, req admission.Request) admission.Response {
	set, old, end := h.vmirs.read(req)
	if end != nil {
		return *end
	}
	if set.DeletionTimestamp != nil {
		return admission.Allowed("")
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return badRequest(err)
	}
	if causes := validation.ReplicaSet(set, cluster); len(causes) > 0 {
		return refusal(causes)
	}
	if old != nil && equality.Semantic.DeepEqual(old.Spec, set.Spec) {
		return admission.Allowed("") // what it asks for is there already
	}
	causes, err := setNotRunYet(set, cluster)
	if err != nil {
		return badRequest(err)
	}
	return answer(causes, moveWarnings(&set.Spec.Template.ObjectMeta, &set.Spec.Template.Spec, cluster)...)
}

// setNotRunYet returns causes for parts of a set's instances that are not supported yet, or, if there are none, for
// those that could never start.
func setNotRunYet(
	set *kubevirtv1.VirtualMachineInstanceReplicaSet, cluster defaults.Cluster,
) ([]metav1.StatusCause, error) {
	expanded := &kubevirtv1.VirtualMachineInstance{}
	set.Spec.Template.Spec.DeepCopyInto(&expanded.Spec)
	if err := defaults.Instance(expanded, cluster); err != nil {
		return nil, err
	}
	causes, err := instanceNotRunYet(&set.Spec.Template.ObjectMeta, &expanded.Spec, cluster, "spec.template.")
	if err != nil || len(causes) > 0 {
		return causes, err
	}
	return validation.OwnReplicaSet(set, &expanded.Spec, cluster), nil
}
