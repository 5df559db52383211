package crdwatch

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/kube"
	"github.com/virtflow/virtflow/workflows/contract"
)

// repairer finds what was missed while nobody watched: an object that vanished, or a workflow that was lost with Temporal's database.
// That an object is gone it tells only after the API server itself has said so: an informer may lag.
type repairer struct {
	evaluator  *evaluator
	store      *store
	kubernetes kubernetes.Interface
	kubevirt   *kube.Client
	temporal   client.Client
	log        zerolog.Logger
}

// run repairs now and then.
func (r *repairer) run(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for first := true; ; first = false {
		if err := r.once(ctx, first); err != nil && ctx.Err() == nil {
			r.log.Warn().Err(err).Msg("looking for missed changes, trying again later")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// once looks through everything. First: all objects have just been told.
func (r *repairer) once(ctx context.Context, first bool) error {
	if err := r.vanishedPods(ctx); err != nil {
		return err
	}
	if err := r.vanishedNodes(ctx); err != nil {
		return err
	}
	if err := r.vanishedInstances(ctx); err != nil {
		return err
	}
	open, err := r.openEntities(ctx)
	if err != nil {
		return err
	}
	if err := r.vanishedObjects(ctx, open); err != nil {
		return err
	}
	r.missedReplicas()
	if !first {
		r.lostWorkflows(open)
	}
	return nil
}

// vanishedPods tells VMIs that name a pod in their status that it is gone.
func (r *repairer) vanishedPods(ctx context.Context) error {
	for _, vmi := range list[*kubevirt.VirtualMachineInstance](r.store.vmis) {
		there := map[string]bool{}
		for _, pod := range r.store.ownedBy(string(vmi.UID)) {
			there[string(pod.UID)] = true
		}
		var missing []string
		for uid := range vmi.Status.ActivePods {
			if !there[string(uid)] {
				missing = append(missing, string(uid))
			}
		}
		if len(missing) == 0 {
			continue
		}
		pods, err := r.kubernetes.CoreV1().Pods(vmi.Namespace).List(ctx, metav1.ListOptions{
			LabelSelector: contract.LabelCreatedBy + "=" + string(vmi.UID),
		})
		if err != nil {
			return fmt.Errorf("listing the pods of VirtualMachineInstance %s/%s: %w", vmi.Namespace, vmi.Name, err)
		}
		for i := range pods.Items {
			there[string(pods.Items[i].UID)] = true
		}
		for _, uid := range missing {
			if !there[uid] {
				r.evaluator.podGone(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					Namespace: vmi.Namespace, UID: types.UID(uid),
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vmi, kubevirt.VirtualMachineInstanceGroupVersionKind)},
				}})
			}
		}
	}
	return nil
}

// vanishedNodes tells VMIs whose pods are on a node that exists no more.
func (r *repairer) vanishedNodes(ctx context.Context) error {
	asked := map[string]bool{}
	for _, pod := range list[*corev1.Pod](r.store.pods) {
		name := pod.Spec.NodeName
		if name == "" || asked[name] {
			continue
		}
		asked[name] = true
		if _, there := get[*corev1.Node](r.store.nodes, name); there {
			continue
		}
		_, err := r.kubernetes.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			r.evaluator.missingNode(name)
		case err != nil:
			return fmt.Errorf("asking whether node %s still exists: %w", name, err)
		}
	}
	return nil
}

// vanishedInstances tells VMs that say they have an instance, but have none, that it is gone. Which one that was the instance's own workflow
// knows.
func (r *repairer) vanishedInstances(ctx context.Context) error {
	for _, vm := range list[*kubevirt.VirtualMachine](r.store.vms) {
		if !vm.Status.Created && (vm.Status.PrintableStatus == "" || vm.Status.PrintableStatus == kubevirt.VirtualMachineStatusStopped) {
			continue
		}
		if _, there := get[*kubevirt.VirtualMachineInstance](r.store.vmis, vm.Namespace+"/"+vm.Name); there {
			continue
		}
		d, err := r.temporal.DescribeWorkflowExecution(ctx, contract.VMIID(vm.Namespace, vm.Name), "")
		if err != nil {
			continue // it never had one, or nothing is known of it any more
		}
		uid := keyword(d.GetWorkflowExecutionInfo().GetSearchAttributes(), contract.SearchUID)
		if uid == "" {
			continue
		}
		gone, err := r.goneVMI(ctx, vm.Namespace, vm.Name, uid)
		if err != nil {
			return err
		}
		if gone {
			r.evaluator.vmiGone(&kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
				Namespace: vm.Namespace, Name: vm.Name, UID: types.UID(uid),
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm, kubevirt.VirtualMachineGroupVersionKind)},
			}})
		}
	}
	return nil
}

