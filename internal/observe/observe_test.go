package observe

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

func TestRunStrategy(t *testing.T) {
	yes, no, once := true, false, kubevirt.RunStrategyOnce
	for name, c := range map[string]struct {
		spec     kubevirt.VirtualMachineSpec
		strategy string
		legacy   bool
	}{
		"neither":     {kubevirt.VirtualMachineSpec{}, "Halted", false},
		"running":     {kubevirt.VirtualMachineSpec{Running: &yes}, "Always", true},
		"not running": {kubevirt.VirtualMachineSpec{Running: &no}, "Halted", true},
		"run once":    {kubevirt.VirtualMachineSpec{RunStrategy: &once}, "Once", false},
	} {
		t.Run(name, func(t *testing.T) {
			strategy, legacy := RunStrategy(&kubevirt.VirtualMachine{Spec: c.spec})
			require.Equal(t, c.strategy, strategy)
			require.Equal(t, c.legacy, legacy)
		})
	}
}

func TestCapsVM(t *testing.T) {
	long := strings.Repeat("ä", 10_000)
	vm := &kubevirt.VirtualMachine{}
	vm.Annotations = map[string]string{contract.AnnotationRequestedBy: long}
	for range 100 {
		vm.Finalizers = append(vm.Finalizers, long)
		vm.Status.StateChangeRequests = append(vm.Status.StateChangeRequests,
			kubevirt.VirtualMachineStateChangeRequest{Action: "Start", Data: map[string]string{"paused": long}})
	}
	o := VM(vm)
	require.LessOrEqual(t, len(o.Actor), maxWord)
	require.Equal(t, vm.Finalizers, o.Finalizers, "what is written back whole is not cut")
	require.Len(t, o.StateChangeRequests, maxRequests)
	require.LessOrEqual(t, len(o.StateChangeRequests[0].Data["paused"]), maxWord)
	require.True(t, strings.HasSuffix(o.Actor, "ä"), "cut within a character")
}

func TestVMIAndItsVMsCopy(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("x", 3600)))
	vmi := &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
		UID: "i", ResourceVersion: "7", Finalizers: []string{contract.FinalizerVMI},
		Annotations: map[string]string{contract.AnnotationVMGeneration: "3"},
		OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(&metav1.ObjectMeta{UID: "v", Name: "web"},
				kubevirt.VirtualMachineGroupVersionKind)},
	}}
	vmi.Status.Phase = kubevirt.Scheduling
	vmi.Status.NodeName = "node1"
	vmi.Status.PhaseTransitionTimestamps = []kubevirt.VirtualMachineInstancePhaseTransitionTimestamp{
		{Phase: kubevirt.Pending, PhaseTransitionTimestamp: now}}
	o := VMI(vmi)
	require.Equal(t, "v", o.OwnerUID)
	require.EqualValues(t, 3, o.VMGeneration)
	require.False(t, o.EverRan)
	require.Equal(t, time.UTC, o.PhaseTimes[0].Time.Location())

	copied := VMIForVM(o)
	require.Equal(t, "7", copied.ResourceVersion)
	require.Empty(t, copied.NodeName)
	require.Empty(t, copied.Finalizers)
	newer := vmi.DeepCopy()
	newer.ResourceVersion, newer.Finalizers = "8", nil
	require.False(t, SameVMI(o, VMI(newer)))
	require.True(t, SameCopy(copied, VMIForVM(VMI(newer))), "the VM has no use for that")
	newer.Status.Phase = kubevirt.Scheduling
	require.True(t, SameCopy(copied, VMIForVM(VMI(newer))), "a VM that starts shows no steps")
	require.True(t, SameVMI(VMI(newer), VMI(func() *kubevirt.VirtualMachineInstance {
		v := newer.DeepCopy()
		v.Status.Phase = kubevirt.Running
		return v
	}())), "the VMI's entity wrote that itself")
	newer.Status.Conditions = append(newer.Status.Conditions,
		kubevirt.VirtualMachineInstanceCondition{Type: "PodScheduled", Status: "False", Reason: "Unschedulable"})
	require.False(t, SameCopy(copied, VMIForVM(VMI(newer))), "what is wrong counts")
	newer.Status.Phase = kubevirt.Running
	require.False(t, SameCopy(copied, VMIForVM(VMI(newer))))
	require.Equal(t, "node1", VMIForVM(VMI(newer)).NodeName)
	copied = VMIForVM(VMI(newer))
	newer.Status.Conditions = append(newer.Status.Conditions, kubevirt.VirtualMachineInstanceCondition{
		Type: contract.ConditionMigrationProgress, Status: "True", Message: "50 %"})
	require.True(t, SameCopy(copied, VMIForVM(VMI(newer))), "how far a copy is, is the VMI's to show")

	moving := newer.DeepCopy()
	moving.Status.MigrationState = &kubevirt.VirtualMachineInstanceMigrationState{MigrationUID: "m", TargetPod: "p"}
	require.True(t, SameVMI(VMI(newer), VMI(moving)), "the VMI's entity wrote that itself")
	require.True(t, SameCopy(VMIForVM(VMI(newer)), VMIForVM(VMI(moving))), "the guest is not on its way yet")
	moving.Status.MigrationState.StartTimestamp = &now
	require.True(t, VMIForVM(VMI(moving)).Migration.UnderWay())
	require.Empty(t, VMIForVM(VMI(moving)).Migration.TargetPod, "the VM has no use for that")
	moving.Status.MigrationState.Completed = true
	require.Nil(t, VMIForVM(VMI(moving)).Migration)
	moving.Status.EvacuationNodeName = "node1"
	require.False(t, SameVMI(VMI(newer), VMI(moving)), "another writer wrote that")
}

