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
	// Status is part of the main resource here, so it is this webhook that keeps users from writing it.
	if !h.own(req) && !equality.Semantic.DeepEqual(vmi.Status, old.Status) {
		parts = append(parts, part{"status", old.Status})
	}
	return patched(parts...)
}

func (h *handler) createVMI(
	ctx context.Context, req admission.Request, vmi *kubevirtv1.VirtualMachineInstance,
) admission.Response {
	if !h.own(req) {
		vmi.Status = kubevirtv1.VirtualMachineInstanceStatus{}
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return bad(err)
	}
	if err := defaults.CreateVMI(vmi, cluster, h.Now()); err != nil {
		return bad(err)
	}
	h.recordRequest(req, &vmi.ObjectMeta, nil, true)
	return patched(part{"spec", vmi.Spec}, part{"metadata", vmi.ObjectMeta}, part{"status", vmi.Status}).
		WithWarnings(presetWarnings(vmi.Annotations)...)
}

// presetWarnings are for an instance that says that a preset was applied to it: those are going away, and virtflow has
// none.
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
		return bad(err)
	}
	if causes := validation.VMI(vmi, cluster, h.own(req)); len(causes) > 0 {
		return refused(causes)
	}
	causes, err := instanceNotRunYet(&vmi.ObjectMeta, &vmi.Spec, "")
	if err != nil {
		return bad(err)
	}
	if len(causes) > 0 {
		return refused(causes)
	}
	return answer(validation.OwnVMI(vmi, cluster, h.own(req)))
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
		return bad(err)
	}
	return answer(firstOf(
		func() []metav1.StatusCause { return h.fromNode(req, old, vmi, cluster) },
		func() []metav1.StatusCause { return validation.VMIUpdate(old, vmi, cluster, h.own(req)) },
	))
}

// extraNodeName is where the API server says which node a service account's token is bound to.
const extraNodeName = "authentication.kubernetes.io/node-name"

// fromNode keeps an account that speaks for a node to the instances of that node.
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
