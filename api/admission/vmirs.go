package admission

import (
	"context"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/api/validation"
	"github.com/virtflow/virtflow/internal/defaults"
	"github.com/virtflow/virtflow/workflows/contract"
)

// mutateVMIRS fills in what is there one way or another, so that users see it, and records who asks.
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
	case h.own(req):
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
	return patched(part{"spec", set.Spec}, part{"metadata", set.ObjectMeta})
}

// requestedGeneration writes which generation the record of who asked speaks of.
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
		return bad(err)
	}
	if causes := validation.ReplicaSet(set, cluster); len(causes) > 0 {
		return refused(causes)
	}
	if old != nil && equality.Semantic.DeepEqual(old.Spec, set.Spec) {
		return admission.Allowed("") // what it asks for is there already
	}
	causes, err := setNotRunYet(set, cluster)
	if err != nil {
		return bad(err)
	}
	return answer(causes)
}

// setNotRunYet says what of a set's instances is not supported yet, or, if all of it is, what could never start.
func setNotRunYet(
	set *kubevirtv1.VirtualMachineInstanceReplicaSet, cluster defaults.Cluster,
) ([]metav1.StatusCause, error) {
	expanded := &kubevirtv1.VirtualMachineInstance{}
	set.Spec.Template.Spec.DeepCopyInto(&expanded.Spec)
	if err := defaults.Instance(expanded, cluster); err != nil {
		return nil, err
	}
	causes, err := instanceNotRunYet(&set.Spec.Template.ObjectMeta, &expanded.Spec, "spec.template.")
	if err != nil || len(causes) > 0 {
		return causes, err
	}
	return validation.OwnReplicaSet(set, &expanded.Spec, cluster), nil
}
