package crdwatch

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/workflows/contract"
)

// evacueesUID stands for the evacuees of a node where the outbox asks for the UID of what is observed: they go
// together.
const evacueesUID = "evacuees"

// evacueesHold is how long the mark of one waits for those of others: whoever drains a node marks all at once.
const evacueesHold = 500 * time.Millisecond

func evacueesKind() kind[contract.EvacueesObservation] {
	return kind[contract.EvacueesObservation]{
		name: "evacuees", signal: contract.SignalObserveEvacuees,
		same: func(last, now contract.EvacueesObservation) bool { return last.Marked == now.Marked },
	}
}

// evacueeKind remembers of each instance which node it is asked to leave.
func evacueeKind() kind[string] { return kind[string]{name: "evacuee"} }

// evacueeOf indexes instances by the node that they are asked to leave.
func evacueeOf(o any) ([]string, error) {
	if vmi, ok := o.(*kubevirt.VirtualMachineInstance); ok {
		if node := observe.Evacuates(vmi); node != "" {
			return []string{node}, nil
		}
	}
	return nil, nil
}

// vmiForNodes sends the node that an instance is asked to leave, or was, how many are now.
func (d *differ) vmiForNodes(vmi *kubevirt.VirtualMachineInstance, from origin) {
	uid, node := string(vmi.UID), observe.Evacuates(vmi)
	last, _ := recall(d, evacueeKind(), uid)
	if last == node {
		return
	}
	if node == "" {
		forget(d, evacueeKind(), uid)
	} else {
		remember(d, evacueeKind(), uid, node)
	}
	for _, name := range []string{last, node} {
		if name != "" {
			d.evacueesOn(name, vmi.ResourceVersion, from)
		}
	}
}

// vmiGoneForNodes sends the node that an instance was asked to leave how many are left.
func (d *differ) vmiGoneForNodes(vmi *kubevirt.VirtualMachineInstance, from origin) {
	uid := string(vmi.UID)
	if last, known := recall(d, evacueeKind(), uid); known {
		forget(d, evacueeKind(), uid)
		d.evacueesOn(last, vmi.ResourceVersion, from)
	}
}

// evacueesOn sends a node how many of its instances are asked to leave it. It starts no workflow: a node's own
// observation does.
func (d *differ) evacueesOn(node, version string, from origin) {
	k := evacueesKind()
	o := contract.EvacueesObservation{ResourceVersion: version,
		Marked: len(indexed[*kubevirt.VirtualMachineInstance](d.informers.VMIs, byEvacuation, node))}
	if !news(d, k, node, o) {
		return
	}
	d.queue.Put(Delivery{Workflow: contract.NodeID(node), Signal: k.signal, UID: evacueesUID, Kind: k.name, Payload: o,
		Resync: from == resync, Hold: evacueesHold})
}

func (d *differ) forgetEvacueesOn(node *corev1.Node) { forget(d, evacueesKind(), node.Name) }

// evacueesOfNode sends them to a node that was not known.
func (d *differ) evacueesOfNode(node *corev1.Node) {
	if there := indexed[*kubevirt.VirtualMachineInstance](d.informers.VMIs, byEvacuation, node.Name); len(there) > 0 {
		d.evacueesOn(node.Name, there[0].ResourceVersion, resync)
	}
}
