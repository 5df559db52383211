package world

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/testsuite/kube"
	"github.com/virtflow/virtflow/workflows/contract"
)

// drainStories are those of guests that are to leave their node.
func drainStories() []Scenario {
	return []Scenario{
		{Name: "drain", Story: func(w *World) {
			upWith(w, kubevirt.EvictionStrategyLiveMigrate)
			w.Taint(w.guestsNode(), true)
		}, Want: drained(moved(1))},
		{Name: "drain-cancelled", Story: drainCancelled(func(w *World, node string) { w.Taint(node, true) }),
			Want: settledAfterMoves},
		{Name: "drain-evicts", Story: func(w *World) {
			upWith(w, kubevirt.EvictionStrategyNone)
			w.Taint(w.guestsNode(), true)
		}, Want: drained(restarted)},
	}
}

// drainCancelled has a person cancel a drain, however that began, once it moves the guest.
func drainCancelled(begin func(w *World, node string)) func(*World) {
	return func(w *World) {
		upWith(w, kubevirt.EvictionStrategyLiveMigrate)
		node := w.guestsNode()
		begin(w, node)
		w.Until(w.patience(), func() bool { return len(w.Migrations()) > 0 })
		w.Control(contract.DrainID(node, 1), contract.ControlCancelDrain, contract.ControlRequest{Reason: "no"})
	}
}

// askToLeave marks an instance as the webhook of evictions does, which refuses to evict a guest that can be moved.
func (w *World) askToLeave(name, node string) {
	w.tracef("user: evict the pod of %s on %s, and be told that it is to be moved", name, node)
	_, err := kube.Edit(w.Kube, Namespace, name, "", func(v *kubevirt.VirtualMachineInstance) {
		v.Status.EvacuationNodeName = node
	})
	w.userError(err)
}

// notAsked wants the guest to run in the domain that it had, and nobody to ask it any more to leave the node that it is
// on. An older copy of etcd asks for it again, and the person who has cancelled it has said no to that.
func notAsked(w *World) error {
	if err := settledAfterMoves(w); err != nil || w.backInTime() {
		return err
	}
	if node := observe.Evacuates(w.VMI(vm)); node != "" {
		return fmt.Errorf("the guest is still asked to leave %s", node)
	}
	return nil
}

// upWith is a VM with that eviction strategy whose guest runs.
func upWith(w *World, strategy kubevirt.EvictionStrategy) {
	machine := Machine(vm, kubevirt.RunStrategyAlways)
	machine.Spec.Template.Spec.EvictionStrategy = &strategy
	upAs(w, machine)
}

// drained wants the guest to run on no node that it is to leave, too.
func drained(also func(*World) error) func(*World) error {
	return func(w *World) error {
		if err := also(w); err != nil {
			return err
		}
		if w.fault != nil && w.fault.Mode == Forever && w.failedOnly() {
			return nil // each move says why
		}
		if v := w.VMI(vm); v != nil && w.tainted(v.Status.NodeName) {
			return fmt.Errorf("the guest is still on the node that it was to leave: %s", w.failures())
		}
		return nil
	}
}

// tainted says that all guests are to leave a node.
func (w *World) tainted(node string) bool {
	n := kube.Get[corev1.Node](w.Kube, "", node)
	return n != nil && slices.ContainsFunc(n.Spec.Taints, drains)
}

// Taint has all guests leave a node, or takes that back.
func (w *World) Taint(node string, on bool) {
	w.tracef("user: taint %s: %t", node, on)
	defer w.requested()
	w.must(kube.Edit(w.Kube, "", node, "", func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, drains)
		if on {
			n.Spec.Taints = append(n.Spec.Taints,
				corev1.Taint{Key: contract.TaintDrain, Effect: corev1.TaintEffectNoSchedule})
		}
	}))
}

func drains(t corev1.Taint) bool { return t.Key == contract.TaintDrain }
