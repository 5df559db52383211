package diff

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/watch"
	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/observe"
)

// newTestDiffer returns a differ whose informers the test fills.
func newTestDiffer(t *testing.T) *Differ {
	t.Helper()
	kv, err := kube.New(&rest.Config{Host: "http://127.0.0.1:1"})
	require.NoError(t, err)
	i, err := watch.NewInformers(fake.NewClientset(), kv, "virtflow", "launcher:new")
	require.NoError(t, err)
	return New(i, &queue{pending: map[string][]*delivery.Delivery{}}, delivery.NewMetrics(nil))
}

// stripped returns what informers keep of an object.
func stripped[T any](t *testing.T, o T) T {
	t.Helper()
	less, err := watch.Strip(o)
	require.NoError(t, err)
	return less.(T)
}

// signalOf returns the signal of a delivery, with a + if it may start the workflow.
func signalOf(d *delivery.Delivery) string {
	if d.Start != nil {
		return d.Signal + "+"
	}
	return d.Signal
}

// waiting returns what waits for a workflow, as signalOf and the UID.
func waiting(e *Differ, workflow string) []string {
	var out []string
	for _, d := range outbox(e).pending[workflow] {
		out = append(out, signalOf(d)+" "+d.UID)
	}
	delete(outbox(e).pending, workflow)
	return out
}

func controlledBy(o metav1.Object, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(o, kubevirt.GroupVersion.WithKind(kind))}
}

func TestSendsObservations(t *testing.T) {
	e := newTestDiffer(t)
	vm := &kubevirt.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "v", ResourceVersion: "1"}}
	vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "web", UID: "i", ResourceVersion: "2",
		OwnerReferences: controlledBy(vm, "VirtualMachine"),
	}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: "p", Finalizers: []string{contract.FinalizerPod},
			OwnerReferences: controlledBy(vmi, "VirtualMachineInstance")},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	require.NoError(t, e.informers.VMIs.GetStore().Add(vmi))
	e.entities.vmi.sendChanged("a/web", change)
	require.Equal(t, []string{"observe-vmi+ i"}, waiting(e, "vmi/a/web"))
	require.Equal(t, []string{"observe-vmi i"}, waiting(e, "vm/a/web"), "a VM that is not there is not brought to life")

	require.NoError(t, e.informers.VMs.GetStore().Add(vm))
	e.entities.vm.sendChanged("a/web", change)
	require.Equal(t, []string{"observe-vm+ v", "observe-vmi i"}, waiting(e, "vm/a/web"))
	e.entities.vm.sendChanged("a/web", change)
	e.entities.vmi.sendChanged("a/web", change)
	vm, vmi = vm.DeepCopy(), vmi.DeepCopy()
	vm.ResourceVersion, vmi.ResourceVersion = "3", "4"
	require.NoError(t, e.informers.VMs.GetStore().Update(vm))
	require.NoError(t, e.informers.VMIs.GetStore().Update(vmi))
	e.entities.vm.sendChanged("a/web", change)
	e.entities.vmi.sendChanged("a/web", change)
	require.Empty(t, waiting(e, "vm/a/web"), "nothing but the version has changed")
	require.Empty(t, waiting(e, "vmi/a/web"))

	require.NoError(t, e.informers.Pods.GetStore().Add(pod))
	e.sendPod("a/p", change)
	require.Empty(t, waiting(e, "vmi/a/web"), "its maker knows it")
	e.others.pods.forget("p")
	e.sendPod("a/p", resync)
	require.Equal(t, []string{"observe-pod p"}, waiting(e, "vmi/a/web"))

	vmi = vmi.DeepCopy()
	vmi.Finalizers = []string{"x"}
	require.NoError(t, e.informers.VMIs.GetStore().Update(vmi))
	e.entities.vmi.sendChanged("a/web", change)
	require.Equal(t, []string{"observe-vmi+ i"}, waiting(e, "vmi/a/web"))
	require.Empty(t, waiting(e, "vm/a/web"), "finalizers are no business of the VM's")

	e.sendPodGone(pod, change)
	e.entities.vmi.sendGone(vmi, change)
	e.entities.vm.sendGone(vm, change)
	require.Equal(t, []string{"observe-pod p", "observe-vmi i"}, waiting(e, "vmi/a/web"))
	require.Equal(t, []string{"observe-vmi i", "observe-vm v"}, waiting(e, "vm/a/web"))
}

