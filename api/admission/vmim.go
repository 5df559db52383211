package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/virtflow/virtflow/api/validation"
	"github.com/virtflow/virtflow/internal/observe"
)

// mutateVMIM sets the label by which a migration is found, the finalizer that keeps it until it has ended, and its
// user.
func (h *handler) mutateVMIM(_ context.Context, req admission.Request) admission.Response {
	m, old, end := h.vmim.read(req)
	switch {
	case end != nil:
		return *end
	case req.Operation == admissionv1.Update && old == nil:
		return admission.Allowed("")
	case old != nil:
		return h.keepRecord(req, &m.ObjectMeta, &old.ObjectMeta)
	}
	metav1.SetMetaDataLabel(&m.ObjectMeta, kubevirtv1.MigrationSelectorLabel, observe.NameLabel(m.Spec.VMIName))
	if !slices.Contains(m.Finalizers, kubevirtv1.VirtualMachineInstanceMigrationFinalizer) {
		m.Finalizers = append(m.Finalizers, kubevirtv1.VirtualMachineInstanceMigrationFinalizer)
	}
	h.recordRequest(req, &m.ObjectMeta, nil, true)
	return patchResponse(part{"metadata", m.ObjectMeta})
}

// validateVMIM answers as KubeVirt does, and then refuses what virtflow does not support.
func (h *handler) validateVMIM(ctx context.Context, req admission.Request) admission.Response {
	m, _, end := h.vmim.readDecoding(req)
	if end != nil {
		return *end
	}
	if causes := validation.Migration(m, slices.Contains(h.Controllers, req.UserInfo.Username)); len(causes) > 0 {
		return refusal(causes)
	}
	if err := h.whyNotMigratable(ctx, m); err != nil {
		return badRequest(err)
	}
	cluster, err := h.Cluster(ctx)
	if err != nil {
		return badRequest(err)
	}
	return answer(firstOf(
		func() []metav1.StatusCause { return validation.MigrationBetweenClusters(m, cluster) },
		func() []metav1.StatusCause { return validation.OwnMigration(m) },
	))
}

func (h *handler) validateVMIMUpdate(_ context.Context, req admission.Request) admission.Response {
	m, old, end := h.vmim.readDecoding(req)
	switch {
	case end != nil:
		return *end
	case old == nil:
		return admission.Allowed("")
	}
	return answer(validation.MigrationUpdate(old, m))
}

// whyNotMigratable returns why the instance of a migration cannot migrate, in KubeVirt's words; nil if it can.
func (h *handler) whyNotMigratable(ctx context.Context, m *kubevirtv1.VirtualMachineInstanceMigration) error {
	vmi, err := h.getInstance(ctx, m.Namespace, m.Spec.VMIName)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the VMI \"%s/%s\" does not exist", m.Namespace, m.Spec.VMIName)
	case err != nil:
		return err
	case vmi.IsFinal():
		return errors.New("Cannot migrate VMI in finalized state.") //nolint:staticcheck // KubeVirt's words
	}
	for _, c := range vmi.Status.Conditions {
		if c.Type != kubevirtv1.VirtualMachineInstanceIsMigratable || c.Status != corev1.ConditionFalse {
			continue
		}
		if c.Reason == kubevirtv1.VirtualMachineInstanceReasonDisksNotMigratable && m.IsDecentralized() {
			continue
		}
		//nolint:staticcheck // KubeVirt's words
		return fmt.Errorf("Cannot migrate VMI, Reason: %s, Message: %s", c.Reason, c.Message)
	}
	var others kubevirtv1.VirtualMachineInstanceMigrationList
	if err := h.Reader.List(ctx, &others, client.InNamespace(m.Namespace),
		client.MatchingLabels{kubevirtv1.MigrationSelectorLabel: observe.NameLabel(m.Spec.VMIName)}); err != nil {
		return fmt.Errorf("listing migrations of the instance: %w", err)
	}
	for _, o := range others.Items {
		if o.Spec.VMIName == m.Spec.VMIName && o.Status.Phase != kubevirtv1.MigrationSucceeded &&
			o.Status.Phase != kubevirtv1.MigrationFailed {
			//nolint:staticcheck // KubeVirt's words
			return fmt.Errorf("in-flight migration detected. Active migration job (%s) is currently already in "+
				"progress for VMI %s.", o.UID, o.Spec.VMIName)
		}
	}
	return nil
}
