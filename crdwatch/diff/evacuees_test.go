package diff

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// evacueesSent returns the number of evacuees that is queued for the node; -1: nothing is.
func evacueesSent(t *testing.T, e *Differ, node string) int {
	t.Helper()
	n := -1
	for _, d := range outbox(e).pending[contract.NodeID(node)] {
		if o, ok := d.Payload.(contract.EvacueesObservation); ok {
			require.Equal(t, contract.SignalObserveEvacuees, d.Signal)
			require.Nil(t, d.Start)
			n = o.Marked
		}
	}
	delete(outbox(e).pending, contract.NodeID(node))
	return n
}

func TestSendsNodeNumberOfEvacuees(t *testing.T) {
	e := newTestDiffer(t)
	var all []*kubevirt.VirtualMachineInstance
	update := func(i int, f func(*kubevirt.VirtualMachineInstance)) {
		all[i] = all[i].DeepCopy()
		f(all[i])
		require.NoError(t, e.informers.VMIs.GetStore().Update(all[i]))
		e.entities.vmi.sendChanged("a/"+all[i].Name, change)
	}
	mark := func(v *kubevirt.VirtualMachineInstance) { v.Status.EvacuationNodeName = v.Status.NodeName }
	for _, name := range []string{"x", "y"} {
		vmi := &kubevirt.VirtualMachineInstance{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), ResourceVersion: "1"}}
		vmi.Status.NodeName, vmi.Status.Phase = "n1", kubevirt.Running
		all = append(all, vmi)
	}
	update(0, func(*kubevirt.VirtualMachineInstance) {})
	update(1, func(*kubevirt.VirtualMachineInstance) {})
	require.Equal(t, -1, evacueesSent(t, e, "n1"), "there are none")
	update(0, mark)
	require.Equal(t, 1, evacueesSent(t, e, "n1"))
	update(1, mark)
	require.Equal(t, 2, evacueesSent(t, e, "n1"))
	update(1, func(v *kubevirt.VirtualMachineInstance) { v.ResourceVersion = "9" })
	require.Equal(t, -1, evacueesSent(t, e, "n1"), "nothing has changed")

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n"}}
	require.NoError(t, e.informers.Nodes.GetStore().Add(node))
	e.entities.node.redeliver(node)
	require.Equal(t, 2, evacueesSent(t, e, "n1"), "it may have forgotten")

	update(1, func(v *kubevirt.VirtualMachineInstance) {
		v.Spec.EvictionStrategy = new(kubevirt.EvictionStrategyExternal)
	})
	require.Equal(t, 1, evacueesSent(t, e, "n1"), "it moves for another reason")
	update(0, func(v *kubevirt.VirtualMachineInstance) { v.Status.NodeName = "n2" })
	require.Equal(t, 0, evacueesSent(t, e, "n1"), "it has left")
	require.Equal(t, -1, evacueesSent(t, e, "n2"), "and is not asked to leave its new node")
	update(0, mark)
	require.Equal(t, 1, evacueesSent(t, e, "n2"))
	require.NoError(t, e.informers.VMIs.GetStore().Delete(all[0]))
	e.entities.vmi.sendGone(all[0], 0)
	require.Equal(t, 0, evacueesSent(t, e, "n2"), "it is gone")
}
