package crdwatch

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/crdwatch/fencing"
	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/internal/temporalclient"
	"github.com/virtflow/virtflow/workflows/contract"
)

// newTestDiffer has informers that are filled by hand.
func newTestDiffer(t *testing.T) *differ {
	t.Helper()
	kv, err := kube.New(&rest.Config{Host: "http://127.0.0.1:1"})
	require.NoError(t, err)
	i, err := NewInformers(fake.NewClientset(), kv, "virtflow", "launcher:new")
	require.NoError(t, err)
	m := NewMetrics(nil)
	return newDiffer(i, newOutbox(nil, temporalclient.NewOutages(), m, zerolog.Nop()), m)
}

// outbox is where a differ of these tests queues.
func outbox(e *differ) *Outbox { return e.queue.(*Outbox) } //nolint:forcetypeassert // newTestDiffer says so

// signalOf is what these tests call a delivery: its signal, with a + where it may start the workflow.
func signalOf(d *Delivery) string {
	if d.Start != nil {
		return d.Signal + "+"
	}
	return d.Signal
}

// waiting takes what waits for a workflow, as signalOf and the UID.
func waiting(e *differ, workflow string) []string {
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

func TestWhatIsSentToWhom(t *testing.T) {
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
	e.entities.vmi.changed(e, "a/web", change)
	require.Equal(t, []string{"observe-vmi+ i"}, waiting(e, "vmi/a/web"))
	require.Equal(t, []string{"observe-vmi i"}, waiting(e, "vm/a/web"), "a VM that is not there is not brought to life")

	require.NoError(t, e.informers.VMs.GetStore().Add(vm))
	e.entities.vm.changed(e, "a/web", change)
	require.Equal(t, []string{"observe-vm+ v", "observe-vmi i"}, waiting(e, "vm/a/web"))
	e.entities.vm.changed(e, "a/web", change)
	e.entities.vmi.changed(e, "a/web", change)
	vm, vmi = vm.DeepCopy(), vmi.DeepCopy()
	vm.ResourceVersion, vmi.ResourceVersion = "3", "4"
	require.NoError(t, e.informers.VMs.GetStore().Update(vm))
	require.NoError(t, e.informers.VMIs.GetStore().Update(vmi))
	e.entities.vm.changed(e, "a/web", change)
	e.entities.vmi.changed(e, "a/web", change)
	require.Empty(t, waiting(e, "vm/a/web"), "nothing but the version has changed")
	require.Empty(t, waiting(e, "vmi/a/web"))

	require.NoError(t, e.informers.Pods.GetStore().Add(pod))
	e.pod("a/p", change)
	require.Empty(t, waiting(e, "vmi/a/web"), "its maker knows it")
	e.forgetPod("p")
	e.pod("a/p", resync)
	require.Equal(t, []string{"observe-pod p"}, waiting(e, "vmi/a/web"))

	vmi = vmi.DeepCopy()
	vmi.Finalizers = []string{"x"}
	require.NoError(t, e.informers.VMIs.GetStore().Update(vmi))
	e.entities.vmi.changed(e, "a/web", change)
	require.Equal(t, []string{"observe-vmi+ i"}, waiting(e, "vmi/a/web"))
	require.Empty(t, waiting(e, "vm/a/web"), "finalizers are no business of the VM's")

	e.podGone(pod, change)
	e.entities.vmi.vanished(e, vmi, change)
	e.entities.vm.vanished(e, vm, change)
	require.Equal(t, []string{"observe-pod p", "observe-vmi i"}, waiting(e, "vmi/a/web"))
	require.Equal(t, []string{"observe-vmi i", "observe-vm v"}, waiting(e, "vm/a/web"))
}

// TestAnInstanceThatWasJustMade may wait on its way to its VM, which had it made, as long as it decides nothing.
func TestAnInstanceThatWasJustMade(t *testing.T) {
	always, manual := kubevirt.RunStrategyAlways, kubevirt.RunStrategyManual
	for name, c := range map[string]struct {
		strategy kubevirt.VirtualMachineRunStrategy
		from     origin
		edit     func(*kubevirt.VirtualMachine, *kubevirt.VirtualMachineInstance)
		sooner   bool
	}{
		"just made": {},
		"with another reason": {edit: func(_ *kubevirt.VirtualMachine, vmi *kubevirt.VirtualMachineInstance) {
			vmi.Status.Phase, vmi.Status.Conditions[0].Reason = kubevirt.Scheduling, "ContainersNotReady"
		}},
		"that nobody controls": {edit: func(_ *kubevirt.VirtualMachine, vmi *kubevirt.VirtualMachineInstance) {
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
			e.entities.vmi.changed(e, "a/web", c.from)
			require.Len(t, waiting(e, "vmi/a/web"), 1, "its own workflow hears of it")
			list := outbox(e).pending["vm/a/web"]
			require.Len(t, list, 1)
			require.Equal(t, c.sooner, list[0].Hold < madeHold)
			vmi = vmi.DeepCopy()
			vmi.Status.Phase = kubevirt.Running
			require.NoError(t, e.informers.VMIs.GetStore().Update(vmi))
			e.entities.vmi.changed(e, "a/web", change)
			list = outbox(e).pending["vm/a/web"]
			require.Len(t, list, 1, "it takes the place of what waited")
			if c.edit == nil {
				require.Zero(t, list[0].Hold)
				require.WithinDuration(t, time.Now(), list[0].since, time.Minute)
			}
		})
	}
}

// TestTheEndOfAnOrphanIsSent to a VM of its name, which may be waiting for it: the garbage collector has taken the
// reference away.
// TestWhatAnEntityWritesItself is not sent to it, and kept for when it may have forgotten.
func TestWhatAnEntityWritesItself(t *testing.T) {
	e := newTestDiffer(t)
	vm := &kubevirt.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "v", ResourceVersion: "1"}}
	changed := func(edit func(*kubevirt.VirtualMachine)) {
		vm = vm.DeepCopy()
		edit(vm)
		require.NoError(t, e.informers.VMs.GetStore().Add(vm))
		e.entities.vm.changed(e, "a/web", change)
	}
	changed(func(*kubevirt.VirtualMachine) {})
	require.Equal(t, []string{"observe-vm+ v"}, waiting(e, "vm/a/web"))
	changed(func(vm *kubevirt.VirtualMachine) {
		vm.ResourceVersion, vm.Status.PrintableStatus = "2", kubevirt.VirtualMachineStatusMigrating
	})
	require.Empty(t, waiting(e, "vm/a/web"))
	lost := outbox(e).lately.Lost(time.Now())
	require.Len(t, lost, 1)
	require.Equal(t, observe.VM(vm), lost[0].Payload)
	require.NotNil(t, lost[0].Start)
}

