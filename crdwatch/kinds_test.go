package crdwatch

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// TestEntities: what each kind of object with a workflow of its own sends when it appears, stays the same and goes, and
// how the workflow is started.
func TestEntities(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "a", Name: "x", UID: "u", ResourceVersion: "1"}
	d := newTestDiffer(t)
	for name, c := range map[string]struct {
		add              func() error
		changed, gone    func()
		workflow, signal string
		start            Start
	}{
		"VirtualMachine": {
			add: func() error {
				return d.informers.VMs.GetStore().Add(&kubevirt.VirtualMachine{ObjectMeta: meta})
			},
			changed:  func() { d.entities.vm.changed(d, "a/x", change) },
			gone:     func() { d.entities.vm.vanished(d, &kubevirt.VirtualMachine{ObjectMeta: meta}, change) },
			workflow: "vm/a/x", signal: contract.SignalObserveVM,
			start: Start{Type: "VirtualMachine", Summary: "VirtualMachine a/x"},
		},
		"VirtualMachineInstance": {
			add: func() error {
				return d.informers.VMIs.GetStore().Add(&kubevirt.VirtualMachineInstance{ObjectMeta: meta})
			},
			changed:  func() { d.entities.vmi.changed(d, "a/x", change) },
			gone:     func() { d.entities.vmi.vanished(d, &kubevirt.VirtualMachineInstance{ObjectMeta: meta}, change) },
			workflow: "vmi/a/x", signal: contract.SignalObserveVMI,
			start: Start{Type: "VirtualMachineInstance", Summary: "VirtualMachineInstance a/x"},
		},
		"VirtualMachineInstanceReplicaSet": {
			add: func() error {
				return d.informers.ReplicaSets.GetStore().
					Add(&kubevirt.VirtualMachineInstanceReplicaSet{ObjectMeta: meta})
			},
			changed: func() { d.entities.set.changed(d, "a/x", change) },
			gone: func() {
				d.entities.set.vanished(d, &kubevirt.VirtualMachineInstanceReplicaSet{ObjectMeta: meta}, change)
			},
			workflow: "replicaset/a/x", signal: contract.SignalObserveReplicaSet,
			start: Start{Type: "ReplicaSet", Summary: "VirtualMachineInstanceReplicaSet a/x"},
		},
		"VirtualMachineInstanceMigration": {
			add: func() error {
				return d.informers.Migrations.GetStore().
					Add(&kubevirt.VirtualMachineInstanceMigration{ObjectMeta: meta})
			},
			changed: func() { d.entities.move.changed(d, "a/x", change) },
			gone: func() {
				d.entities.move.vanished(d, &kubevirt.VirtualMachineInstanceMigration{ObjectMeta: meta}, change)
			},
			workflow: "migration/a/x", signal: contract.SignalObserveMigration,
			start: Start{Type: "Migration", Summary: "VirtualMachineInstanceMigration a/x"},
		},
		"Node": {
			add: func() error {
				return d.informers.Nodes.GetStore().
					Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u"}})
			},
			changed: func() { d.entities.node.changed(d, "x", change) },
			gone: func() {
				d.entities.node.vanished(d, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u"}}, change)
			},
			workflow: "node/x", signal: contract.SignalObserveNode,
			start: Start{Type: "Node", Summary: "Node x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.add())
			c.changed()
			require.Len(t, outbox(d).pending[c.workflow], 1)
			sent := outbox(d).pending[c.workflow][0]
			require.Equal(t, c.signal, sent.Signal)
			require.Equal(t, "u", sent.UID)
			require.Equal(t, c.start.Type, sent.Start.Type)
			require.Equal(t, c.start.Summary, sent.Start.Summary)
			require.Equal(t, "u", sent.Start.Search[contract.SearchUID])
			waiting(d, c.workflow)
			c.changed()
			require.Empty(t, waiting(d, c.workflow), "nothing has changed")
			c.gone()
			require.Equal(t, []string{c.signal + " u"}, waiting(d, c.workflow), "what is gone starts nothing")
			c.changed()
			require.Equal(t, []string{c.signal + "+ u"}, waiting(d, c.workflow),
				"nothing is remembered of what is gone")
		})
	}
}

// TestAWorkflowThatIsStartedAgainGetsEverything that is current: its object, and what else its decisions rest on.
func TestAWorkflowThatIsStartedAgainGetsEverything(t *testing.T) {
	d := newTestDiffer(t)
	vm := &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "v"}}
	vmi, pod, node := instanceOnNode(t, d)
	vmi.OwnerReferences = controlledBy(vm, "VirtualMachine")
	require.NoError(t, d.informers.VMs.GetStore().Add(vm))
	require.NoError(t, d.informers.VMIs.GetStore().Add(vmi))
	l := NewLeader(Options{}, d.metrics, d.informers, d.queue, rate.Inf)
	d = l.differ
	require.NoError(t, l.SendAll(t.Context()))
	for _, workflow := range []string{"vm/a/web", "vmi/a/web", "node/node1", contract.WorkloadUpdateID} {
		require.NotEmpty(t, waiting(d, workflow))
	}
	require.NoError(t, l.SendAll(t.Context()))
	require.Empty(t, outbox(d).pending, "all of it was sent")

	d.entities.vm.again(d, vm)
	require.Equal(t, []string{"observe-vm+ v", "observe-vmi i"}, waiting(d, "vm/a/web"),
		"also its instance, which runs")
	require.Empty(t, outbox(d).pending)
	d.entities.vmi.again(d, vmi)
	require.Equal(t, []string{"observe-vmi+ i", "observe-pod p", "observe-node p"}, waiting(d, "vmi/a/web"))
	require.Empty(t, outbox(d).pending)
	d.entities.node.again(d, node)
	require.Equal(t, []string{"observe-node+ n"}, waiting(d, "node/node1"))
	require.NotNil(t, pod)
}

