package world

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// drainStories are about guests that must leave their node.
func drainStories() []Scenario {
	return []Scenario{
		{Name: "drain", Story: func(w *World) {
			upWith(w, kubevirt.EvictionStrategyLiveMigrate)
			w.Taint(w.guestsNode(), true)
		}, Want: drained(moved(1))},
		{Name: "drain-cancelled", Story: drainCancelled(func(w *World, node string) { w.Taint(node, true) }),
			Want: settledAfterMoves},
		{Name: "drain-taint-renamed", Story: func(w *World) {
			upWith(w, kubevirt.EvictionStrategyLiveMigrate)
			node := w.guestsNode()
			w.addTaint(node, otherTaint)
			w.nameDrainTaint(otherTaint)
			w.Until(w.patience(), func() bool { return len(w.Migrations()) > 0 })
			w.nameDrainTaint("")
		}, Want: movedForFormerTaint},
		{Name: "drain-evicts", Story: func(w *World) {
			upWith(w, kubevirt.EvictionStrategyNone)
			w.Taint(w.guestsNode(), true)
		}, Want: drained(restarted)},
	}
}

// otherTaint is the key of a taint that drains nodes while the KubeVirt object names it.
const otherTaint = "example.com/maintenance"

// movedForFormerTaint wants the guest to have moved that a drain was moving when its taint ceased to drain nodes. If
// that migration fails, no other one begins, and the guest stays.
func movedForFormerTaint(w *World) error {
	if w.fault == nil {
		return moved(1)(w)
	}
	return settledAfterMoves(w)
}

// nameDrainTaint has the KubeVirt object name the taint that drains nodes; "": it names none.
func (w *World) nameDrainTaint(taint string) {
	w.tracef("administrator: nodeDrainTaintKey: %q", taint)
	defer w.requested()
	if kube.Get[kubevirt.KubeVirt](w.Kube, systemNamespace, "kubevirt") == nil {
		w.must(kube.Put(w.Kube, &kubevirt.KubeVirt{
			ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "kubevirt"}}))
	}
	w.must(kube.Edit(w.Kube, systemNamespace, "kubevirt", "", func(kv *kubevirt.KubeVirt) {
		kv.Spec.Configuration.MigrationConfiguration = nil
		if taint != "" {
			kv.Spec.Configuration.MigrationConfiguration = &kubevirt.MigrationConfiguration{NodeDrainTaintKey: &taint}
		}
	}))
}

// addTaint adds a taint with the effect NoSchedule.
func (w *World) addTaint(node, taint string) {
	w.tracef("administrator: taint %s %s", node, taint)
	w.must(kube.Edit(w.Kube, "", node, "", func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: taint, Effect: corev1.TaintEffectNoSchedule})
	}))
}

// drainCancelled returns a story in which a person cancels a drain, which begin has started, once it migrates the
// guest.
func drainCancelled(begin func(w *World, node string)) func(*World) {
	return func(w *World) {
		upWith(w, kubevirt.EvictionStrategyLiveMigrate)
		node := w.guestsNode()
		begin(w, node)
		w.Until(w.patience(), func() bool { return len(w.Migrations()) > 0 })
		w.Control(contract.DrainID(node, 1), contract.ControlCancelDrain, contract.ControlRequest{Reason: "no"})
	}
}

// markForEvacuation marks an instance as the eviction webhook does, which refuses to evict a guest that can migrate.
func (w *World) markForEvacuation(name, node string) {
	w.tracef("user: evict the pod of %s on %s, which is refused because its guest migrates", name, node)
	_, err := kube.Edit(w.Kube, Namespace, name, "", func(v *kubevirt.VirtualMachineInstance) {
		v.Status.EvacuationNodeName = node
	})
	w.userError(err)
}

// notMarked wants the guest to run in the same domain, without the mark for evacuation from its node. An older copy of
// etcd has that mark again, which the cancellation covers.
func notMarked(w *World) error {
	if err := settledAfterMoves(w); err != nil || w.wasEtcdPutBack() {
		return err
	}
	if node := observe.Evacuates(w.VMI(vm)); node != "" {
		return fmt.Errorf("the guest is still marked for evacuation from %s", node)
	}
	return nil
}

// upWith starts a VM with that eviction strategy and waits until its guest runs.
func upWith(w *World, strategy kubevirt.EvictionStrategy) {
	machine := Machine(vm, kubevirt.RunStrategyAlways)
	machine.Spec.Template.Spec.EvictionStrategy = &strategy
	upAs(w, machine)
}

// drained wants the guest on a node that is not drained, and also.
func drained(also func(*World) error) func(*World) error {
	return func(w *World) error {
		if err := also(w); err != nil {
			return err
		}
		if w.fault != nil && w.fault.Mode == Forever && w.haveAllFailed() {
			return nil // each migration has the reason
		}
		if v := w.VMI(vm); v != nil && w.isDrained(v.Status.NodeName) {
			return fmt.Errorf("the guest is still on the node that is drained: %s", w.failures())
		}
		return nil
	}
}

// isDrained reports whether a node has the taint that drains it.
func (w *World) isDrained(node string) bool {
	n := kube.Get[corev1.Node](w.Kube, "", node)
	return n != nil && slices.ContainsFunc(n.Spec.Taints, isDrainTaint)
}

// Taint adds the taint that drains a node, or removes it.
func (w *World) Taint(node string, on bool) {
	w.tracef("user: taint %s: %t", node, on)
	defer w.requested()
	w.must(kube.Edit(w.Kube, "", node, "", func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, isDrainTaint)
		if on {
			n.Spec.Taints = append(n.Spec.Taints,
				corev1.Taint{Key: contract.TaintDrain, Effect: corev1.TaintEffectNoSchedule})
		}
	}))
}

func isDrainTaint(t corev1.Taint) bool { return t.Key == contract.TaintDrain }
