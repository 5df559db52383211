package crdwatch

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/temporalclient"
	"github.com/virtflow/virtflow/workflows/contract"
)

// emptied is a Temporal that has lost its workflows. It notes what each has heard last of what since it runs again.
type emptied struct {
	mu      sync.Mutex
	heard   map[string]map[string]any // by workflow, and "signal UID"
	order   []string                  // "signal UID", of all workflows
	refuses int                       // so many starts, as it does without its search attributes
}

func (e *emptied) Send(_ context.Context, d *Delivery) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, runs := e.heard[d.Workflow]
	switch {
	case d.Start == nil && !runs:
		return ErrAbsent
	case d.Start != nil && e.refuses > 0:
		e.refuses--
		return serviceerror.NewInvalidArgument("no such search attribute")
	case !runs:
		e.heard[d.Workflow] = map[string]any{}
	}
	e.heard[d.Workflow][d.Signal+" "+d.UID] = d.Payload
	e.order = append(e.order, d.Signal+" "+d.UID)
	return nil
}

// TestWhatFindsNoWorkflowWaitsForItsStart: in order, behind that, unless it is the end of something.
func TestWhatFindsNoWorkflowWaitsForItsStart(t *testing.T) {
	at := func(signal, uid string, payload any, start *Start) Delivery {
		return Delivery{Workflow: "vmi/a/b", Signal: signal, UID: uid, Payload: payload, Start: start}
	}
	vmi := at(contract.SignalObserveVMI, "new", contract.VMIObservation{}, &Start{})
	pod := func(uid string, gone bool) Delivery {
		return at(contract.SignalObservePod, uid, contract.PodObservation{Gone: gone}, nil)
	}
	node := func(uid string, gone bool) Delivery {
		return at(contract.SignalObserveNode, uid, contract.NodeState{Gone: gone}, nil)
	}
	for name, c := range map[string]struct {
		refuses int
		put     []Delivery
		want    []string
	}{
		"seen before it": {put: []Delivery{pod("p", false), pod("t", false), vmi, node("p", true), node("t", false)},
			want: []string{"observe-vmi new", "observe-pod p", "observe-pod t", "observe-node p", "observe-node t"}},
		"the start is refused at first": {refuses: 2, put: []Delivery{vmi, pod("p", false), node("p", false)},
			want: []string{"observe-vmi new", "observe-pod p", "observe-node p"}},
		"of an earlier one": {put: []Delivery{pod("old", true),
			at(contract.SignalObserveVMI, "old", contract.VMIObservation{Gone: true}, nil), vmi},
			want: []string{"observe-vmi new"}},
		"of the same kind": {put: []Delivery{
			at(contract.SignalObserveMigration, "old", contract.QueuedMigration{Ended: true}, nil),
			at(contract.SignalObserveMigration, "new", contract.QueuedMigration{}, &Start{})},
			want: []string{"observe-migration new"}},
		"nothing starts it": {put: []Delivery{pod("p", false), node("p", false)}},
	} {
		t.Run(name, func(t *testing.T) {
			temporal := &emptied{heard: map[string]map[string]any{}, refuses: c.refuses}
			o, run := newTestOutbox(t, temporal)
			for _, d := range c.put {
				o.Put(d)
			}
			run()
			require.Eventually(t, func() bool { return !o.Holds("vmi/a/b") }, 10*time.Second, time.Millisecond)
			temporal.mu.Lock()
			defer temporal.mu.Unlock()
			require.Equal(t, c.want, temporal.order)
		})
	}
}