// TestAgainSendsEverythingOnceMore, as in a new epoch: nothing has changed, and what was sent may be forgotten.
func TestAgainSendsEverythingOnceMore(t *testing.T) {
	d := newTestDiffer(t)
	l := NewLeader(Options{Temporal: &visible{}}, d.metrics, d.informers, d.queue, rate.Inf)
	vm := &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "v"}}
	require.NoError(t, d.informers.VMs.GetStore().Add(vm))
	require.NoError(t, l.SendAll(t.Context()))
	require.Equal(t, []string{"observe-vm+ v"}, waiting(d, "vm/a/web"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	l.Again()
	l.Again()
	go func() { defer close(done); l.resyncer.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	require.Eventually(t, func() bool {
		o := outbox(d)
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.pending["vm/a/web"]) == 1 && o.pending["vm/a/web"][0].Resync
	}, 10*time.Second, time.Millisecond)
}

// inOrder is a queue that notes what it gets for whom, as "workflow: signal[+]": + says that it may start the workflow.
type inOrder []string

func (q *inOrder) Put(d Delivery) {
	*q = append(*q, d.Workflow+": "+signalOf(&d))
}

func (q *inOrder) Holds(string) bool { return false }

// TestANewLeaderSendsWhatWasChangedLastFirst: a VM that was made while nobody led does not wait for all others.
func TestANewLeaderSendsWhatWasChangedLastFirst(t *testing.T) {
	d := newTestDiffer(t)
	for name, version := range map[string]string{"nine": "9", "ten": "10", "two": "2"} {
		require.NoError(t, d.informers.VMs.GetStore().Add(&kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: name, UID: types.UID(name), ResourceVersion: version}}))
		require.NoError(t, d.informers.VMIs.GetStore().Add(&kubevirt.VirtualMachineInstance{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID("i" + name),
				ResourceVersion: version + "0"}}))
	}
	var sent inOrder
	require.NoError(t, NewLeader(Options{}, d.metrics, d.informers, &sent, rate.Inf).SendAll(t.Context()))
	require.Equal(t, []string{"vm/a/ten: observe-vm+", "vm/a/nine: observe-vm+", "vm/a/two: observe-vm+",
		"vmi/a/ten: observe-vmi+", "vmi/a/nine: observe-vmi+", "vmi/a/two: observe-vmi+"}, []string(sent[:6]))
}

// TestANewLeaderSendsAVMIAllAtOnce: its pod and its node with it, which one task folds in. How a node is, sent to all
// of its VMIs at once, would be a burst that no rate limits. A pod whose VMI is gone is sent by itself.
func TestANewLeaderSendsAVMIAllAtOnce(t *testing.T) {
	d := newTestDiffer(t)
	vmi, pod, _ := instanceOnNode(t, d)
	vmi.ResourceVersion = "3"
	keep(t, d.informers.VMIs.GetStore(), vmi)
	for name, version := range map[string]string{"other": "2", "gone": "1"} {
		other, its := vmi.DeepCopy(), pod.DeepCopy()
		other.Name, other.UID, other.ResourceVersion = name, types.UID("i-"+name), version
		its.Name, its.UID, its.OwnerReferences = "p-"+name, types.UID("p-"+name),
			controlledBy(other, "VirtualMachineInstance")
		keep(t, d.informers.Pods.GetStore(), its)
		if name != "gone" {
			keep(t, d.informers.VMIs.GetStore(), other)
		}
	}
	var sent inOrder
	l := NewLeader(Options{}, d.metrics, d.informers, &sent, rate.Limit(math.MaxInt32))
	require.NoError(t, l.SendAll(t.Context()))
	require.Equal(t, []string{
		"vmi/a/web: observe-vmi+", "vmi/a/web: observe-pod", "vmi/a/web: observe-node",
		"vmi/a/other: observe-vmi+", "vmi/a/other: observe-pod", "vmi/a/other: observe-node",
	}, []string(sent[:6]))
	require.Equal(t, []string{"vmi/a/gone: observe-pod+", "vmi/a/gone: observe-node"}, []string(sent[len(sent)-2:]))
	require.Equal(t, 4, l.resyncer.throttle.window.sent,
		"two VMIs, the node, and the last pod: the others wait for nothing")
}
