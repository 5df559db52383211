package diff

import (
	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/internal/observe"
)

// evacueesUID is the UID in deliveries about the evacuees of a node: one delivery has the number of all of them.
const evacueesUID = "evacuees"

func evacueesKind() kind[contract.EvacueesObservation] {
	return kind[contract.EvacueesObservation]{
		name: delivery.KindEvacuees, signal: contract.SignalObserveEvacuees,
		same: func(last, now contract.EvacueesObservation) bool { return last.Marked == now.Marked },
	}
}

// evacuees sends nodes how many instances have to leave them.
type evacuees struct{ *record }

// evacueeKind records for each instance which node it has to leave.
func evacueeKind() kind[string] { return kind[string]{name: "evacuee"} }

// send sends the node that an instance has to leave, and the one that it had to leave before, the number of
// such instances.
func (e evacuees) send(vmi *kubevirt.VirtualMachineInstance, from delivery.Cause) {
	uid, node := string(vmi.UID), observe.Evacuates(vmi)
	last, _ := recall(e.record, evacueeKind(), uid)
	if last == node {
		return
	}
	if node == "" {
		forget(e.record, evacueeKind(), uid)
	} else {
		remember(e.record, evacueeKind(), uid, node)
	}
	for _, name := range []string{last, node} {
		if name != "" {
			e.sendTo(name, vmi.ResourceVersion, from)
		}
	}
}

// sendGone sends the node that an instance had to leave how many remain.
func (e evacuees) sendGone(vmi *kubevirt.VirtualMachineInstance, from delivery.Cause) {
	uid := string(vmi.UID)
	if last, known := recall(e.record, evacueeKind(), uid); known {
		forget(e.record, evacueeKind(), uid)
		e.sendTo(last, vmi.ResourceVersion, from)
	}
}

// sendTo sends a node how many of its instances have to leave it. It starts no workflow: the observation of the
// node does.
func (e evacuees) sendTo(node, version string, from delivery.Cause) {
	k := evacueesKind()
	o := contract.EvacueesObservation{ResourceVersion: version,
		Marked: len(e.informers.EvacueesOf(node))}
	if !recordNew(e.record, k, node, o) {
		return
	}
	put(e.record, k, contract.NodeID(node), evacueesUID, o, nil, from)
}

func (e evacuees) forgetOf(node *corev1.Node) { forget(e.record, evacueesKind(), node.Name) }

// sendToNew sends them to a node that was not known.
func (e evacuees) sendToNew(node *corev1.Node) {
	if there := e.informers.EvacueesOf(node.Name); len(there) > 0 {
		e.sendTo(node.Name, there[0].ResourceVersion, resync)
	}
}
