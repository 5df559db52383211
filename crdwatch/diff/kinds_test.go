package diff

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/watch"
)

// TestEntities expects what each kind of object with a workflow of its own sends when it appears, stays the same and
// goes, and how the workflow is started.
func TestEntities(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "a", Name: "x", UID: "u", ResourceVersion: "1"}
	d := newTestDiffer(t)
	for name, c := range map[string]struct {
		add              func() error
		changed, gone    func()
		workflow, signal string
		start            delivery.Start
	}{
		"VirtualMachine": {
			add: func() error {
				return d.informers.VMs.GetStore().Add(&kubevirt.VirtualMachine{ObjectMeta: meta})
			},
			changed:  func() { d.entities.vm.sendChanged("a/x", change) },
			gone:     func() { d.entities.vm.sendGone(&kubevirt.VirtualMachine{ObjectMeta: meta}, change) },
			workflow: "vm/a/x", signal: contract.SignalObserveVM,
			start: delivery.Start{Type: "VirtualMachine", Summary: "VirtualMachine a/x"},
		},
		"VirtualMachineInstance": {
			add: func() error {
				return d.informers.VMIs.GetStore().Add(&kubevirt.VirtualMachineInstance{ObjectMeta: meta})
			},
			changed:  func() { d.entities.vmi.sendChanged("a/x", change) },
			gone:     func() { d.entities.vmi.sendGone(&kubevirt.VirtualMachineInstance{ObjectMeta: meta}, change) },
			workflow: "vmi/a/x", signal: contract.SignalObserveVMI,
			start: delivery.Start{Type: "VirtualMachineInstance", Summary: "VirtualMachineInstance a/x"},
		},
		"VirtualMachineInstanceReplicaSet": {
			add: func() error {
				return d.informers.ReplicaSets.GetStore().
					Add(&kubevirt.VirtualMachineInstanceReplicaSet{ObjectMeta: meta})
			},
			changed: func() { d.entities.set.sendChanged("a/x", change) },
			gone: func() {
				d.entities.set.sendGone(&kubevirt.VirtualMachineInstanceReplicaSet{ObjectMeta: meta}, change)
			},
			workflow: "replicaset/a/x", signal: contract.SignalObserveReplicaSet,
			start: delivery.Start{Type: "ReplicaSet", Summary: "VirtualMachineInstanceReplicaSet a/x"},
		},
		"VirtualMachineInstanceMigration": {
			add: func() error {
				return d.informers.Migrations.GetStore().
					Add(&kubevirt.VirtualMachineInstanceMigration{ObjectMeta: meta})
			},
			changed: func() { d.entities.migration.sendChanged("a/x", change) },
			gone: func() {
				d.entities.migration.sendGone(&kubevirt.VirtualMachineInstanceMigration{ObjectMeta: meta}, change)
			},
			workflow: "migration/a/x", signal: contract.SignalObserveMigration,
			start: delivery.Start{Type: "Migration", Summary: "VirtualMachineInstanceMigration a/x"},
		},
		"Node": {
			add: func() error {
				return d.informers.Nodes.GetStore().
					Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u"}})
			},
			changed: func() { d.entities.node.sendChanged("x", change) },
			gone: func() {
				d.entities.node.sendGone(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u"}}, change)
			},
			workflow: "node/x", signal: contract.SignalObserveNode,
			start: delivery.Start{Type: "Node", Summary: "Node x"},
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

// TestRestartedWorkflowGetsAllObservations: its object, and what else its decisions depend on.
func TestRestartedWorkflowGetsAllObservations(t *testing.T) {
	d := newTestDiffer(t)
	vm := &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "v"}}
	vmi, pod, node := instanceOnNode(t, d)
	vmi.OwnerReferences = controlledBy(vm, "VirtualMachine")
	require.NoError(t, d.informers.VMs.GetStore().Add(vm))
	require.NoError(t, d.informers.VMIs.GetStore().Add(vmi))
	l := newTestResyncer(d, Clients{})
	d = l.differ
	require.NoError(t, l.SendAll(t.Context()))
	for _, workflow := range []string{"vm/a/web", "vmi/a/web", "node/node1", contract.WorkloadUpdateID} {
		require.NotEmpty(t, waiting(d, workflow))
	}
	require.NoError(t, l.SendAll(t.Context()))
	require.Empty(t, outbox(d).pending, "all of it was sent")

	d.entities.vm.redeliver(vm)
	require.Equal(t, []string{"observe-vm+ v", "observe-vmi i"}, waiting(d, "vm/a/web"),
		"also its instance, which runs")
	require.Empty(t, outbox(d).pending)
	d.entities.vmi.redeliver(vmi)
	require.Equal(t, []string{"observe-vmi+ i", "observe-pod p", "observe-node p"}, waiting(d, "vmi/a/web"))
	require.Empty(t, outbox(d).pending)
	d.entities.node.redeliver(node)
	require.Equal(t, []string{"observe-node+ n"}, waiting(d, "node/node1"))
	require.NotNil(t, pod)
}

// TestRedeliverAll: in a new epoch everything is sent again, although nothing has changed, because what was sent may be
// lost.
func TestRedeliverAll(t *testing.T) {
	d := newTestDiffer(t)
	l := newTestResyncer(d, Clients{Temporal: &visible{}})
	vm := &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "v"}}
	require.NoError(t, d.informers.VMs.GetStore().Add(vm))
	require.NoError(t, l.SendAll(t.Context()))
	require.Equal(t, []string{"observe-vm+ v"}, waiting(d, "vm/a/web"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	l.RedeliverAll()
	l.RedeliverAll()
	go func() { defer close(done); l.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	require.Eventually(t, func() bool {
		o := outbox(d)
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.pending["vm/a/web"]) == 1 && o.pending["vm/a/web"][0].Class == delivery.Resync
	}, 10*time.Second, time.Millisecond)
}

// inOrder is a queue that records what it gets as "workflow: signal[+]", with + for a delivery that may start the
// workflow.
type inOrder struct {
	sent      []string
	throttled int
}

func (q *inOrder) Put(d delivery.Delivery) {
	q.sent = append(q.sent, d.Workflow+": "+signalOf(&d))
}

func (q *inOrder) Throttle(context.Context, string) error {
	q.throttled++
	return nil
}

// TestNewLeaderSendsLatestChangesFirst: a VM that was made while no process led does not wait for all others.
func TestNewLeaderSendsLatestChangesFirst(t *testing.T) {
	d := newTestDiffer(t)
	for name, version := range map[string]string{"nine": "9", "ten": "10", "two": "2"} {
		require.NoError(t, d.informers.VMs.GetStore().Add(&kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: name, UID: types.UID(name), ResourceVersion: version}}))
		require.NoError(t, d.informers.VMIs.GetStore().Add(&kubevirt.VirtualMachineInstance{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID("i" + name),
				ResourceVersion: version + "0"}}))
	}
	var sent inOrder
	l := NewResyncer(New(d.informers, &sent, d.metrics), Clients{}, unlimited(), zerolog.Nop())
	require.NoError(t, l.SendAll(t.Context()))
	require.Equal(t, []string{"vm/a/ten: observe-vm+", "vm/a/nine: observe-vm+", "vm/a/two: observe-vm+",
		"vmi/a/ten: observe-vmi+", "vmi/a/nine: observe-vmi+", "vmi/a/two: observe-vmi+"}, sent.sent[:6])
}

