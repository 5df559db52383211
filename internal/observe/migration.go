package observe

import (
	"reflect"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Migration observes a VirtualMachineInstanceMigration.
func Migration(vmim *kubevirt.VirtualMachineInstanceMigration) contract.MigrationObservation {
	o := contract.MigrationObservation{
		UID:               string(vmim.UID),
		ResourceVersion:   vmim.ResourceVersion,
		DeletionTimestamp: moment(vmim.DeletionTimestamp),
		CreatedAt:         vmim.CreationTimestamp.UTC(),
		Finalizers:        whole(vmim.Finalizers),
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

// seconds is an annotation that is a length of time, below 2^31 seconds, or nil.
func seconds(o metav1.Object, annotation string) *int64 {
	n, err := strconv.ParseInt(o.GetAnnotations()[annotation], 10, 32)
	if err != nil || n < 0 {
		return nil
	}
	return &n
}

// connections is the annotation that says how many there are to be, where it is a number that may be asked for, or 0.
func connections(o metav1.Object) int {
	n, err := strconv.Atoi(o.GetAnnotations()[contract.AnnotationConnections])
	if err != nil || n < 2 || n > contract.MaxConnections {
		return 0
	}
	return n
}

// GoneMigration observes that a VirtualMachineInstanceMigration of that UID exists no more.
func GoneMigration(uid string) contract.MigrationObservation {
	return contract.MigrationObservation{UID: uid, Gone: true}
}

// SameMigration is SameVM for a migration.
func SameMigration(a, b contract.MigrationObservation) bool {
	for _, o := range []*contract.MigrationObservation{&a, &b} {
		o.ResourceVersion, o.Phase, o.PhaseTimes, o.Conditions = "", "", nil, nil
	}
	return reflect.DeepEqual(a, b)
}

// ClosedMigration says that a migration has ended, and that nothing of it is left to be done.
func ClosedMigration(vmim *kubevirt.VirtualMachineInstanceMigration) bool {
	return Migration(vmim).Closed()
}

// Queued observes a migration for the queue of migrations. Node is where its guest is, and open how many migrations
// have not ended. Of one that has ended nothing else counts.
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

// QueuedGone observes that a migration exists no more, for the queue of migrations.
func QueuedGone(vmim *kubevirt.VirtualMachineInstanceMigration) contract.QueuedMigration {
	return contract.QueuedMigration{
		Migration: contract.Object{Namespace: vmim.Namespace, Name: vmim.Name, UID: string(vmim.UID)}, Ended: true,
	}
}

// SameQueued says that two observations of a migration say the same to the queue.
func SameQueued(a, b contract.QueuedMigration) bool {
	for _, o := range []*contract.QueuedMigration{&a, &b} {
		o.ResourceVersion, o.Open = "", 0
	}
	return a == b
}