// TestDebouncesNewInstanceForVM, as long as it decides nothing: its VM has requested it.
func TestDebouncesNewInstanceForVM(t *testing.T) {
	created := delivery.PolicyOf(delivery.KindVMIForVM, delivery.Created).Debounce
	always, manual := kubevirt.RunStrategyAlways, kubevirt.RunStrategyManual
	for name, c := range map[string]struct {
		strategy kubevirt.VirtualMachineRunStrategy
		from     delivery.Cause
		edit     func(*kubevirt.VirtualMachine, *kubevirt.VirtualMachineInstance)
		sooner   bool
	}{
		"just made": {},
		"with another reason": {edit: func(_ *kubevirt.VirtualMachine, vmi *kubevirt.VirtualMachineInstance) {
			vmi.Status.Phase, vmi.Status.Conditions[0].Reason = kubevirt.Scheduling, "ContainersNotReady"
		}},
		"without controller": {edit: func(_ *kubevirt.VirtualMachine, vmi *kubevirt.VirtualMachineInstance) {
			vmi.OwnerReferences, vmi.Status.VirtualMachineRevisionName = nil, "revision-start-vm-v-1"
		}, sooner: true},
		"of a VM whose request it answers": {edit: func(
			vm *kubevirt.VirtualMachine, _ *kubevirt.VirtualMachineInstance,
		) {
			vm.Status.StateChangeRequests = []kubevirt.VirtualMachineStateChangeRequest{{Action: kubevirt.StartRequest}}
		}, sooner: true},
		"of a VM that would not have another one": {strategy: manual, sooner: true},
		"of a VM that is being deleted": {edit: func(vm *kubevirt.VirtualMachine, _ *kubevirt.VirtualMachineInstance) {
			vm.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}, sooner: true},
		"being deleted": {edit: func(_ *kubevirt.VirtualMachine, vmi *kubevirt.VirtualMachineInstance) {
			vmi.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}, sooner: true},
		"with a condition": {edit: func(_ *kubevirt.VirtualMachine, vmi *kubevirt.VirtualMachineInstance) {
			vmi.Status.Conditions = []kubevirt.VirtualMachineInstanceCondition{{Type: "PodScheduled", Status: "False"}}
		}, sooner: true},
		"whose guest runs": {edit: func(_ *kubevirt.VirtualMachine, vmi *kubevirt.VirtualMachineInstance) {
			vmi.Status.Phase = kubevirt.Running
		}, sooner: true},
		"of a workflow that may have forgotten": {from: resync, sooner: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newTestDiffer(t)
			vm := &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "v"},
				Spec: kubevirt.VirtualMachineSpec{RunStrategy: &always}}
			vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "i",
				OwnerReferences: controlledBy(vm, "VirtualMachine")}}
			vmi.Status.Phase = kubevirt.Pending
			vmi.Status.Conditions = []kubevirt.VirtualMachineInstanceCondition{{Type: "Ready", Status: "False"}}
			if c.strategy != "" {
				vm.Spec.RunStrategy = &c.strategy
			}
			if c.edit != nil {
				c.edit(vm, vmi)
			}
			require.NoError(t, e.informers.VMs.GetStore().Add(vm))
			require.NoError(t, e.informers.VMIs.GetStore().Add(vmi))
			e.entities.vmi.sendChanged("a/web", c.from)
			require.Len(t, waiting(e, "vmi/a/web"), 1, "its own workflow is sent it")
			list := outbox(e).pending["vm/a/web"]
			require.Len(t, list, 1)
			require.Equal(t, c.sooner, list[0].Debounce < created)
			vmi = vmi.DeepCopy()
			vmi.Status.Phase = kubevirt.Running
			require.NoError(t, e.informers.VMIs.GetStore().Update(vmi))
			e.entities.vmi.sendChanged("a/web", change)
			list = outbox(e).pending["vm/a/web"]
			require.Len(t, list, 1, "it takes the place of what waited")
			if c.edit == nil {
				require.Zero(t, list[0].Debounce)
			}
		})
	}
}