// TestNewLeaderSendsVMIWithPodAndNode: a new leader sends a VMI together with its pod and node, and one workflow task
// processes all three. The state of a node, sent to all of its VMIs at once, would be a burst without a rate limit. A
// pod whose VMI is gone is sent by itself.
func TestNewLeaderSendsVMIWithPodAndNode(t *testing.T) {
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
	l := NewResyncer(New(d.informers, &sent, d.metrics), Clients{}, unlimited(), zerolog.Nop())
	require.NoError(t, l.SendAll(t.Context()))
	require.Equal(t, []string{
		"vmi/a/web: observe-vmi+", "vmi/a/web: observe-pod", "vmi/a/web: observe-node",
		"vmi/a/other: observe-vmi+", "vmi/a/other: observe-pod", "vmi/a/other: observe-node",
	}, sent.sent[:6])
	require.Equal(t, []string{"vmi/a/gone: observe-pod+", "vmi/a/gone: observe-node"}, sent.sent[len(sent.sent)-2:])
	require.Equal(t, 4, sent.throttled,
		"only the two VMIs, the node and the last pod wait for the rate limit")
}

func TestWorkflowTypes(t *testing.T) {
	require.Equal(t, []string{"VirtualMachine", "VirtualMachineInstance", "ReplicaSet", "Node", "Migration",
		"MigrationAdmission", "WorkloadUpdate"}, New(&watch.Informers{}, nil, nil).WorkflowTypes())
}
