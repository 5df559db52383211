package admission

import (
	"context"
	"reflect"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/api/defaults"
	"github.com/virtflow/virtflow/api/support"
	"github.com/virtflow/virtflow/api/validation"
	"github.com/virtflow/virtflow/workflows/contract"
)

// mutateVMIRS fills in what is there one way or another, so that users see it, and records who asks.
func (h *handler) mutateVMIRS(_ context.Context, req admission.Request) admission.Response {
	set, err := decode[kubevirtv1.VirtualMachineInstanceReplicaSet](req.Object.Raw, "VirtualMachineInstanceReplicaSet")
	if err != nil {
		return bad(err)
	}
	if set.DeletionTimestamp != nil {
		return admission.Allowed("")
	}
	if set.Spec.Replicas == nil {
		one := int32(1)
		set.Spec.Replicas = &one
	}
	if h.own(req) {
		return patched(req, set)
	}
	if req.Operation == admissionv1.Create {
		h.recordRequest(req, &set.ObjectMeta, nil, true)
		requestedGeneration(&set.ObjectMeta, "1")
		return patched(req, set)
	}
	old, err := decode[kubevirtv1.VirtualMachineInstanceReplicaSet](req.OldObject.Raw, "the VirtualMachineInstanceReplicaSet as it was")
	if err != nil {
		return bad(err)
	}
	wish := !reflect.DeepEqual(old.Spec, set.Spec)
	h.recordRequest(req, &set.ObjectMeta, &old.ObjectMeta, wish)
	generation := old.Annotations[contract.AnnotationRequestedGeneration]
	if wish { // the API server counts it afterwards
		generation = strconv.FormatInt(old.Generation+1, 10)
	}
	requestedGeneration(&set.ObjectMeta, generation)
	return patched(req, set)
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
	set, err := decode[kubevirtv1.VirtualMachineInstanceReplicaSet](req.Object.Raw, "VirtualMachineInstanceReplicaSet")
	if err != nil {
		return bad(err)
	}
	if set.DeletionTimestamp != nil {
		return admission.Allowed("")
	}
	if req.Operation == admissionv1.Update {
		old, err := decode[kubevirtv1.VirtualMachineInstanceReplicaSet](req.OldObject.Raw, "the VirtualMachineInstanceReplicaSet as it was")
		if err != nil {
			return bad(err)
		}
		if reflect.DeepEqual(old.Spec, set.Spec) {
			return admission.Allowed("") // labels, annotations and finalizers are the user's own
		}
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return bad(err)
	}
	causes, err := vmirsCauses(set, cluster)
	if err != nil {
		return bad(err)
	}
	return answer(causes)
}

// vmirsCauses checks a set and the instances that it would make: first what KubeVirt would refuse, then what is not supported yet.
func vmirsCauses(set *kubevirtv1.VirtualMachineInstanceReplicaSet, cluster defaults.Cluster) ([]metav1.StatusCause, error) {
	expanded := &kubevirtv1.VirtualMachineInstance{}
	if set.Spec.Template != nil {
		set.Spec.Template.Spec.DeepCopyInto(&expanded.Spec)
		if err := expandSpec(expanded, cluster); err != nil {
			return nil, err
		}
	}
	if causes := validation.ReplicaSet(set, &expanded.Spec, cluster); len(causes) > 0 {
		return causes, nil
	}
	causes, err := support.Check(expanded.Spec, support.VMISpec(), "spec.template.spec")
	if err != nil {
		return nil, err
	}
	causes = append(causes, support.Combinations(&expanded.Spec, "spec.template.spec")...)
	return append(causes, validation.Startable(&expanded.Spec)...), nil
}