// TestRecordsEntitysOwnWritesOnly: they are not sent, but recorded for a redelivery.
func TestRecordsEntitysOwnWritesOnly(t *testing.T) {
	e := newTestDiffer(t)
	vm := &kubevirt.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "v", ResourceVersion: "1"}}
	changed := func(edit func(*kubevirt.VirtualMachine)) {
		vm = vm.DeepCopy()
		edit(vm)
		require.NoError(t, e.informers.VMs.GetStore().Add(vm))
		e.entities.vm.sendChanged("a/web", change)
	}
	changed(func(*kubevirt.VirtualMachine) {})
	require.Equal(t, []string{"observe-vm+ v"}, waiting(e, "vm/a/web"))
	changed(func(vm *kubevirt.VirtualMachine) {
		vm.ResourceVersion, vm.Status.PrintableStatus = "2", kubevirt.VirtualMachineStatusMigrating
	})
	require.Empty(t, waiting(e, "vm/a/web"))
	lost := outbox(e).recorded
	require.Len(t, lost, 1)
	require.Equal(t, observe.VM(vm), lost[0].Payload)
	require.NotNil(t, lost[0].Start)
}

// TestFlowControlsRequests: requests to a workflow that was sent its object before, and no other changes.
func TestFlowControlsRequests(t *testing.T) {
	e := newTestDiffer(t)
	vm := &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "v"}}
	vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "i"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", UID: "n"}}
	keep := func(generation int64, deleted *metav1.Time) {
		for _, o := range []metav1.Object{vm, vmi, node} {
			o.SetGeneration(generation)
			o.SetDeletionTimestamp(deleted)
		}
		node.Spec.Unschedulable = deleted != nil
		require.NoError(t, e.informers.VMs.GetStore().Add(vm.DeepCopy()))
		require.NoError(t, e.informers.VMIs.GetStore().Add(vmi.DeepCopy()))
		require.NoError(t, e.informers.Nodes.GetStore().Add(node.DeepCopy()))
	}
	send := func(from delivery.Cause) map[string]bool {
		e.entities.vm.sendChanged("a/web", from)
		e.entities.vmi.sendChanged("a/web", from)
		e.entities.node.sendChanged("node1", from)
		controlled := map[string]bool{}
		for workflow, list := range outbox(e).pending {
			for _, d := range list {
				if d.Kind == "vm" || d.Kind == "vmi" || d.Kind == "node" {
					controlled[workflow] = d.Class == delivery.Request
				}
			}
		}
		outbox(e).pending = map[string][]*delivery.Delivery{}
		return controlled
	}
	keep(1, nil)
	none := map[string]bool{"vm/a/web": false, "vmi/a/web": false, "node/node1": false}
	require.Equal(t, none, send(change))
	keep(1, &metav1.Time{Time: time.Now()})
	require.Equal(t, map[string]bool{"vm/a/web": true, "vmi/a/web": true, "node/node1": false}, send(change))
	keep(1, nil)
	require.Equal(t, none, send(resync))
	keep(2, nil)
	require.Equal(t, map[string]bool{"vm/a/web": true}, send(change), "its spec")
	vm.Finalizers, vmi.Finalizers = []string{"f"}, []string{"f"}
	keep(2, nil)
	require.Equal(t, map[string]bool{"vm/a/web": false, "vmi/a/web": false}, send(change), "there is no request")
	vm.Status.StateChangeRequests = []kubevirt.VirtualMachineStateChangeRequest{
		{Action: kubevirt.StopRequest}, {Action: kubevirt.StartRequest}}
	keep(2, nil)
	require.Equal(t, map[string]bool{"vm/a/web": true}, send(change))
	vm.Status.StateChangeRequests = vm.Status.StateChangeRequests[1:]
	keep(2, nil)
	require.Equal(t, map[string]bool{"vm/a/web": false}, send(change), "its entity has stopped it")
}

