package admission

import (
	"context"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/api/validation"
	"github.com/virtflow/virtflow/internal/defaults"
	"github.com/virtflow/virtflow/internal/migratable"
)

func (h *handler) mutateVMI(ctx context.Context, req admission.Request) admission.Response {
	vmi, old, end := h.vmi.read(req)
	switch {
	case end != nil:
		return *end
	case req.Operation == admissionv1.Create:
		return h.createVMI(ctx, req, vmi)
	case old == nil:
		return admission.Allowed("")
	}
	var parts []part
	before := vmi.ObjectMeta.DeepCopy()
	h.recordRequest(req, &vmi.ObjectMeta, &old.ObjectMeta, false)
	if !equality.Semantic.DeepEqual(before, &vmi.ObjectMeta) {
		parts = append(parts, part{"metadata", vmi.ObjectMeta})
	}
	if h.isAppliedAgain(ctx, req, vmi, old) {
		parts = append(parts, part{"spec", old.Spec})
	}
	// Status is part of the main resource here, so this webhook keeps users from writing it.
	if !h.isOwnCall(req) && !equality.Semantic.DeepEqual(vmi.Status, old.Status) {
		parts = append(parts, part{"status", old.Status})
	}
	return patchResponse(parts...)
}

// isAppliedAgain reports whether a user's update lacks no more than defaults of the instance. An apply of its manifest
// does: it replaces lists whole, and the defaults within their elements. KubeVirt refuses that as a change of the spec.
func (h *handler) isAppliedAgain(
	ctx context.Context, req admission.Request, vmi, old *kubevirtv1.VirtualMachineInstance,
) bool {
	if h.isOwnCall(req) || equality.Semantic.DeepEqual(vmi.Spec, old.Spec) {
		return false
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return false // the validating webhook answers that
	}
	filled := vmi.DeepCopy()
	return defaults.Instance(filled, cluster) == nil && equality.Semantic.DeepEqual(filled.Spec, old.Spec)
}

func (h *handler) createVMI(
	ctx context.Context, req admission.Request, vmi *kubevirtv1.VirtualMachineInstance,
) admission.Response {
	if !h.isOwnCall(req) {
		vmi.Status = kubevirtv1.VirtualMachineInstanceStatus{}
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return badRequest(err)
	}
	if err := defaults.CreateVMI(vmi, cluster, h.Now()); err != nil {
		return badRequest(err)
	}
	h.recordRequest(req, &vmi.ObjectMeta, nil, true)
	return patchResponse(part{"spec", vmi.Spec}, part{"metadata", vmi.ObjectMeta}, part{"status", vmi.Status}).
		WithWarnings(presetWarnings(vmi.Annotations)...)
}

// presetWarnings warns about an instance to which a preset was applied: those are deprecated, and virtflow has none.
func presetWarnings(annotations map[string]string) []string {
	for name := range annotations {
		if strings.Contains(name, "virtualmachinepreset") {
			return []string{"kubevirt.io/v1 VirtualMachineInstancePresets is now deprecated and will be removed in v2."}
		}
	}
	return nil
}

func (h *handler) validateVMI(ctx context.Context, req admission.Request) admission.Response {
	vmi, _, end := h.vmi.read(req)
	if end != nil {
		return *end
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return badRequest(err)
	}
	if causes := validation.VMI(vmi, cluster, h.isOwnCall(req)); len(causes) > 0 {
		return refusal(causes)
	}
	causes, err := instanceNotRunYet(&vmi.ObjectMeta, &vmi.Spec, cluster, "")
	if err != nil {
		return badRequest(err)
	}
	if len(causes) > 0 {
		return refusal(causes)
	}
	return answer(validation.OwnVMI(vmi, cluster, h.isOwnCall(req)),
		moveWarnings(&vmi.ObjectMeta, &vmi.Spec, cluster)...)
}

// moveWarnings are for an instance, or a template for instances, whose user believes that it can be moved.
func moveWarnings(
	m *metav1.ObjectMeta, spec *kubevirtv1.VirtualMachineInstanceSpec, cluster defaults.Cluster,
) []string {
	if len(m.Annotations) == 0 {
		return nil
	}
	expanded := spec.DeepCopy()
	if err := defaults.Spec(expanded, cluster); err != nil {
		return nil // admission refuses it
	}
	return migratable.Warnings(m.Annotations, expanded)
}

func (h *handler) validateVMIUpdate(ctx context.Context, req admission.Request) admission.Response {
	vmi, old, end := h.vmi.read(req)
	switch {
	case end != nil:
		return *end
	case old == nil:
		return admission.Allowed("")
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return badRequest(err)
	}
	return answer(firstOf(
		func() []metav1.StatusCause { return h.fromNode(req, old, vmi, cluster) },
		func() []metav1.StatusCause { return validation.VMIUpdate(old, vmi, cluster, h.isOwnCall(req)) },
	))
}

// extraNodeName is the user's extra field with the node to which a service account's token is bound.
const extraNodeName = "authentication.kubernetes.io/node-name"

// fromNode limits an account that acts for a node to the instances of that node.
func (h *handler) fromNode(
	req admission.Request, old, vmi *kubevirtv1.VirtualMachineInstance, cluster defaults.Cluster,
) []metav1.StatusCause {
	if !slices.Contains(h.Nodes, req.UserInfo.Username) || !cluster.Enabled(defaults.GateNodeRestriction) {
		return nil
	}
	node := ""
	if names := req.UserInfo.Extra[extraNodeName]; len(names) > 0 {
		node = names[0]
	}
	return validation.FromNode(node, old, vmi)
}