// TestWhatIsUnderFlowControl: what is asked of a workflow that was sent its object before, and not what that waits for.
func TestWhatIsUnderFlowControl(t *testing.T) {
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
	send := func(from origin) map[string]bool {
		e.entities.vm.changed(e, "a/web", from)
		e.entities.vmi.changed(e, "a/web", from)
		e.entities.node.changed(e, "node1", from)
		controlled := map[string]bool{}
		for workflow, list := range outbox(e).pending {
			for _, d := range list {
				if d.Kind == "vm" || d.Kind == "vmi" || d.Kind == "node" {
					controlled[workflow] = d.FlowControlled
				}
			}
		}
		outbox(e).pending = map[string][]*Delivery{}
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
	require.Equal(t, map[string]bool{"vm/a/web": false, "vmi/a/web": false}, send(change), "nobody asks for anything")
	vm.Status.StateChangeRequests = []kubevirt.VirtualMachineStateChangeRequest{
		{Action: kubevirt.StopRequest}, {Action: kubevirt.StartRequest}}
	keep(2, nil)
	require.Equal(t, map[string]bool{"vm/a/web": true}, send(change))
	vm.Status.StateChangeRequests = vm.Status.StateChangeRequests[1:]
	keep(2, nil)
	require.Equal(t, map[string]bool{"vm/a/web": false}, send(change), "its entity has stopped it")
}

func TestTheEndOfAnOrphanIsSent(t *testing.T) {
	e := newTestDiffer(t)
	vm := &kubevirt.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "v"}}
	vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", UID: "i"}}
	e.entities.vmi.vanished(e, vmi, change)
	require.Empty(t, waiting(e, "vm/a/web"), "there is no VM of its name")
	require.NoError(t, e.informers.VMs.GetStore().Add(vm))
	require.NoError(t, e.informers.VMIs.GetStore().Add(vmi))
	e.entities.vmi.changed(e, "a/web", change)
	require.Empty(t, waiting(e, "vm/a/web"), "as long as it is there it is not the VM's")
	e.entities.vmi.vanished(e, vmi, change)
	require.Equal(t, []string{"observe-vmi i"}, waiting(e, "vm/a/web"))
	vmi.OwnerReferences = controlledBy(vm, "VirtualMachineInstanceReplicaSet")
	e.entities.vmi.vanished(e, vmi, change)
	require.Empty(t, waiting(e, "vm/a/web"), "it was a set's")
}