// TestSendsEndOfOrphan: to a VM of its name, which may wait for it: the garbage collector has removed the reference.
func TestSendsEndOfOrphan(t *testing.T) {
	e := newTestDiffer(t)
	vm := &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "v"}}
	vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "i"}}
	e.entities.vmi.sendGone(vmi, change)
	require.Empty(t, waiting(e, "vm/a/web"), "there is no VM of its name")
	require.NoError(t, e.informers.VMs.GetStore().Add(vm))
	require.NoError(t, e.informers.VMIs.GetStore().Add(vmi))
	e.entities.vmi.sendChanged("a/web", change)
	require.Empty(t, waiting(e, "vm/a/web"), "as long as it is there it is not the VM's")
	e.entities.vmi.sendGone(vmi, change)
	require.Equal(t, []string{"observe-vmi i"}, waiting(e, "vm/a/web"))
	vmi.OwnerReferences = controlledBy(vm, "VirtualMachineInstanceReplicaSet")
	e.entities.vmi.sendGone(vmi, change)
	require.Empty(t, waiting(e, "vm/a/web"), "it was a set's")
}

// TestSendsInstanceWithoutOwnerReference to the VM that it was made for, if that is to stay.
func TestSendsInstanceWithoutOwnerReference(t *testing.T) {
	vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "i"}}
	vmi.Status.VirtualMachineRevisionName = "revision-start-vm-v-3"
	vm := func(uid string) *kubevirt.VirtualMachine {
		return &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: types.UID(uid)}}
	}
	goes := vm("v")
	goes.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	taken := vmi.DeepCopy()
	taken.OwnerReferences = controlledBy(goes, "VirtualMachineInstanceReplicaSet")
	for name, c := range map[string]struct {
		vm   *kubevirt.VirtualMachine
		vmi  *kubevirt.VirtualMachineInstance
		sent bool
	}{
		"stays":                 {vm("v"), vmi, true},
		"goes without it":       {goes, vmi, false},
		"one of its name":       {vm("v2"), vmi, false},
		"it is a set's by now":  {vm("v"), taken, false},
		"it was made for no VM": {vm("v"), &kubevirt.VirtualMachineInstance{ObjectMeta: vmi.ObjectMeta}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newTestDiffer(t)
			require.NoError(t, e.informers.VMs.GetStore().Add(c.vm))
			require.NoError(t, e.informers.VMIs.GetStore().Add(c.vmi))
			e.entities.vmi.sendChanged("a/web", change)
			require.Equal(t, c.sent, len(waiting(e, "vm/a/web")) == 1)
		})
	}
}

// TestSendsPodWithoutOwnerReference: the garbage collector removes the ownerReference of the pod of a VMI deleted with
// --cascade=orphan.
func TestSendsPodWithoutOwnerReference(t *testing.T) {
	e := newTestDiffer(t)
	whole := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "p", UID: "p", Finalizers: []string{contract.FinalizerPod},
			Labels: map[string]string{contract.LabelLauncher: contract.LabelLauncherValue,
				contract.LabelCreatedBy: "i", "x": "y"},
			Annotations: map[string]string{contract.AnnotationDomain: "web.with.dots"},
		},
		Status: corev1.PodStatus{Phase: corev1.PodFailed},
	}
	stripped, err := watch.Strip(whole)
	require.NoError(t, err)
	pod := stripped.(*corev1.Pod)
	require.NoError(t, e.informers.Pods.GetStore().Add(pod))
	require.Len(t, e.informers.PodsOf("i"), 1)
	e.sendPod("a/p", change)
	o, known := recall(e.record, podKind(), "p")
	require.True(t, known)
	require.Equal(t, "i", o.VMIUID)
	require.Equal(t, []string{"observe-pod+ p"}, waiting(e, "vmi/a/web.with.dots"))
	e.sendPodGone(pod, change)
	require.Equal(t, []string{"observe-pod p"}, waiting(e, "vmi/a/web.with.dots"))
	delete(pod.Labels, contract.LabelLauncher)
	require.Nil(t, observe.Owner(pod), "any user may give a pod the other label")
}

