package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	labelSimulated = "virtflow.io/simulated"
	nodeLeases     = "kube-node-lease"
	leaseEvery     = 8 * time.Second
)

func nodeName(i int) string { return fmt.Sprintf("simulated%d", i) }

// makeNodes creates the simulated nodes. Until the run's life ends, it renews their leases and serves them as nodes of
// the control plane under load.
func (r *run) makeNodes(ctx, life context.Context) error {
	for i := range r.Nodes {
		name := nodeName(i)
		if err := r.makeNode(ctx, name); err != nil {
			return fmt.Errorf("making node %s: %w", name, err)
		}
		go r.renew(life, name) // at once: with the pods of an earlier run each node takes seconds to serve
		if err := r.loaded.serve(ctx, life, name); err != nil {
			return err
		}
	}
	return nil
}

// leaseLasts is the time without a renewed lease after which the local cluster treats a node as lost. Five minutes
// later it deletes the node's pods.
const leaseLasts = 25 * time.Second

func (r *run) makeNode(ctx context.Context, name string) error {
	nodes := r.kubernetes.CoreV1().Nodes()
	much := corev1.ResourceList{
		corev1.ResourcePods: resource.MustParse("500"), corev1.ResourceCPU: resource.MustParse("256"),
		corev1.ResourceMemory:           resource.MustParse("1Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		"devices.kubevirt.io/tun":       resource.MustParse("1000"),
		"devices.kubevirt.io/kvm":       resource.MustParse("1000"),
		"devices.kubevirt.io/vhost-net": resource.MustParse("1000"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{labelSimulated: "true", corev1.LabelHostname: name, corev1.LabelOSStable: "linux",
				corev1.LabelArchStable: "amd64"},
			// KubeVirt's policy on virt-handler's writes to a node fails for a node without annotations.
			Annotations: map[string]string{labelSimulated: "true"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: labelSimulated, Effect: corev1.TaintEffectNoSchedule}}},
	}
	if _, err := nodes.Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := r.lease(ctx, name); err != nil {
		return err
	}
	now := metav1.Now()
	status, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{
		Capacity: much, Allocatable: much,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
		Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated", LastHeartbeatTime: now,
				LastTransitionTime: now}},
	}})
	if err != nil {
		return err
	}
	_, err = nodes.PatchStatus(ctx, name, status) // strategic: other fields, which controllers have written, stay
	return err
}

// lease renews a node's lease: the node counts as healthy while it is fresh.
func (r *run) lease(ctx context.Context, name string) error {
	seconds, now := int32(40), metav1.NowMicro()
	leases := r.kubernetes.CoordinationV1().Leases(nodeLeases)
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	_, err := leases.Create(ctx, l, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	old, err := leases.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	old.Spec = l.Spec
	_, err = leases.Update(ctx, old, metav1.UpdateOptions{})
	return err
}

// renew renews a node's lease, as its kubelet does, until ctx ends.
func (r *run) renew(ctx context.Context, name string) {
	tick := time.NewTicker(leaseEvery)
	defer tick.Stop()
	for renewed := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		patch := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
		_, err := r.kubernetes.CoordinationV1().Leases(nodeLeases).
			Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		if late := time.Since(renewed); late > leaseLasts && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "scale: the lease of %s was not renewed for %s: the figures are not only of the "+
				"control plane any more (use a lower --rate)\n", name, round(late))
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn().Err(err).Str("node", name).Msg("failed to renew lease")
			continue
		}
		renewed = time.Now()
	}
}

func (r *run) removeNodes(ctx context.Context) {
	for _, stop := range r.stop {
		stop()
	}
	for i := range r.Nodes {
		name := nodeName(i)
		for what, err := range map[string]error{
			"node":  r.kubernetes.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}),
			"lease": r.kubernetes.CoordinationV1().Leases(nodeLeases).Delete(ctx, name, metav1.DeleteOptions{}),
		} {
			if err != nil && !apierrors.IsNotFound(err) {
				fmt.Fprintf(os.Stderr, "scale: deleting the %s of %s: %v\n", what, name, err)
			}
		}
	}
}