// TestAnInstanceWithoutItsReferenceIsStillSent to the VM that it was made for, if that is to stay.
func TestAnInstanceWithoutItsReferenceIsStillSent(t *testing.T) {
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
		"stays":                  {vm("v"), vmi, true},
		"goes without it":        {goes, vmi, false},
		"one of its name":        {vm("v2"), vmi, false},
		"it is a set's by now":   {vm("v"), taken, false},
		"it was made for nobody": {vm("v"), &kubevirt.VirtualMachineInstance{ObjectMeta: vmi.ObjectMeta}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newTestDiffer(t)
			require.NoError(t, e.informers.VMs.GetStore().Add(c.vm))
			require.NoError(t, e.informers.VMIs.GetStore().Add(c.vmi))
			e.entities.vmi.changed(e, "a/web", change)
			require.Equal(t, c.sent, len(waiting(e, "vm/a/web")) == 1)
		})
	}
}

// TestAnOrphanedPodIsStillSent: the garbage collector takes the ownerReference off the pod of a VMI deleted with
// --cascade=orphan.
func TestAnOrphanedPodIsStillSent(t *testing.T) {
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
	stripped, err := Strip(whole)
	require.NoError(t, err)
	pod := stripped.(*corev1.Pod) //nolint:forcetypeassert // it gets one
	require.NoError(t, e.informers.Pods.GetStore().Add(pod))
	require.Len(t, e.informers.podsOf("i"), 1)
	e.pod("a/p", change)
	o, known := recall(e, podKind(), "p")
	require.True(t, known)
	require.Equal(t, "i", o.VMIUID)
	require.Equal(t, []string{"observe-pod+ p"}, waiting(e, "vmi/a/web.with.dots"))
	e.podGone(pod, change)
	require.Equal(t, []string{"observe-pod p"}, waiting(e, "vmi/a/web.with.dots"))
	delete(pod.Labels, contract.LabelLauncher)
	require.Nil(t, observe.Owner(pod), "anybody may give a pod the other label")
}

func TestNodeAndItsWorker(t *testing.T) {
	e := newTestDiffer(t)
	require.NoError(t, e.informers.Nodes.GetStore().
		Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", UID: "n"}}))
	e.entities.node.changed(e, "node1", change)
	require.Equal(t, []string{"observe-node+ n"}, waiting(e, "node/node1"))
	worker := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "virtflow", Name: "w"},
		Spec: corev1.PodSpec{NodeName: "node1"}}
	require.NoError(t, e.informers.Workers.GetIndexer().Add(worker))
	e.entities.node.changed(e, "node1", change)
	require.Empty(t, waiting(e, "node/node1"))
	worker = worker.DeepCopy()
	worker.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	require.NoError(t, e.informers.Workers.GetIndexer().Update(worker))
	e.entities.node.changed(e, "node1", change)
	require.Equal(t, []string{"observe-node+ n"}, waiting(e, "node/node1"))
}

// withoutToken has a Temporal keep no fencing token yet.
func withoutToken(temporal *mocks.Client) {
	update := &mocks.WorkflowUpdateHandle{}
	update.On("Get", mock.Anything, mock.Anything).Return(nil)
	temporal.On("QueryWorkflowWithOptions", mock.Anything, mock.Anything).
		Return(nil, serviceerror.NewNotFound("no such workflow")).Once()
	temporal.On("NewWithStartWorkflowOperation", mock.Anything, mock.Anything, mock.Anything).Return(nil)
	temporal.On("UpdateWithStartWorkflow", mock.Anything, mock.Anything).Return(update, nil)
	temporal.On("QueryWorkflowWithOptions", mock.Anything, mock.Anything).Return(nil, errors.New("no worker"))
}

// TestTheGuardLooksWhenTemporalIsBack, and until it could.
func TestTheGuardLooksWhenTemporalIsBack(t *testing.T) {
	leases := fake.NewClientset().CoordinationV1().Leases("virtflow")
	temporal := &mocks.Client{}
	temporal.On("QueryWorkflowWithOptions", mock.Anything, mock.Anything).Return(nil, errors.New("no worker")).Once()
	withoutToken(temporal)
	w := &watch{Watcher: &Watcher{
		options: Options{Outages: temporalclient.NewOutages(), Log: zerolog.Nop()},
		fence:   fencing.New(temporal, leases),
		metrics: NewMetrics(nil),
	}}
	w.options.Outages.Suspect(time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.guard(ctx, nil) }()
	require.Eventually(t, func() bool {
		return w.options.Outages.Suspicion().IsZero()
	}, 20*time.Second, time.Millisecond)
	require.EqualValues(t, 1, w.epoch.Load())
	cancel()
	<-done
}

