package diff

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

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/watch"
	"github.com/virtflow/virtflow/internal/temporalclient"
)

// emptied is a Temporal that has lost its workflows. It records the last signal of each kind that each has received
// since it runs again.
type emptied struct {
	mu       sync.Mutex
	received map[string]map[string]any // by workflow, and "signal UID"
	refuses  int                       // so many starts, as it does without its search attributes
}

func (e *emptied) Send(_ context.Context, d *delivery.Delivery) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, runs := e.received[d.Workflow]
	switch {
	case d.Start == nil && !runs:
		return delivery.ErrAbsent
	case d.Start != nil && e.refuses > 0:
		e.refuses--
		return serviceerror.NewInvalidArgument("no such search attribute")
	case !runs:
		e.received[d.Workflow] = map[string]any{}
	}
	e.received[d.Workflow][d.Signal+" "+d.UID] = d.Payload
	return nil
}

func (e *emptied) WaitProcessed(context.Context, string) error { return nil }

// TestWorkflowsReceiveAllObservationsInAnyOrder: Temporal has lost everything (or, in every second case, nothing), and
// objects change in any order before, while and after a new leader sends all of them. In the end each workflow has the
// observations that concern it.
func TestWorkflowsReceiveAllObservationsInAnyOrder(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(1, seed)) // to see it again
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
		temporal := &emptied{received: map[string]map[string]any{}, refuses: random.IntN(3)}
		if seed%2 == 1 {
			for workflow := range must {
				temporal.received[workflow] = map[string]any{}
			}
		}
		ready := corev1.ConditionTrue
		synctest.Test(t, func(t *testing.T) {
			limiter := rate.NewLimiter(2, 1)
			o := delivery.NewOutbox(temporal, temporalclient.NewOutages(), func() int64 { return 0 }, limiter,
				d.metrics, zerolog.Nop())
			l := NewResyncer(New(i, o, d.metrics), Clients{}, limiter, zerolog.Nop())
			d := l.differ
			turn := func(to corev1.ConditionStatus) func() {
				return func() {
					node, _ := watch.Get[*corev1.Node](i.Nodes, "node1")
					node, ready = node.DeepCopy(), to
					node.Status.Conditions[0].Status = to
					keep(t, i.Nodes.GetStore(), node)
					d.entities.node.sendChanged("node1", change)
				}
			}
			changes := []func(){
				func() { d.entities.vm.sendChanged("a/web", change) },
				func() { d.entities.vmi.sendChanged("a/web", change) },
				func() { d.entities.vmi.sendChanged("a/replica", change) },
				func() { d.entities.set.sendChanged("a/set", change) },
				func() { d.entities.migration.sendChanged("a/move", change) },
				func() { d.sendPod("a/p", change) },
				func() { d.sendPod("a/target", change) },
				func() { d.sendPod("a/orphan", change) },
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
				require.Contains(t, temporal.received[workflow], what, "%s, seed %d", workflow, seed)
			}
			for what, received := range temporal.received[workflow] {
				if state, ok := received.(contract.NodeState); ok {
					require.Equal(t, ready == corev1.ConditionTrue, state.Ready, "%s %s, seed %d", workflow, what, seed)
				}
			}
		}
		if _, received := temporal.received["migration/a/move"]["observe-node p"]; !received {
			require.Equal(t, corev1.ConditionTrue, ready, "a migration takes a node for well; seed %d", seed)
		}
	}
}
