package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/testsuite/kube"
)

func (c *Cluster) addNode() {
	_, err := kube.Put(c.Kube, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: NodeName}})
	require.NoError(c.t, err)
	c.SetNode(contract.NodeState{Ready: true, Since: c.env.Now()})
}

// SetNode changes the node for crdwatch to observe: Ready and Since, OutOfService, Gone.
func (c *Cluster) SetNode(s contract.NodeState) {
	if s.Gone {
		require.NoError(c.t, kube.Remove[corev1.Node](c.Kube, "", NodeName, nil))
		return
	}
	taint := func() {
		_, err := kube.Edit(c.Kube, "", NodeName, "", func(n *corev1.Node) {
			n.Spec.Taints = nil
			if s.OutOfService {
				n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
			}
		})
		require.NoError(c.t, err)
	}
	if s.Ready { // a ready node has the taint only if the test asks for it
		taint()
	} else {
		defer taint()
	}
	_, err := kube.Edit(c.Kube, "", NodeName, "status", func(n *corev1.Node) {
		ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
			LastTransitionTime: metav1.NewTime(s.Since)}
		if s.Ready {
			ready.Status = corev1.ConditionTrue
		}
		n.Status.Conditions = []corev1.NodeCondition{ready}
	})
	require.NoError(c.t, err)
}

// Node returns the node as crdwatch would send it to the instance.
func (c *Cluster) Node() contract.NodeState {
	return observe.NodeState(kube.Get[corev1.Node](c.Kube, "", NodeName), c.Pod().UID)
}

// CreatePod creates the launcher pod as an earlier run of the workflow would have.
func (c *Cluster) CreatePod() {
	vmi := c.VMI()
	_, err := c.real.CreateLauncherPod(context.Background(), contract.CreatePodInput{
		VMI: contract.Object{Namespace: Namespace, Name: Name, UID: vmi.UID},
	})
	require.NoError(c.t, err)
}

// play simulates what happens by itself after a change.
func (c *Cluster) play(change kube.Change) {
	switch o := change.New.(type) {
	case *kubevirt.VirtualMachineInstance:
		if c.SetUID() != "" {
			c.playReplica(change, o)
		}
	case *corev1.Pod:
		if change.Type != kube.Deleted {
			c.kubelet(o)
		}
	}
}

// kubelet syncs the readiness of a pod, and removes a deleted pod that has ended.
func (c *Cluster) kubelet(pod *corev1.Pod) {
	o := observe.Pod(pod)
	final := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case final && o.DeletionTimestamp != nil && o.DeletionGraceSeconds != nil && *o.DeletionGraceSeconds > 0 &&
		!o.PhaseUnconfirmed:
		zero := int64(0)
		require.NoError(c.t, kube.Remove[corev1.Pod](c.Kube, pod.Namespace, pod.Name, &zero))
	case o.ComputeRunning && o.Unpaused != "" && (o.Ready == nil || o.Ready.Status != o.Unpaused):
		c.EditPod(func(p *corev1.Pod) { setCondition(p, corev1.PodReady, corev1.ConditionStatus(o.Unpaused)) })
	}
}

func setCondition(p *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus) {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			p.Status.Conditions[i].Status = status
			return
		}
	}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status})
}

// pod returns the pod that the instance began in. Others are of migrations.
func (c *Cluster) pod() *corev1.Pod {
	pods := slices.DeleteFunc(kube.List[corev1.Pod](c.Kube, Namespace), func(p *corev1.Pod) bool {
		return p.Labels[contract.LabelMigration] != ""
	})
	if len(pods) == 0 {
		return nil
	}
	require.Len(c.t, pods, 1)
	return pods[0]
}

// Pod returns the launcher pod as crdwatch would send it, or nil.
func (c *Cluster) Pod() *contract.PodObservation {
	pod := c.pod()
	if pod == nil {
		return nil
	}
	o := observe.Pod(pod)
	return &o
}

// EditPod changes the status of the pod, if there is one.
func (c *Cluster) EditPod(change func(*corev1.Pod)) {
	pod := c.pod()
	if pod == nil {
		return
	}
	_, err := kube.Edit(c.Kube, Namespace, pod.Name, "status", change)
	require.NoError(c.t, err)
}

// RunPod simulates scheduler and kubelet.
func (c *Cluster) RunPod() {
	c.PlacePod()
	c.BeginPod()
}

// PlacePod simulates the scheduler.
func (c *Cluster) PlacePod() {
	require.NoError(c.t, kube.Bind(c.Kube, Namespace, c.pod().Name, NodeName))
}

