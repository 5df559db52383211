package observe

import (
	"fmt"
	"reflect"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// ReplicaSet observes a VirtualMachineInstanceReplicaSet.
func ReplicaSet(set *kubevirt.VirtualMachineInstanceReplicaSet) contract.ReplicaSetObservation {
	o := contract.ReplicaSetObservation{
		UID:               string(set.UID),
		ResourceVersion:   set.ResourceVersion,
		Generation:        set.Generation,
		DeletionTimestamp: moment(set.DeletionTimestamp),
		Replicas:          1,
		Paused:            set.Spec.Paused,
	}
	if set.Spec.Replicas != nil {
		o.Replicas = max(0, int(*set.Spec.Replicas))
	}
	selector, err := Selector(set)
	switch {
	case set.Spec.Template == nil:
		o.Unusable = "it has no template"
	case err != nil:
		o.Unusable = "its selector cannot be read" // the error lists what is wrong in another order each time
	case set.Spec.Selector == nil || len(set.Spec.Template.ObjectMeta.Labels) == 0:
		o.Unusable = "it has no selector, or its template no labels"
	case !selector.Matches(labels.Set(set.Spec.Template.ObjectMeta.Labels)):
		o.Unusable = "its selector does not match the labels of its template"
	case o.Replicas > contract.MaxReplicas: // its scale subresource passes the webhook by
		o.Unusable = fmt.Sprintf("it asks for %d replicas, and a set can have %d at most", o.Replicas,
			contract.MaxReplicas)
	}
	if err == nil {
		o.Selector = selector.String()
	}
	if set.Spec.Template != nil {
		o.GracePeriodSeconds = set.Spec.Template.Spec.TerminationGracePeriodSeconds
	}
	if set.Annotations[contract.AnnotationRequestedGeneration] == strconv.FormatInt(set.Generation, 10) {
		o.Actor = word(set.Annotations[contract.AnnotationRequestedBy])
	}
	for i, c := range set.Status.Conditions {
		if i == maxConditions {
			break
		}
		o.Conditions = append(o.Conditions,
			condition(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime))
	}
	return o
}

// GoneReplicaSet observes that a VirtualMachineInstanceReplicaSet of that UID no longer exists.
func GoneReplicaSet(uid string) contract.ReplicaSetObservation {
	return contract.ReplicaSetObservation{UID: uid, Gone: true}
}

// Selector returns the label selector of a set. An empty one selects nothing.
func Selector(set *kubevirt.VirtualMachineInstanceReplicaSet) (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(set.Spec.Selector)
}

// OwnerSet returns the VirtualMachineInstanceReplicaSet that controls a VMI, or nil.
func OwnerSet(vmi *kubevirt.VirtualMachineInstance) *metav1.OwnerReference {
	return controller(vmi, "VirtualMachineInstanceReplicaSet")
}

// Replica observes a VMI for a replica set with that selector.
func Replica(vmi *kubevirt.VirtualMachineInstance, selector labels.Selector) contract.ReplicaObservation {
	o := contract.ReplicaObservation{
		UID:             string(vmi.UID),
		Name:            vmi.Name,
		ResourceVersion: vmi.ResourceVersion,
		Deleting:        vmi.DeletionTimestamp != nil,
		Matches:         selector.Matches(labels.Set(vmi.Labels)),
		Phase:           word(string(vmi.Status.Phase)),
		Ordinal:         Ordinal(vmi),
		Created:         vmi.CreationTimestamp.UTC(),
	}
	if ref := metav1.GetControllerOfNoCopy(vmi); ref != nil {
		o.OwnerUID = string(ref.UID)
	}
	for _, c := range vmi.Status.Conditions {
		if c.Type == kubevirt.VirtualMachineInstanceReady {
			o.Ready = c.Status == "True"
			o.Terminating = c.Status == "False" && c.Reason == kubevirt.PodTerminatingReason
		}
	}
	for _, t := range vmi.Status.PhaseTransitionTimestamps {
		o.EverRan = o.EverRan || t.Phase == kubevirt.Running
	}
	return o
}

// Ordinal returns the number that a replica set has given to a VMI, or 0.
func Ordinal(vmi *kubevirt.VirtualMachineInstance) int {
	n, err := strconv.Atoi(vmi.Annotations[contract.AnnotationReplica])
	if err != nil || n < 0 || n > contract.MaxOrdinal {
		return 0
	}
	return n
}

// GoneReplica observes that a VMI no longer exists.
func GoneReplica(vmi *kubevirt.VirtualMachineInstance) contract.ReplicaObservation {
	o := contract.ReplicaObservation{UID: string(vmi.UID), Name: vmi.Name, Gone: true, Ordinal: Ordinal(vmi)}
	if ref := metav1.GetControllerOfNoCopy(vmi); ref != nil {
		o.OwnerUID = string(ref.UID)
	}
	return o
}

// SameReplicaSet reports whether two observations of a set are equal in everything that a decision needs. Its status
// does not count, because only its own entity writes it.
func SameReplicaSet(a, b contract.ReplicaSetObservation) bool {
	for _, o := range []*contract.ReplicaSetObservation{&a, &b} {
		o.ResourceVersion, o.Conditions = "", nil
	}
	return reflect.DeepEqual(a, b)
}

// SameReplica reports whether two observations of a replica are equal for its set. The steps of a starting replica do
// not matter for decisions, nor does the end of a guest whose replica is being deleted.
func SameReplica(a, b contract.ReplicaObservation) bool {
	for _, o := range []*contract.ReplicaObservation{&a, &b} {
		o.ResourceVersion = ""
		switch o.Phase {
		case "", "Scheduling", "Scheduled":
			o.Phase = "Pending"
		}
		if o.Deleting {
			o.Phase, o.Ready, o.Terminating = "", false, false
		}
	}
	return a == b
}
