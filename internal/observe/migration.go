package observe

import (
	"reflect"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// Migration observes a VirtualMachineInstanceMigration.
func Migration(vmim *kubevirt.VirtualMachineInstanceMigration) contract.MigrationObservation {
	o := contract.MigrationObservation{
		UID:               string(vmim.UID),
		ResourceVersion:   vmim.ResourceVersion,
		DeletionTimestamp: moment(vmim.DeletionTimestamp),
		CreatedAt:         vmim.CreationTimestamp.UTC(),
		Finalizers:        cloneOrNil(vmim.Finalizers),
		VMIName:           word(vmim.Spec.VMIName),
		Priority:          priority(vmim),
		Actor:             word(vmim.Annotations[contract.AnnotationRequestedBy]),
		Evacuates:         word(vmim.Annotations[contract.AnnotationEvacuation]),
		Phase:             word(string(vmim.Status.Phase)),

		UnschedulableSeconds: seconds(vmim, contract.AnnotationUnschedulableTimeout),
		PendingSeconds:       seconds(vmim, contract.AnnotationPendingTimeout),
		Connections:          connections(vmim),
	}
	_, o.WorkloadUpdate = vmim.Annotations[contract.AnnotationWorkloadUpdate]
	for i, c := range vmim.Status.Conditions {
		if i == maxConditions {
			break
		}
		o.Conditions = append(o.Conditions,
			condition(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime))
	}
	for i, t := range vmim.Status.PhaseTransitionTimestamps {
		if i == maxPhaseTimes {
			break
		}
		o.PhaseTimes = append(o.PhaseTimes,
			contract.PhaseTime{Phase: word(string(t.Phase)), Time: t.PhaseTransitionTimestamp.UTC()})
	}
	return o
}

func priority(vmim *kubevirt.VirtualMachineInstanceMigration) string {
	if vmim.Spec.Priority == nil {
		return ""
	}
	return word(string(*vmim.Spec.Priority))
}

// seconds returns an annotation's length of time, below 2^31 seconds; nil if it is not one.
func seconds(o metav1.Object, annotation string) *int64 {
	n, err := strconv.ParseInt(o.GetAnnotations()[annotation], 10, 32)
	if err != nil || n < 0 {
		return nil
	}
	return &n
}

// connections returns an annotation's number of connections; 0 if it is not a number that is permitted.
func connections(o metav1.Object) int {
	n, err := strconv.Atoi(o.GetAnnotations()[contract.AnnotationConnections])
	if err != nil || n < 2 || n > contract.MaxConnections {
		return 0
	}
	return n
}

// GoneMigration observes that a VirtualMachineInstanceMigration of that UID no longer exists.
func GoneMigration(uid string) contract.MigrationObservation {
	return contract.MigrationObservation{UID: uid, Gone: true}
}

// SameMigration reports whether two observations of a migration are equal for its entity, as SameVM does for a VM.
func SameMigration(a, b contract.MigrationObservation) bool {
	for _, o := range []*contract.MigrationObservation{&a, &b} {
		o.ResourceVersion, o.Phase, o.PhaseTimes, o.Conditions = "", "", nil, nil
	}
	return reflect.DeepEqual(a, b)
}

// ClosedMigration reports whether a migration has ended, and nothing of it remains to be done.
func ClosedMigration(vmim *kubevirt.VirtualMachineInstanceMigration) bool {
	return Migration(vmim).Closed()
}

// Queued observes a migration for the migration queue. Node is where its guest is, and open the number of migrations
// that have not ended. For one that has ended, both are left out.
func Queued(vmim *kubevirt.VirtualMachineInstanceMigration, node string, open int) contract.QueuedMigration {
	o := QueuedGone(vmim)
	o.ResourceVersion = vmim.ResourceVersion
	if vmim.IsFinal() {
		return o
	}
	o.Ended, o.Started = false, vmim.IsRunning()
	o.VMIName, o.Node, o.Priority, o.Open = word(vmim.Spec.VMIName), word(node), priority(vmim), open
	o.CreatedAt = vmim.CreationTimestamp.UTC()
	return o
}

// QueuedGone observes for the migration queue that a migration no longer exists.
func QueuedGone(vmim *kubevirt.VirtualMachineInstanceMigration) contract.QueuedMigration {
	return contract.QueuedMigration{
		Migration: contract.Object{Namespace: vmim.Namespace, Name: vmim.Name, UID: string(vmim.UID)}, Ended: true,
	}
}

// SameQueued reports whether two observations of a migration are equal for the queue.
func SameQueued(a, b contract.QueuedMigration) bool {
	for _, o := range []*contract.QueuedMigration{&a, &b} {
		o.ResourceVersion, o.Open = "", 0
	}
	return a == b
}