// TestAnEpochThatAnotherBegan has everything read anew, also by a leader that could not read the epoch as it began: its
// informers may have been filled before etcd was put back.
func TestAnEpochThatAnotherBegan(t *testing.T) {
	token := contract.FencingToken{Epoch: 3, Counter: 7}
	for known, anew := range map[int64]bool{0: true, 2: true, 3: false} {
		leases := fake.NewClientset().CoordinationV1().Leases("virtflow")
		temporal := &mocks.Client{}
		payloads, err := converter.GetDefaultDataConverter().ToPayloads(token)
		require.NoError(t, err)
		temporal.On("QueryWorkflowWithOptions", mock.Anything, mock.Anything).
			Return(&client.QueryWorkflowWithOptionsResponse{QueryResult: client.NewValue(payloads)}, nil)
		withoutToken(temporal)
		fence := fencing.New(temporal, leases)
		_, err = leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: fencing.LeaseName, Annotations: map[string]string{
				"virtflow.io/fencing-epoch":   strconv.FormatInt(token.Epoch, 10),
				"virtflow.io/fencing-counter": strconv.FormatInt(token.Counter, 10),
			}}}, metav1.CreateOptions{})
		require.NoError(t, err)
		ended := false
		w := &watch{end: func() { ended = true }, Watcher: &Watcher{
			options: Options{Outages: temporalclient.NewOutages(), Log: zerolog.Nop()},
			fence:   fence, metrics: NewMetrics(nil),
		}}
		w.epoch.Store(known)
		require.Equal(t, !anew, w.look(t.Context(), nil), "epoch %d was known", known)
		require.Equal(t, anew, ended, "epoch %d was known", known)
		if anew {
			require.Equal(t, known, w.epoch.Load(), "what the informers hold is of that epoch")
		}
	}
}

// TestAgainstAPIServer watches a real API server that has the CRDs (VIRTFLOW_TEST_KUBECONFIG).
func TestAgainstAPIServer(t *testing.T) {
	path := os.Getenv("VIRTFLOW_TEST_KUBECONFIG")
	if path == "" {
		t.Skip("VIRTFLOW_TEST_KUBECONFIG names no API server")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	clients, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	kv, err := kube.New(config)
	require.NoError(t, err)
	ns, err := clients.CoreV1().Namespaces().
		Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "crdwatch-test-"}},
			metav1.CreateOptions{})
	require.NoError(t, err)
	temporal := &mocks.Client{}
	temporal.On("ListWorkflow", mock.Anything, mock.Anything).
		Return(&workflowservice.ListWorkflowExecutionsResponse{}, nil)
	withoutToken(temporal)
	w, err := New(Options{Kubernetes: clients, KubeVirt: kv, Temporal: temporal, Namespace: ns.Name, Identity: "test",
		Workers: 4, Log: zerolog.Nop()})
	require.NoError(t, err)
	r := &recording{}
	w.sender = r
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })

	vm, err := kv.VMs(ns.Name).Create(ctx, &kubevirt.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: ns.Name},
		Spec:       kubevirt.VirtualMachineSpec{Template: &kubevirt.VirtualMachineInstanceTemplateSpec{}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	seen := func(gone bool) func() bool {
		return func() bool {
			for _, d := range r.all() {
				o, ok := d.Payload.(contract.VMObservation)
				if ok && d.Workflow == contract.VMID(ns.Name, "web") && o.UID == string(vm.UID) && o.Gone == gone {
					return true
				}
			}
			return false
		}
	}
	require.Eventually(t, seen(false), 20*time.Second, 10*time.Millisecond)
	require.NoError(t, w.Ready(ctx))
	require.NoError(t, kv.VMs(ns.Name).Delete(ctx, "web", metav1.DeleteOptions{}))
	require.Eventually(t, seen(true), 20*time.Second, 10*time.Millisecond)
	for _, d := range r.all() {
		if strings.HasSuffix(d.Workflow, ns.Name+"/web") {
			o, ok := d.Payload.(contract.VMObservation)
			require.True(t, ok)
			require.Equal(t, o.Gone, d.Start == nil)
		}
	}
}