func launcher(change func(*corev1.Pod)) contract.PodObservation {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "virt-launcher-web-abcde", UID: "p",
			Finalizers: []string{contract.FinalizerPod}, OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(&metav1.ObjectMeta{UID: "i", Name: "web"},
					kubevirt.VirtualMachineInstanceGroupVersionKind),
			}},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: ComputeContainer, Image: "launcher:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if change != nil {
		change(pod)
	}
	return Pod(pod)
}

func running(pod *corev1.Pod) {
	pod.Spec.NodeName = "node1"
	pod.Status.Phase = corev1.PodRunning
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: ComputeContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ReadinessGatesNotReady"}}
}

func with(changes ...func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, c := range changes {
			c(p)
		}
	}
}

func TestSignificantPod(t *testing.T) {
	waiting := func(reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: ComputeContainer, State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		}
	}
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: kind, Status: status, Reason: reason})
		}
	}
	placed := func(p *corev1.Pod) { p.Spec.NodeName = "node1" }
	for name, c := range map[string]struct {
		before, after func(*corev1.Pod)
		want          bool
	}{
		"nothing":         {nil, nil, false},
		"a new version":   {nil, func(p *corev1.Pod) { p.ResourceVersion = "9" }, false},
		"a node assigned": {nil, placed, false},
		"containers being created": {placed,
			with(placed, waiting("ContainerCreating"),
				condition(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady")), false},
		"cannot be placed": {nil, condition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable"),
			true},
		"can be placed after all": {condition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable"),
			with(placed, condition(corev1.PodScheduled, corev1.ConditionTrue, "")), true},
		"no such image": {placed, with(placed, waiting("ErrImagePull")), true},
		"runs":          {placed, running, true},
		"the gate written by ourselves": {running,
			with(running, condition(contract.ConditionUnpaused, corev1.ConditionTrue, "NotPaused")), false},
		"ready": {running, func(p *corev1.Pod) {
			running(p)
			p.Status.Conditions[0].Status = corev1.ConditionTrue
		}, true},
		"not ready for another reason": {running, func(p *corev1.Pod) {
			running(p)
			p.Status.Conditions[0].Reason = "ContainersNotReady"
		}, true},
		"another address": {running, func(p *corev1.Pod) {
			running(p)
			p.Status.PodIPs[0].IP = "10.0.0.2"
		}, true},
		"being deleted": {running, func(p *corev1.Pod) {
			running(p)
			p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}, true},
		"released": {running, func(p *corev1.Pod) { running(p); p.Finalizers = nil }, true},
		"another finalizer": {running, func(p *corev1.Pod) {
			running(p)
			p.Finalizers = append(p.Finalizers, "x/y")
		}, false},
		"ended": {running, func(p *corev1.Pod) {
			running(p)
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 0, Message: `{"reason":"Shutdown"}`}}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, SignificantPod(launcher(c.before), launcher(c.after)))
		})
	}
}

func TestEndedLauncher(t *testing.T) {
	o := launcher(func(p *corev1.Pod) {
		running(p)
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", Message: "last words"}}
	})
	require.Equal(t, int32(137), *o.ExitCode)
	require.Equal(t, "OOMKilled", o.ExitReason)
	require.Equal(t, "last words", o.TerminationMessage)
}

func TestPod(t *testing.T) {
	o := launcher(running)
	require.Equal(t, "i", o.VMIUID)
	require.True(t, o.ComputeRunning)
	require.Equal(t, "launcher:1", o.LauncherImage)
	require.Equal(t, []string{"10.0.0.1"}, o.IPs)
	o = launcher(func(p *corev1.Pod) {
		running(p)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "sidecar"})
	})
	require.False(t, o.ComputeRunning, "another container is not ready")
	require.False(t, SignificantPod(NewPod(launcher(nil)), launcher(nil)), "a new pod is what its maker knows")
}

