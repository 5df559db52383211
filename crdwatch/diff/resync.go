package diff

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/watch"
	"github.com/virtflow/virtflow/internal/observe"
)

// resyncInterval is the time between two resyncs.
const resyncInterval = 5 * time.Minute

// Resyncer finds what was missed while no process led: an object that vanished, or a workflow that was lost with
// Temporal's database. It sends that an object is gone only after the API server has confirmed it, since an informer
// may lag. It has no lease or goroutine of its own, and without a limit no clock either, so that tests can run it in
// virtual time.
type Resyncer struct {
	differ    *Differ
	informers *watch.Informers
	*sources
	census census
	// redeliverAll triggers a redelivery of everything.
	redeliverAll chan struct{}
}

// NewResyncer returns a resyncer for a differ that has sent nothing yet. Limiter limits how many unchanged objects are
// examined in a second.
func NewResyncer(d *Differ, c Clients, limiter *rate.Limiter, log zerolog.Logger) *Resyncer {
	return &Resyncer{differ: d, informers: d.informers, sources: &sources{Clients: c, limiter: limiter, log: log},
		redeliverAll: make(chan struct{}, 1)}
}

// Run sends everything once, then what was missed, until ctx ends.
func (r *Resyncer) Run(ctx context.Context) {
	if r.SendAll(ctx) == nil {
		r.run(ctx)
	}
}

// RedeliverAll has Run send everything again, as to workflows that know nothing.
func (r *Resyncer) RedeliverAll() {
	select {
	case r.redeliverAll <- struct{}{}:
	default: // one is due already
	}
}

// run resyncs now and again, and takes a census in between, until ctx ends.
func (r *Resyncer) run(ctx context.Context) {
	look, through := time.NewTimer(CensusInterval), time.NewTimer(0)
	defer look.Stop()
	defer through.Stop()
	first := true
	for {
		var err error
		next := time.Duration(0)
		select {
		case <-ctx.Done():
			return
		case <-r.redeliverAll:
			r.differ.forgetAll()
			if r.SendAll(ctx) != nil {
				return
			}
			first = true
			through.Reset(0)
		case <-r.differ.settingsChanged:
			if r.differ.sendUnchanged(ctx) != nil {
				return
			}
		case <-look.C:
			next, err = r.TakeCensus(ctx)
			look.Reset(next)
		case <-through.C:
			next, err = r.Resync(ctx, first)
			first = false
			through.Reset(next)
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn().Err(err).Msg("failed to look for missed changes; it will be retried")
		}
	}
}

// Resync looks for what was missed, and returns the time until the next resync. If first is true, all objects have just
// been sent: see lookThrough.
func (r *Resyncer) Resync(ctx context.Context, first bool) (next time.Duration, err error) {
	if err := r.lookThrough(ctx, first); err != nil {
		return confirmInterval, err
	}
	return resyncInterval, nil
}

// lookThrough looks for objects that have vanished, and for objects whose workflows are lost. If first is true, all
// objects have just been sent, so it skips the lost workflows and the orphaned pods.
func (r *Resyncer) lookThrough(ctx context.Context, first bool) error {
	for _, look := range []func(context.Context) error{r.sendVanishedPods, r.sendVanishedNodes} {
		if err := look(ctx); err != nil {
			return err
		}
	}
	open, err := r.openEntities(ctx, r.differ.WorkflowTypes())
	if err != nil {
		return err
	}
	if err := r.sendVanishedInstances(ctx, open); err != nil {
		return err
	}
	for _, e := range r.differ.entities.each() {
		if err := e.sendVanishedObjects(ctx, r.sources, open); err != nil {
			return err
		}
	}
	r.differ.others.replicas.resyncMissed()
	if !first {
		for _, e := range r.differ.entities.each() {
			if err := e.startLostWorkflows(ctx, r.sources, open); err != nil {
				return err
			}
		}
		if err := r.sendOrphanedPods(ctx, open); err != nil {
			return err
		}
	}
	r.census.recordResync()
	return nil
}

// SendAll sends everything that has not been sent yet.
func (r *Resyncer) SendAll(ctx context.Context) error {
	for _, e := range r.differ.entities.each() {
		if err := e.sendAll(ctx); err != nil {
			return err
		}
	}
	for _, pod := range newestFirst(watch.List[*corev1.Pod](r.informers.Pods)) {
		ref := observe.Owner(pod)
		if ref == nil || r.informers.HasOwner(pod, ref) {
			continue // it has another owner, or is sent with its VMI
		}
		if err := r.differ.queue.Throttle(ctx, contract.VMIID(pod.Namespace, ref.Name)); err != nil {
			return err
		}
		r.differ.sendPod(cache.MetaObjectToName(pod).String(), resync)
	}
	return nil
}