// BeginPod simulates the kubelet of a pod whose containers run.
func (c *Cluster) BeginPod() {
	c.EditPod(func(p *corev1.Pod) {
		p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, "10.0.0.9",
			[]corev1.PodIP{{IP: "10.0.0.9"}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: observe.ComputeContainer, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}
	})
}

// EndPod simulates the kubelet when the launcher has exited.
func (c *Cluster) EndPod(reason string, ran bool, exit int32) {
	c.Domain = nil
	c.EditPod(func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodSucceeded
		if exit != 0 {
			p.Status.Phase = corev1.PodFailed
		}
		setCondition(p, corev1.PodReady, corev1.ConditionFalse)
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: observe.ComputeContainer, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: exit, Message: fmt.Sprintf(`{"reason":%q,"ran":%t}`, reason, ran),
			}},
		}}
	})
}

// ForceDeletePod deletes the pod like kubectl delete pod --force.
func (c *Cluster) ForceDeletePod() {
	zero := int64(0)
	require.NoError(c.t, kube.Remove[corev1.Pod](c.Kube, Namespace, c.pod().Name, &zero))
}

// AskPodToEnd deletes the pod with its grace period, as the instance's workflow does. Its finalizer keeps it.
func (c *Cluster) AskPodToEnd() {
	require.NoError(c.t, kube.Remove[corev1.Pod](c.Kube, Namespace, c.pod().Name, nil))
}

// VanishPod removes the pod with its finalizers.
func (c *Cluster) VanishPod() {
	c.ForceDeletePod()
	if pod := c.pod(); pod != nil {
		_, err := kube.Edit(c.Kube, Namespace, pod.Name, "", func(p *corev1.Pod) { p.Finalizers = nil })
		require.NoError(c.t, err)
	}
}

// DomainChanges simulates the launcher and the node worker.
func (c *Cluster) DomainChanges(state contract.DomainState, reason string) {
	d := *c.Domain
	d.Sequence++
	d.State, d.Reason = state, reason
	c.Domain = &d
	c.Signal(contract.SignalObserveDomain, d)
}

// startDomain simulates the activity on the node's queue.
func (c *Cluster) startDomain(_ context.Context, in contract.StartDomainInput) (contract.StartDomainResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod := c.Pod()
	if pod == nil || pod.UID != in.Pod.UID || !pod.ComputeRunning {
		return contract.StartDomainResult{},
			temporal.NewApplicationError("no launcher answers", contract.ErrorNoLauncher)
	}
	if c.Domain == nil {
		c.DomainsStarted++
		c.Domain = &contract.DomainObservation{
			PodUID: pod.UID, Sequence: 1, State: contract.DomainRunning, MachineType: "pc-q35-7.2",
			Interfaces: []contract.DomainInterface{
				{Name: "default", MAC: "02:00:00:00:00:07", PodInterfaceName: "eth0"}},
		}
	}
	return contract.StartDomainResult{Domain: *c.Domain}, nil
}

// operateDomain simulates the activity on the node's queue.
func (c *Cluster) operateDomain(
	_ context.Context, in contract.OperateDomainInput,
) (contract.OperateDomainResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pod := c.Pod(); in.Operation == contract.OperationEnd && pod != nil && pod.UID == in.Pod.UID {
		c.Operations = append(c.Operations, in.Operation)
		c.after(0, func() { c.EndPod(contract.ReasonNeverRan, false, 0) })
		return contract.OperateDomainResult{}, nil
	}
	if pod := c.Pod(); pod == nil || pod.UID != in.Pod.UID || c.Domain == nil {
		return contract.OperateDomainResult{},
			temporal.NewNonRetryableApplicationError("the guest does not run", contract.RefusedFailed, nil)
	}
	c.Operations = append(c.Operations, in.Operation)
	d := *c.Domain
	switch in.Operation {
	case contract.OperationPause:
		d.State = contract.DomainPaused
	case contract.OperationUnpause:
		d.State = contract.DomainRunning
	case contract.OperationFreeze:
		d.Frozen = true
	case contract.OperationUnfreeze:
		d.Frozen = false
	default:
	}
	if d.State != c.Domain.State || d.Frozen != c.Domain.Frozen {
		d.Sequence++
		c.Domain = &d
		c.Signal(contract.SignalObserveDomain, d)
	}
	return contract.OperateDomainResult{Domain: d}, nil
}