func TestSendsNodeWithWorkerState(t *testing.T) {
	e := newTestDiffer(t)
	require.NoError(t, e.informers.Nodes.GetStore().
		Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", UID: "n"}}))
	e.entities.node.sendChanged("node1", change)
	require.Equal(t, []string{"observe-node+ n"}, waiting(e, "node/node1"))
	worker := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow", Name: "w"},
		Spec: corev1.PodSpec{NodeName: "node1"}}
	require.NoError(t, e.informers.Workers.GetIndexer().Add(worker))
	e.entities.node.sendChanged("node1", change)
	require.Empty(t, waiting(e, "node/node1"))
	worker = worker.DeepCopy()
	worker.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	require.NoError(t, e.informers.Workers.GetIndexer().Update(worker))
	e.entities.node.sendChanged("node1", change)
	require.Equal(t, []string{"observe-node+ n"}, waiting(e, "node/node1"))
}

// TestSendsNodesWhenSettingsChange: another drain taint concerns the nodes with one of the two taints, other obsolete
// CPU models concern all nodes. So does the end of the KubeVirt object.
func TestSendsNodesWhenSettingsChange(t *testing.T) {
	e := newTestDiffer(t)
	for name, key := range map[string]string{"plain": "x", "former": contract.TaintDrain, "latter": "a.b/empty"} {
		require.NoError(t, e.informers.Nodes.GetStore().Add(stripped(t, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}},
		})))
	}
	kv := stripped(t, &kubevirt.KubeVirt{
		ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow", Name: "kubevirt", ResourceVersion: "8"},
		Spec: kubevirt.KubeVirtSpec{Configuration: kubevirt.KubeVirtConfiguration{
			MigrationConfiguration: &kubevirt.MigrationConfiguration{NodeDrainTaintKey: new("a.b/empty")}}},
	})
	e.sendSettings(kv)
	drains := func() map[string]bool {
		out := map[string]bool{}
		for _, name := range []string{"plain", "former", "latter"} {
			for _, d := range outbox(e).pending[contract.NodeID(name)] {
				out[name] = d.Payload.(contract.NodeObservation).Drain
			}
			delete(outbox(e).pending, contract.NodeID(name))
		}
		return out
	}
	require.Empty(t, drains(), "nothing has been sent yet")
	for _, name := range []string{"plain", "former", "latter"} {
		e.entities.node.sendChanged(name, change)
	}
	require.Equal(t, map[string]bool{"plain": false, "former": true, "latter": false}, drains())
	require.NoError(t, e.informers.Settings.GetStore().Add(kv))
	e.sendSettings(kv)
	sent := outbox(e).pending[contract.NodeID("latter")][0].Payload.(contract.NodeObservation)
	require.Equal(t, "8", sent.SettingsVersion)
	require.Equal(t, "a.b/empty", sent.DrainTaint)
	require.Equal(t, map[string]bool{"former": false, "latter": true}, drains())
	require.Len(t, e.settingsChanged, 1, "the name of the taint reaches the others, too, but is paced")
	e.sendSettings(kv)
	require.Empty(t, drains(), "nothing has changed")
	again := kv.DeepCopy()
	again.Spec.Configuration.ObsoleteCPUModels = map[string]bool{"Penryn": true}
	require.NoError(t, e.informers.Settings.GetStore().Update(stripped(t, again)))
	e.sendSettings(again)
	require.Empty(t, drains(), "nodes that only offer other CPU models are paced")
	require.Len(t, e.settingsChanged, 1)
	<-e.settingsChanged
	throttled := outbox(e).throttled
	require.NoError(t, e.sendUnchanged(t.Context()))
	require.Equal(t, delivery.Resync, outbox(e).pending[contract.NodeID("plain")][0].Class)
	require.Len(t, drains(), 3, "all nodes offer other CPU models")
	require.Equal(t, throttled+3, outbox(e).throttled)
	require.NoError(t, e.sendUnchanged(t.Context()))
	require.Empty(t, drains(), "they have been sent")
	require.NoError(t, e.informers.Settings.GetStore().Delete(kv))
	e.sendSettings(kv)
	require.Equal(t, map[string]bool{"former": true, "latter": false}, drains(), "users may wait for these")
	<-e.settingsChanged
	require.NoError(t, e.sendUnchanged(t.Context()))
	require.Equal(t, map[string]bool{"plain": false}, drains())
}
