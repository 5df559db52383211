package world

import (
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// actingTransport marks the time in which a request of virtflow is being answered: virtflow makes the changes of that
// time.
type actingTransport struct {
	world *World
	next  http.RoundTripper
}

// RoundTrip marks the request and passes it on.
func (a actingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	before := a.world.acting
	a.world.acting = true
	defer func() { a.world.acting = before }()
	return a.next.RoundTrip(r)
}

// config returns the client configuration with which virtflow reaches the API server.
func (w *World) config() *rest.Config {
	c := w.Kube.Config()
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return actingTransport{w, next} })
	return c
}

// checkReason checks a change that virtflow has just made: virtflow ends no running guest without a reason in
// Kubernetes.
func (w *World) checkReason(c kube.Change) {
	if !w.acting {
		return
	}
	switch o := c.New.(type) {
	case *kubevirt.VirtualMachine:
		if old, ok := c.Old.(*kubevirt.VirtualMachine); ok && isHeld(old) && !isHeld(o) && !w.released &&
			o.DeletionTimestamp == nil {
			w.breakf("the hold of VM %s was removed, but no user has released it", o.Name)
		}
	case *kubevirt.VirtualMachineInstance:
		if l := w.findRunning(func(l *launcher) bool {
			return l.vmiUID == string(o.UID)
		}); l != nil && startsDeletion(c) && w.reasonToEnd(o) == "" {
			w.breakf("the instance %s, whose guest runs, was deleted without a reason", l.key())
		}
	case *corev1.Pod:
		l := w.findRunning(func(l *launcher) bool { return l.podUID == string(o.UID) })
		if l == nil || !startsDeletion(c) {
			return
		}
		vmi := kube.Get[kubevirt.VirtualMachineInstance](w.Kube, l.namespace, l.vmi)
		if vmi == nil || w.Updates.Evict && observe.Outdated(vmi, w.image) {
			return
		}
		if string(vmi.UID) == l.vmiUID && vmi.DeletionTimestamp == nil && !w.isDrained(l.host.name) {
			w.breakf("the pod of %s, whose guest runs, was deleted without a reason", l.key())
		}
	}
}

// checkEnd checks the request that a launcher end: its guest has stopped, or its pod or its instance is being deleted.
func (w *World) checkEnd(l *launcher) {
	pod := w.podOf(l)
	vmi := kube.Get[kubevirt.VirtualMachineInstance](w.Kube, l.namespace, l.vmi)
	wanted := pod != nil && pod.DeletionTimestamp == nil &&
		vmi != nil && string(vmi.UID) == l.vmiUID && vmi.DeletionTimestamp == nil
	if l.running && wanted {
		w.breakf("the launcher of %s, whose guest runs, was asked to end without a reason", l.key())
	}
}

// isHeld reports whether a VM has the condition Held.
func isHeld(vm *kubevirt.VirtualMachine) bool { return hasCondition(vm, contract.ConditionHeld) }

// hasCondition reports whether a VM has a condition with status True.
func hasCondition(vm *kubevirt.VirtualMachine, kind kubevirt.VirtualMachineConditionType) bool {
	return slices.ContainsFunc(vm.Status.Conditions, func(c kubevirt.VirtualMachineCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

// findRunning returns the first running guest for which is holds, or nil.
func (w *World) findRunning(is func(*launcher) bool) *launcher {
	for _, l := range w.domains {
		if l.running && is(l) {
			return l
		}
	}
	return nil
}

// startsDeletion reports whether a change marks an object for deletion, or removes an object that was not marked.
func startsDeletion(c kube.Change) bool {
	now, ok := c.New.(metav1.Object)
	if !ok {
		return false
	}
	before, known := c.Old.(metav1.Object)
	marked := known && before.GetDeletionTimestamp() != nil
	return !marked && (c.Type == kube.Deleted || now.GetDeletionTimestamp() != nil)
}

// reasonToEnd returns the reason in Kubernetes to end an instance now; "": there is none.
func (w *World) reasonToEnd(vmi *kubevirt.VirtualMachineInstance) string {
	owner := metav1.GetControllerOf(vmi)
	if owner == nil {
		return ""
	}
	if owner.Kind == "VirtualMachine" {
		return vmReasonToEnd(w.VM(owner.Name), vmi)
	}
	set, others := w.Set(owner.Name), 0
	for _, v := range kube.List[kubevirt.VirtualMachineInstance](w.Kube, vmi.Namespace) {
		if by := metav1.GetControllerOf(v); by != nil && by.UID == owner.UID && v.UID != vmi.UID &&
			v.DeletionTimestamp == nil && !v.IsFinal() {
			others++
		}
	}
	return setReasonToEnd(set, vmi, others)
}

// vmReasonToEnd returns the reason that the VM which controls an instance gives to end it; a nil VM is gone.
func vmReasonToEnd(vm *kubevirt.VirtualMachine, vmi *kubevirt.VirtualMachineInstance) string {
	switch {
	case vm == nil || !metav1.IsControlledBy(vmi, vm):
		return "the VM is gone"
	case vm.DeletionTimestamp != nil && !orphansDependents(vm):
		return "the VM is deleted"
	case vm.Spec.RunStrategy != nil && *vm.Spec.RunStrategy == kubevirt.RunStrategyHalted:
		return "the VM is to be halted"
	}
	for _, r := range vm.Status.StateChangeRequests {
		if r.Action == kubevirt.StopRequest && (r.UID == nil || *r.UID == vmi.UID) {
			return "a stop is requested"
		}
	}
	return ""
}

// orphansDependents reports whether an owner is being deleted with --cascade=orphan.
func orphansDependents(owner metav1.Object) bool {
	return slices.Contains(owner.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

// setReasonToEnd returns the reason that the replica set which controls an instance gives to end it; a nil set is gone.
// Others counts the set's other instances, without those that have ended or are being deleted.
func setReasonToEnd(
	set *kubevirt.VirtualMachineInstanceReplicaSet, vmi *kubevirt.VirtualMachineInstance, others int,
) string {
	switch {
	case set == nil || !metav1.IsControlledBy(vmi, set):
		return "the set is gone"
	case set.DeletionTimestamp != nil && !orphansDependents(set):
		return "the set is deleted"
	case set.Spec.Replicas != nil && others >= int(*set.Spec.Replicas):
		return "fewer replicas are wanted"
	default:
		return ""
	}
}