// TestNothingGoesToNobody: Temporal has lost everything (or in every second case nothing), and objects change in any
// order before, while and after a new leader sends all of them. In the end each workflow knows what is its business.
func TestNothingGoesToNobody(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(1, seed)) //nolint:gosec // to see it again
		d := newTestDiffer(t)
		i := d.informers
		vm := &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "v"}}
		set := &kubevirt.VirtualMachineInstanceReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "set", UID: "s"},
			Spec: kubevirt.VirtualMachineInstanceReplicaSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
		vmi, pod, vmim := migrated(t, d)
		vmi = vmi.DeepCopy()
		vmi.OwnerReferences = controlledBy(vm, "VirtualMachine")
		vmi.Status.EvacuationNodeName, vmi.Status.Phase = "node1", kubevirt.Running
		replica := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "replica",
			UID: "r", OwnerReferences: controlledBy(set, "VirtualMachineInstanceReplicaSet"),
			Labels: map[string]string{"app": "web"}}}
		orphan := pod.DeepCopy()
		orphan.Name, orphan.UID, orphan.OwnerReferences = "orphan", "o",
			controlledBy(&metav1.ObjectMeta{Namespace: "a", Name: "gone", UID: "g"}, "VirtualMachineInstance")
		keep(t, i.VMs.GetStore(), vm)
		keep(t, i.VMIs.GetStore(), vmi)
		keep(t, i.VMIs.GetStore(), replica)
		keep(t, i.ReplicaSets.GetStore(), set)
		keep(t, i.Pods.GetStore(), targetPod(vmi, vmim.Name))
		keep(t, i.Pods.GetStore(), orphan)
		must := map[string][]string{
			"vm/a/web":           {"observe-vm v", "observe-vmi i"},
			"vmi/a/web":          {"observe-vmi i", "observe-pod p", "observe-pod t", "observe-node p"},
			"vmi/a/gone":         {"observe-pod o", "observe-node o"},
			"vmi/a/replica":      {"observe-vmi r"},
			"replicaset/a/set":   {"observe-replicaset s", "observe-replicas replicas"},
			"node/node1":         {"observe-node n", "observe-evacuees evacuees"},
			"migration/a/move":   {"observe-migration uid-move", "observe-pod p", "observe-pod t"},
			contract.AdmissionID: {"observe-migration uid-move"},
		}
		temporal := &emptied{heard: map[string]map[string]any{}, refuses: random.IntN(3)}
		if seed%2 == 1 {
			for workflow := range must {
				temporal.heard[workflow] = map[string]any{}
			}
		}
		ready := corev1.ConditionTrue
		synctest.Test(t, func(t *testing.T) {
			o := newOutbox(temporal, temporalclient.NewOutages(), d.metrics, zerolog.Nop())
			l := NewLeader(Options{}, d.metrics, i, o, rate.Limit(2))
			d := l.differ
			turn := func(to corev1.ConditionStatus) func() {
				return func() {
					node, _ := get[*corev1.Node](i.Nodes, "node1")
					node, ready = node.DeepCopy(), to
					node.Status.Conditions[0].Status = to
					keep(t, i.Nodes.GetStore(), node)
					d.entities.node.changed(d, "node1", change)
				}
			}
			changes := []func(){
				func() { d.entities.vm.changed(d, "a/web", change) },
				func() { d.entities.vmi.changed(d, "a/web", change) },
				func() { d.entities.vmi.changed(d, "a/replica", change) },
				func() { d.entities.set.changed(d, "a/set", change) },
				func() { d.entities.move.changed(d, "a/move", change) },
				func() { d.pod("a/p", change) },
				func() { d.pod("a/target", change) },
				func() { d.pod("a/orphan", change) },
				turn(corev1.ConditionTrue), turn(corev1.ConditionUnknown), turn(corev1.ConditionUnknown),
				turn(corev1.ConditionTrue),
			}
			random.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
			ctx, cancel := context.WithCancel(t.Context())
			begins := time.Duration(random.IntN(3000)) * time.Millisecond
			var running sync.WaitGroup
			running.Go(func() { o.Run(ctx, 4) })
			running.Go(func() {
				time.Sleep(begins)
				if err := l.SendAll(ctx); err != nil {
					t.Error(err)
				}
			})
			for _, c := range changes[:random.IntN(len(changes)+1)] {
				c()
				time.Sleep(time.Duration(random.IntN(2)*random.IntN(1000)) * time.Millisecond)
			}
			time.Sleep(5 * time.Minute)
			cancel()
			running.Wait()
		})
		for workflow, want := range must {
			for _, what := range want {
				require.Contains(t, temporal.heard[workflow], what, "%s, seed %d", workflow, seed)
			}
			for what, heard := range temporal.heard[workflow] {
				if state, ok := heard.(contract.NodeState); ok {
					require.Equal(t, ready == corev1.ConditionTrue, state.Ready, "%s %s, seed %d", workflow, what, seed)
				}
			}
		}
		if _, heard := temporal.heard["migration/a/move"]["observe-node p"]; !heard {
			require.Equal(t, corev1.ConditionTrue, ready, "a migration takes a node for well; seed %d", seed)
		}
	}
}