// sendVanishedPods sends VMIs that a pod is gone which their status names.
func (r *Resyncer) sendVanishedPods(ctx context.Context) error {
	for _, vmi := range watch.List[*kubevirt.VirtualMachineInstance](r.informers.VMIs) {
		there := map[string]bool{}
		for _, pod := range r.informers.PodsOf(string(vmi.UID)) {
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
		pods, err := r.Kubernetes.CoreV1().Pods(vmi.Namespace).List(ctx, metav1.ListOptions{
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
				r.differ.sendPodGone(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					Namespace: vmi.Namespace, UID: types.UID(uid),
					OwnerReferences: []metav1.OwnerReference{
						*metav1.NewControllerRef(vmi, kubevirt.VirtualMachineInstanceGroupVersionKind)},
				}}, resync)
			}
		}
	}
	return nil
}

// sendVanishedNodes sends VMIs that the node of their pod does not exist any more.
func (r *Resyncer) sendVanishedNodes(ctx context.Context) error {
	asked := map[string]bool{}
	for _, pod := range watch.List[*corev1.Pod](r.informers.Pods) {
		name := pod.Spec.NodeName
		if name == "" || asked[name] {
			continue
		}
		asked[name] = true
		if _, there := watch.Get[*corev1.Node](r.informers.Nodes, name); there {
			continue
		}
		_, err := r.Kubernetes.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			r.differ.sendNodeMissing(name)
		case err != nil:
			return fmt.Errorf("reading node %s: %w", name, err)
		}
	}
	return nil
}

// sendVanishedInstances sends VMs that their instance is gone, if their status counts on one and there is none. The UID
// of that instance comes from the last run of the instance's workflow.
func (r *Resyncer) sendVanishedInstances(ctx context.Context, open map[string]openEntity) error {
	unknown := unreadable{log: r.log}
	for _, vm := range watch.List[*kubevirt.VirtualMachine](r.informers.VMs) {
		if !vm.Status.Created && (vm.Status.PrintableStatus == "" ||
			vm.Status.PrintableStatus == kubevirt.VirtualMachineStatusStopped) {
			continue
		}
		if _, there := watch.Get[*kubevirt.VirtualMachineInstance](r.informers.VMIs, vm.Namespace+"/"+vm.Name); there {
			continue
		}
		if err := r.limiter.Wait(ctx); err != nil {
			return err
		}
		last, err := r.lastRun(ctx, contract.VMIID(vm.Namespace, vm.Name))
		if skip, err := unknown.canSkip(ctx, err); err != nil {
			return err
		} else if skip {
			continue
		}
		uid := searchAttribute(last.GetSearchAttributes(), contract.SearchUID)
		if uid == "" || r.differ.hasSentEnd(uid, open[contract.VMID(vm.Namespace, vm.Name)].since) {
			continue
		}
		gone, err := r.differ.entities.vmi.isGone(ctx, r.Clients, vm.Namespace, vm.Name, uid)
		if err != nil {
			return err
		}
		if gone {
			r.differ.entities.vmi.sendGone(&kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
				Namespace: vm.Namespace, Name: vm.Name, UID: types.UID(uid),
				OwnerReferences: []metav1.OwnerReference{
					*metav1.NewControllerRef(vm, kubevirt.VirtualMachineGroupVersionKind)},
			}}, resync)
		}
	}
	return nil
}

// sendOrphanedPods redelivers launcher pods whose VMI is gone and has no workflow: only a workflow removes their
// finalizer.
func (r *Resyncer) sendOrphanedPods(ctx context.Context, open map[string]openEntity) error {
	for _, pod := range watch.List[*corev1.Pod](r.informers.Pods) {
		ref := observe.Owner(pod)
		if ref == nil || !slices.Contains(pod.Finalizers, contract.FinalizerPod) {
			continue
		}
		if open[contract.VMIID(pod.Namespace, ref.Name)].UID == ref.UID || r.informers.HasOwner(pod, ref) {
			continue
		}
		if err := r.limiter.Wait(ctx); err != nil {
			return err
		}
		r.differ.redeliverPod(pod)
	}
	return nil
}
