package world

import (
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/workflows/contract"
)

// acting notes when a request of virtflow's is being answered: the changes of that moment are its doing.
type acting struct {
	world *World
	next  http.RoundTripper
}

// RoundTrip passes a request on.
func (a acting) RoundTrip(r *http.Request) (*http.Response, error) {
	before := a.world.acting
	a.world.acting = true
	defer func() { a.world.acting = before }()
	return a.next.RoundTrip(r)
}

// config is how virtflow reaches the API server.
func (w *World) config() *rest.Config {
	c := w.Kube.Config()
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return acting{w, next} })
	return c
}

// checkReason looks at what virtflow has just changed: it ends no guest that runs, unless somebody wants that now.
func (w *World) checkReason(c kube.Change) {
	if !w.acting {
		return
	}
	switch o := c.New.(type) {
	case *kubevirt.VirtualMachine:
		if old, ok := c.Old.(*kubevirt.VirtualMachine); ok && held(old) && !held(o) && !w.released &&
			o.DeletionTimestamp == nil {
			w.breakf("the hold of VM %s was erased, and nobody has released it", o.Name)
		}
	case *kubevirt.VirtualMachineInstance:
		if l := w.runs(func(l *launcher) bool {
			return l.vmiUID == string(o.UID)
		}); l != nil && beginsToEnd(c) && w.reasonToEnd(o) == "" {
			w.breakf("the instance %s, whose guest runs, was deleted without a reason", l.key())
		}
	case *corev1.Pod:
		l := w.runs(func(l *launcher) bool { return l.podUID == string(o.UID) })
		if l == nil || !beginsToEnd(c) {
			return
		}
		vmi := kube.Get[kubevirt.VirtualMachineInstance](w.Kube, l.namespace, l.vmi)
		if vmi == nil || w.Updates.Evict && observe.Outdated(vmi, w.image) {
			return
		}
		if string(vmi.UID) == l.vmiUID && vmi.DeletionTimestamp == nil && !w.tainted(l.host.name) {
			w.breakf("the pod of %s, whose guest runs, was deleted without a reason", l.key())
		}
	}
}

// checkEnd looks at a launcher that is told to end: its guest does not run, or its pod, or its instance, is on its way
// out.
func (w *World) checkEnd(l *launcher) {
	pod := w.podOf(l)
	vmi := kube.Get[kubevirt.VirtualMachineInstance](w.Kube, l.namespace, l.vmi)
	wanted := pod != nil && pod.DeletionTimestamp == nil &&
		vmi != nil && string(vmi.UID) == l.vmiUID && vmi.DeletionTimestamp == nil
	if l.running && wanted {
		w.breakf("the launcher of %s, whose guest runs, was told to end without a reason", l.key())
	}
}

// held says that a VM's status calls it held.
func held(vm *kubevirt.VirtualMachine) bool { return isTrue(vm, contract.ConditionHeld) }

// isTrue says that a VM has that condition.
func isTrue(vm *kubevirt.VirtualMachine, kind kubevirt.VirtualMachineConditionType) bool {
	return slices.ContainsFunc(vm.Status.Conditions, func(c kubevirt.VirtualMachineCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

// runs finds a guest that runs.
func (w *World) runs(is func(*launcher) bool) *launcher {
	for _, l := range w.domains {
		if l.running && is(l) {
			return l
		}
	}
	return nil
}

// beginsToEnd says that a change marks an object for deletion, or removes one that was not marked.
func beginsToEnd(c kube.Change) bool {
	now, ok := c.New.(metav1.Object)
	if !ok {
		return false
	}
	before, known := c.Old.(metav1.Object)
	marked := known && before.GetDeletionTimestamp() != nil
	return !marked && (c.Type == kube.Deleted || now.GetDeletionTimestamp() != nil)
}

// reasonToEnd is the reason in Kubernetes by which an instance may be ended now; "": there is none.
func (w *World) reasonToEnd(vmi *kubevirt.VirtualMachineInstance) string {
	owner := metav1.GetControllerOf(vmi)
	if owner == nil {
		return ""
	}
	if owner.Kind == "VirtualMachine" {
		return reasonOfVM(w.VM(owner.Name), vmi)
	}
	set, others := w.Set(owner.Name), 0
	for _, v := range kube.List[kubevirt.VirtualMachineInstance](w.Kube, vmi.Namespace) {
		if by := metav1.GetControllerOf(v); by != nil && by.UID == owner.UID && v.UID != vmi.UID &&
			v.DeletionTimestamp == nil && !v.IsFinal() {
			others++
		}
	}
	return reasonOfSet(set, vmi, others)
}

// reasonOfVM is that of the VM which controls an instance; nil: it is gone.
func reasonOfVM(vm *kubevirt.VirtualMachine, vmi *kubevirt.VirtualMachineInstance) string {
	switch {
	case vm == nil || !metav1.IsControlledBy(vmi, vm):
		return "the VM is gone"
	case vm.DeletionTimestamp != nil && !orphans(vm):
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

// orphans says that whoever deletes an owner wants its dependents to stay.
func orphans(owner metav1.Object) bool {
	return slices.Contains(owner.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

// reasonOfSet is that of the set which controls an instance; nil: it is gone. Others are the set's other instances,
// without those that have ended or are being deleted.
func reasonOfSet(
	set *kubevirt.VirtualMachineInstanceReplicaSet, vmi *kubevirt.VirtualMachineInstance, others int,
) string {
	switch {
	case set == nil || !metav1.IsControlledBy(vmi, set):
		return "the set is gone"
	case set.DeletionTimestamp != nil && !orphans(set):
		return "the set is deleted"
	case set.Spec.Replicas != nil && others >= int(*set.Spec.Replicas):
		return "fewer replicas are wanted"
	default:
		return ""
	}
}