// openEntities are the running entity workflows and the UID that each says it is about.
func (r *repairer) openEntities(ctx context.Context) (map[string]string, error) {
	open := map[string]string{}
	query := fmt.Sprintf("ExecutionStatus = 'Running' AND WorkflowType IN ('%s', '%s', '%s', '%s')",
		contract.WorkflowVM, contract.WorkflowVMI, contract.WorkflowReplicaSet, contract.WorkflowNode)
	var page []byte
	for {
		answer, err := r.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: 500, NextPageToken: page})
		if err != nil {
			return nil, fmt.Errorf("listing the open workflows: %w", err)
		}
		for _, e := range answer.GetExecutions() {
			open[e.GetExecution().GetWorkflowId()] = keyword(e.GetSearchAttributes(), contract.SearchUID)
		}
		if page = answer.GetNextPageToken(); len(page) == 0 {
			return open, nil
		}
	}
}

// vanishedObjects tells workflows whose object exists no more.
func (r *repairer) vanishedObjects(ctx context.Context, open map[string]string) error {
	for workflow, uid := range open {
		if uid == "" {
			continue
		}
		kind, rest, _ := strings.Cut(workflow, "/")
		namespace, name, _ := strings.Cut(rest, "/")
		meta := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}
		var gone bool
		var err error
		switch kind {
		case "vm":
			if vm, ok := get[*kubevirt.VirtualMachine](r.store.vms, rest); ok && string(vm.UID) == uid {
				continue
			}
			if gone, err = r.goneVM(ctx, namespace, name, uid); gone {
				r.evaluator.vmGone(&kubevirt.VirtualMachine{ObjectMeta: meta})
			}
		case "vmi":
			if vmi, ok := get[*kubevirt.VirtualMachineInstance](r.store.vmis, rest); ok && string(vmi.UID) == uid {
				continue
			}
			if gone, err = r.goneVMI(ctx, namespace, name, uid); gone {
				r.evaluator.vmiGone(&kubevirt.VirtualMachineInstance{ObjectMeta: meta})
			}
		case "replicaset":
			if set, ok := get[*kubevirt.VirtualMachineInstanceReplicaSet](r.store.sets, rest); ok && string(set.UID) == uid {
				continue
			}
			if gone, err = r.goneReplicaSet(ctx, namespace, name, uid); gone {
				r.evaluator.replicaSetGone(&kubevirt.VirtualMachineInstanceReplicaSet{ObjectMeta: meta})
			}
		case "node":
			meta = metav1.ObjectMeta{Name: rest, UID: types.UID(uid)}
			if node, ok := get[*corev1.Node](r.store.nodes, rest); ok && string(node.UID) == uid {
				continue
			}
			if gone, err = r.goneNode(ctx, rest, uid); gone {
				r.evaluator.nodeGone(&corev1.Node{ObjectMeta: meta})
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lostWorkflows tells the objects that have no workflow again, which starts one.
func (r *repairer) lostWorkflows(open map[string]string) {
	for _, vm := range list[*kubevirt.VirtualMachine](r.store.vms) {
		if _, ok := open[contract.VMID(vm.Namespace, vm.Name)]; !ok {
			r.evaluator.forget(string(vm.UID))
			r.evaluator.vm(vm.Namespace + "/" + vm.Name)
		}
	}
	for _, vmi := range list[*kubevirt.VirtualMachineInstance](r.store.vmis) {
		if _, ok := open[contract.VMIID(vmi.Namespace, vmi.Name)]; ok {
			continue
		}
		r.evaluator.forget(string(vmi.UID))
		r.evaluator.vmi(vmi.Namespace + "/" + vmi.Name)
		for _, pod := range r.store.ownedBy(string(vmi.UID)) {
			r.evaluator.forget(string(pod.UID))
			r.evaluator.pod(pod.Namespace+"/"+pod.Name, true)
		}
	}
	r.lostReplicaSets(open)
	for _, node := range list[*corev1.Node](r.store.nodes) {
		if _, ok := open[contract.NodeID(node.Name)]; !ok {
			r.evaluator.forget(string(node.UID))
			r.evaluator.node(node.Name)
		}
	}
}

func (r *repairer) goneVM(ctx context.Context, namespace, name, uid string) (bool, error) {
	o, err := r.kubevirt.VMs(namespace).Get(ctx, name, metav1.GetOptions{})
	return isGone(o, err, uid)
}

func (r *repairer) goneVMI(ctx context.Context, namespace, name, uid string) (bool, error) {
	o, err := r.kubevirt.VMIs(namespace).Get(ctx, name, metav1.GetOptions{})
	return isGone(o, err, uid)
}

func (r *repairer) goneReplicaSet(ctx context.Context, namespace, name, uid string) (bool, error) {
	o, err := r.kubevirt.ReplicaSets(namespace).Get(ctx, name, metav1.GetOptions{})
	return isGone(o, err, uid)
}

func (r *repairer) goneNode(ctx context.Context, name, uid string) (bool, error) {
	o, err := r.kubernetes.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	return isGone(o, err, uid)
}

func isGone(o metav1.Object, err error, uid string) (bool, error) {
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking whether an object still exists: %w", err)
	}
	return string(o.GetUID()) != uid, nil
}

// keyword reads one search attribute.
func keyword(attributes *commonpb.SearchAttributes, name string) string {
	p, ok := attributes.GetIndexedFields()[name]
	if !ok {
		return ""
	}
	var s string
	if err := converter.GetDefaultDataConverter().FromPayload(p, &s); err != nil {
		return ""
	}
	return s
}