func TestNode(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "n",
		Labels: map[string]string{contract.LabelSchedulable: "true", "kubernetes.io/hostname": "x"}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	o := Node(node, true, contract.TaintDrain)
	require.True(t, o.Ready)
	require.True(t, o.WorkerReady)
	require.Equal(t, map[string]string{contract.LabelSchedulable: "true"}, o.Labels)
	node.ResourceVersion = "5"
	require.True(t, SameNode(o, Node(node, true, contract.TaintDrain)))
	require.False(t, SameNode(o, Node(node, false, contract.TaintDrain)))
	require.False(t, o.Drain)
	node.Spec.Taints = []corev1.Taint{{Key: "a/b", Effect: corev1.TaintEffectNoSchedule},
		{Key: contract.TaintDrain, Effect: corev1.TaintEffectNoExecute}}
	require.False(t, Node(node, true, contract.TaintDrain).Drain, "another effect")
	drained := Node(node, true, "a/b")
	require.True(t, drained.Drain)
	require.False(t, SameNode(o, drained))
	later := drained
	later.SettingsVersion = "7"
	require.True(t, SameNode(drained, later), "nothing else has changed")
}

// TestPhaseUnconfirmed covers which final phases prove that no container runs.
func TestPhaseUnconfirmed(t *testing.T) {
	compute := func(s corev1.ContainerState) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: ComputeContainer, State: s}}
	}
	runs, ended := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	collected := []corev1.PodCondition{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reasonPodGC}}
	evicted := []corev1.PodCondition{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "TerminationByKubelet"}}
	for name, c := range map[string]struct {
		status corev1.PodStatus
		want   bool
	}{
		"runs": {
			corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: compute(runs)}, false},
		"ended": {
			corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: compute(ended)}, false},
		"refused by the kubelet": {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu"}, false},
		"evicted by the kubelet": {
			corev1.PodStatus{Phase: corev1.PodFailed, Conditions: evicted, ContainerStatuses: compute(ended)}, false},
		"collected, last seen running": {
			corev1.PodStatus{Phase: corev1.PodFailed, Conditions: collected, ContainerStatuses: compute(runs)}, true},
		"out of service, last seen running": {
			corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: compute(runs)}, true},
		"collected, never seen": {corev1.PodStatus{Phase: corev1.PodFailed, Conditions: collected},
			true},
		"collected after its kubelet had said": {
			corev1.PodStatus{Phase: corev1.PodFailed, Conditions: collected, ContainerStatuses: compute(ended)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, launcher(func(p *corev1.Pod) { p.Status = c.status }).PhaseUnconfirmed)
		})
	}
}

// TestIgnoresInvalidOrdinals: a user may have written anything.
func TestIgnoresInvalidOrdinals(t *testing.T) {
	for text, want := range map[string]int{"": 0, "7": 7, "-1": 0, "x": 0, "1073741824": 1 << 30, "1073741825": 0,
		"2147483648": 0, "99999999999999999999": 0} {
		vmi := &kubevirt.VirtualMachineInstance{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{contract.AnnotationReplica: text}}}
		require.Equal(t, want, Ordinal(vmi), "%q", text)
	}
}

// TestComparesReplicas: a set gets what a decision depends on.
func TestComparesReplicas(t *testing.T) {
	boots := contract.ReplicaObservation{UID: "r", Phase: "Pending", ResourceVersion: "1"}
	runs := contract.ReplicaObservation{UID: "r", Phase: "Running", Ready: true, EverRan: true}
	deleted, ended := runs, runs
	deleted.Deleting = true
	ended.Phase, ended.Ready, ended.Terminating = "Succeeded", false, true
	endedDeleted := ended
	endedDeleted.Deleting = true
	for name, c := range map[string]struct {
		a, b contract.ReplicaObservation
		same bool
	}{
		"a step of a boot":             {boots, contract.ReplicaObservation{UID: "r", Phase: "Scheduled"}, true},
		"the guest runs":               {boots, runs, false},
		"the guest ends":               {runs, ended, false},
		"it is deleted":                {runs, deleted, false},
		"it is deleted, and has ended": {deleted, endedDeleted, true},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.same, SameReplica(c.a, c.b))
			require.Equal(t, c.same, SameReplica(c.b, c.a))
		})
	}
}

func TestLimitsReplicas(t *testing.T) {
	labels := map[string]string{"app": "web"}
	set := &kubevirt.VirtualMachineInstanceReplicaSet{Spec: kubevirt.VirtualMachineInstanceReplicaSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: &kubevirt.VirtualMachineInstanceTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
	}}
	for n, want := range map[int32]string{1000: "",
		1001: "it asks for 1001 replicas, and a set can have 1000 at most"} {
		set.Spec.Replicas = &n
		require.Equal(t, want, ReplicaSet(set).Unusable)
	}
}

// TestOwnerIsController: what a kubelet may write beside a pod's status does not count as long as there is an owner.
func TestOwnerIsController(t *testing.T) {
	yes := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a",
		Labels: map[string]string{contract.LabelLauncher: contract.LabelLauncherValue,
			contract.LabelCreatedBy: "another"},
		Annotations: map[string]string{contract.AnnotationDomain: "db"},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstance", Name: "web", UID: "u", Controller: &yes},
		},
	}}
	require.Equal(t, &contract.Object{Namespace: "a", Name: "web", UID: "u"}, Owner(pod))
	pod.OwnerReferences = nil // an orphan
	require.Equal(t, &contract.Object{Namespace: "a", Name: "db", UID: "another"}, Owner(pod))
}
