package validation

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/defaults"
)

// Migration applies KubeVirt's rules for a new VirtualMachineInstanceMigration that need only the object itself.
// Controller means that virtflow's own scheduler of migrations makes it.
func Migration(m *kubevirtv1.VirtualMachineInstanceMigration, controller bool) []metav1.StatusCause {
	switch {
	case m.Spec.VMIName == "":
		return required(specPath().Child("vmiName"), "vmiName is missing")
	case m.Spec.Priority != nil && !controller:
		return causeOf(metav1.CauseTypeForbidden, specPath().Child("migrationPriority"),
			"Migration priority queue, only virt-controller is allowed to set priority field")
	default:
		return nil
	}
}

// OwnMigration applies virtflow's own rules: a selector that no pod can have is refused here, and not only when the
// target's pod is made.
func OwnMigration(m *kubevirtv1.VirtualMachineInstanceMigration) []metav1.StatusCause {
	return causesOf(metav1validation.ValidateLabels(m.Spec.AddedNodeSelector, specPath().Child("addedNodeSelector")))
}

// MigrationBetweenClusters applies the rules for a migration of which only one half is in this cluster.
func MigrationBetweenClusters(
	m *kubevirtv1.VirtualMachineInstanceMigration, cluster defaults.Cluster,
) []metav1.StatusCause {
	to, from := m.Spec.SendTo, m.Spec.Receive
	switch {
	case to == nil && from == nil:
		return nil
	case !cluster.Enabled(defaults.GateDecentralizedLive):
		return unsupported(nowhere{}, "%s feature gate is not enabled in kubevirt resource",
			defaults.GateDecentralizedLive)
	case to != nil && from != nil && to.MigrationID != from.MigrationID:
		return invalid(nowhere{}, "sendTo migrationID %s does not match receive migrationID %s", to.MigrationID,
			from.MigrationID)
	default:
		return nil
	}
}

// MigrationUpdate applies the rules for changing a migration.
func MigrationUpdate(old, m *kubevirtv1.VirtualMachineInstanceMigration) []metav1.StatusCause {
	if !equality.Semantic.DeepEqual(old.Spec, m.Spec) {
		return unsupported(nowhere{}, "update of Migration object's spec is restricted")
	}
	before, had := old.Labels[kubevirtv1.MigrationSelectorLabel]
	after, has := m.Labels[kubevirtv1.MigrationSelectorLabel]
	switch {
	case m.Status.Phase == kubevirtv1.MigrationSucceeded || m.Status.Phase == kubevirtv1.MigrationFailed || !had:
		return nil
	case m.Labels == nil:
		return unsupported(nowhere{}, "selector label can't be removed from an in-flight migration")
	case !has || after != before:
		return unsupported(nowhere{}, "selector label can't be modified on an in-flight migration")
	default:
		return nil
	}
}
