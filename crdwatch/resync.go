package crdwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/workflows/contract"
)

// resyncer finds what was missed while nobody watched: an object that vanished, or a workflow that was lost with
// Temporal's database. That an object is gone it sends only after the API server itself has said so: an informer may
// lag.
type resyncer struct {
	differ    *differ
	informers *Informers
	apiServer
	temporal client.Client
	// limiter is how fast objects are looked at that have not changed, and throttle how fast they are sent.
	limiter  *rate.Limiter
	throttle throttle
	census   census
	// again asks for everything to be sent once more.
	again chan struct{}
	log   zerolog.Logger
}

// run looks through everything now and again, and in between whether as many workflows run as there are objects.
func (r *resyncer) run(ctx context.Context) {
	look, through := time.NewTimer(LookInterval), time.NewTimer(0)
	defer look.Stop()
	defer through.Stop()
	first := true
	for {
		var err error
		next := time.Duration(0)
		select {
		case <-ctx.Done():
			return
		case <-r.again:
			r.differ.forgetAll()
			if r.sendAll(ctx) != nil {
				return
			}
			first = true
			through.Reset(0)
		case <-look.C:
			next, err = r.look(ctx)
			look.Reset(next)
		case <-through.C:
			next, err = r.resync(ctx, first)
			first = false
			through.Reset(next)
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn().Err(err).Msg("looking for missed changes, trying again later")
		}
	}
}

// resync looks through everything, and returns when to do so next.
func (r *resyncer) resync(ctx context.Context, first bool) (next time.Duration, err error) {
	if err := r.once(ctx, first); err != nil {
		return confirmInterval, err
	}
	return resyncInterval, nil
}

// once looks through everything. First: all objects have just been sent.
func (r *resyncer) once(ctx context.Context, first bool) error {
	for _, look := range []func(context.Context) error{r.vanishedPods, r.vanishedNodes} {
		if err := look(ctx); err != nil {
			return err
		}
	}
	open, err := r.openEntities(ctx)
	if err != nil {
		return err
	}
	if err := r.vanishedInstances(ctx, open); err != nil {
		return err
	}
	for _, e := range r.differ.entities.each() {
		if err := e.vanishedObjects(ctx, r, open); err != nil {
			return err
		}
	}
	r.missedReplicas()
	if !first {
		for _, e := range r.differ.entities.each() {
			if err := e.lostWorkflows(ctx, r, open); err != nil {
				return err
			}
		}
		if err := r.lostPods(ctx, open); err != nil {
			return err
		}
	}
	r.census.lookedThrough()
	return nil
}

// sendAll sends everything that has not been sent yet.
func (r *resyncer) sendAll(ctx context.Context) error {
	for _, e := range r.differ.entities.each() {
		if err := e.sendAll(ctx, r); err != nil {
			return err
		}
	}
	for _, pod := range newestFirst(list[*corev1.Pod](r.informers.Pods)) {
		ref := observe.Owner(pod)
		if ref == nil || r.informers.hasOwner(pod, ref) {
			continue // somebody else's, or sent with its VMI
		}
		if err := r.throttle.wait(ctx, contract.VMIID(pod.Namespace, ref.Name)); err != nil {
			return err
		}
		r.differ.pod(cache.MetaObjectToName(pod).String(), resync)
	}
	return nil
}

// sendAll sends what was changed last first: it may be what somebody has asked for while nobody led, and waits for.
func (e *entity[T, O]) sendAll(ctx context.Context, r *resyncer) error {
	for _, o := range newestFirst(list[T](e.informer)) {
		if !e.open(o) {
			continue
		}
		if err := r.throttle.wait(ctx, e.id(o.GetNamespace(), o.GetName())); err != nil {
			return err
		}
		e.changed(r.differ, cache.MetaObjectToName(o).String(), resync)
	}
	return nil
}

// newestFirst sorts objects of one kind by their resource versions.
func newestFirst[T metav1.Object](list []T) []T {
	slices.SortFunc(list, func(a, b T) int {
		// An API server that counts otherwise than with numbers says nothing of the order.
		order, _ := resourceversion.CompareResourceVersion(b.GetResourceVersion(), a.GetResourceVersion())
		return order
	})
	return list
}

// vanishedPods sends VMIs that name a pod in their status that it is gone.
func (r *resyncer) vanishedPods(ctx context.Context) error {
	for _, vmi := range list[*kubevirt.VirtualMachineInstance](r.informers.VMIs) {
		there := map[string]bool{}
		for _, pod := range r.informers.podsOf(string(vmi.UID)) {
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
				r.differ.podGone(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					Namespace: vmi.Namespace, UID: types.UID(uid),
					OwnerReferences: []metav1.OwnerReference{
						*metav1.NewControllerRef(vmi, kubevirt.VirtualMachineInstanceGroupVersionKind)},
				}}, resync)
			}
		}
	}
	return nil
}

// vanishedNodes sends VMIs whose pods are on a node that exists no more that it is gone.
func (r *resyncer) vanishedNodes(ctx context.Context) error {
	asked := map[string]bool{}
	for _, pod := range list[*corev1.Pod](r.informers.Pods) {
		name := pod.Spec.NodeName
		if name == "" || asked[name] {
			continue
		}
		asked[name] = true
		if _, there := get[*corev1.Node](r.informers.Nodes, name); there {
			continue
		}
		_, err := r.kubernetes.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			r.differ.nodeMissing(name)
		case err != nil:
			return fmt.Errorf("asking whether node %s still exists: %w", name, err)
		}
	}
	return nil
}

// vanishedInstances sends VMs that say they have an instance, but have none, that it is gone. Which one that was the
// instance's own workflow knows.
func (r *resyncer) vanishedInstances(ctx context.Context, open map[string]openEntity) error {
	unknown := pastReading{log: r.log}
	for _, vm := range list[*kubevirt.VirtualMachine](r.informers.VMs) {
		if !vm.Status.Created && (vm.Status.PrintableStatus == "" ||
			vm.Status.PrintableStatus == kubevirt.VirtualMachineStatusStopped) {
			continue
		}
		if _, there := get[*kubevirt.VirtualMachineInstance](r.informers.VMIs, vm.Namespace+"/"+vm.Name); there {
			continue
		}
		if err := r.limiter.Wait(ctx); err != nil {
			return err
		}
		last, err := r.lastRun(ctx, contract.VMIID(vm.Namespace, vm.Name))
		if skip, err := unknown.skip(ctx, err); err != nil {
			return err
		} else if skip {
			continue
		}
		uid := keyword(last.GetSearchAttributes(), contract.SearchUID)
		if uid == "" || r.differ.told(uid, open[contract.VMID(vm.Namespace, vm.Name)].since) {
			continue
		}
		gone, err := r.differ.entities.vmi.isGone(ctx, r, vm.Namespace, vm.Name, uid)
		if err != nil {
			return err
		}
		if gone {
			r.differ.entities.vmi.vanished(r.differ, &kubevirt.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
				Namespace: vm.Namespace, Name: vm.Name, UID: types.UID(uid),
				OwnerReferences: []metav1.OwnerReference{
					*metav1.NewControllerRef(vm, kubevirt.VirtualMachineGroupVersionKind)},
			}}, resync)
		}
	}
	return nil
}

// openEntity is an entity workflow that runs: the object that it says it is about, and since when this run of it runs.
type openEntity struct {
	contract.Object
	since time.Time
}

// openEntities are the running entity workflows, by ID.
func (r *resyncer) openEntities(ctx context.Context) (map[string]openEntity, error) {
	open := map[string]openEntity{}
	err := eachRunning(ctx, r.temporal, r.differ.entities.workflowTypes(), "",
		func(e *workflowpb.WorkflowExecutionInfo) error {
			a := e.GetSearchAttributes()
			open[e.GetExecution().GetWorkflowId()] = openEntity{
				Object: contract.Object{
					Namespace: keyword(a, contract.SearchNamespace), Name: keyword(a, contract.SearchName),
					UID: keyword(a, contract.SearchUID),
				},
				since: e.GetStartTime().AsTime(),
			}
			return nil
		})
	return open, err
}

// vanishedObjects sends to the open workflows of one type whose object exists no more that it is gone, and to those
// whose object needs none any more how it is.
func (e *entity[T, O]) vanishedObjects(ctx context.Context, r *resyncer, open map[string]openEntity) error {
	for workflow, object := range open {
		if object.UID == "" || e.id(object.Namespace, object.Name) != workflow {
			continue
		}
		key := cache.NewObjectName(object.Namespace, object.Name).String()
		if o, ok := get[T](e.informer, key); ok && string(o.GetUID()) == object.UID {
			if !e.open(o) {
				e.again(r.differ, o)
			}
			continue
		}
		if r.differ.told(object.UID, object.since) {
			continue
		}
		gone, err := e.isGone(ctx, r, object.Namespace, object.Name, object.UID)
		if err != nil {
			return err
		}
		if gone {
			e.vanished(r.differ, e.named(
				metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name, UID: types.UID(object.UID)}), resync)
		}
	}
	return nil
}

// runs says whether a workflow runs. Temporal itself is asked for what visibility lacks: that lags while there is much
// to do, and to send again what is about to be done is one task more for each.
func (r *resyncer) runs(ctx context.Context, workflow string) (bool, error) {
	last, err := r.lastRun(ctx, workflow)
	return last.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, err
}

// lastRun is what Temporal knows of the last run of a workflow; nil: nothing.
func (r *resyncer) lastRun(ctx context.Context, workflow string) (*workflowpb.WorkflowExecutionInfo, error) {
	d, err := r.temporal.DescribeWorkflowExecution(ctx, workflow, "")
	if notFound := new(serviceerror.NotFound); errors.As(err, &notFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the workflow %s: %w", workflow, err)
	}
	return d.GetWorkflowExecutionInfo(), nil
}

// inARow is how many workflows in a row Temporal may tell nothing of: one may be past reading, but no more of them are.
const inARow = 3

// pastReading counts them.
type pastReading struct {
	log    zerolog.Logger
	failed int
}

// skip says whether to go on without a workflow that was asked for, and returns err where that would be one too many.
func (p *pastReading) skip(ctx context.Context, err error) (bool, error) {
	if err == nil {
		p.failed = 0
		return false, nil
	}
	if p.failed++; p.failed == inARow || ctx.Err() != nil {
		return false, err
	}
	p.log.Warn().Err(err).Msg("going on with the other objects")
	return true, nil
}

// lostWorkflows sends the objects that have no workflow again, which starts one.
func (e *entity[T, O]) lostWorkflows(ctx context.Context, r *resyncer, open map[string]openEntity) error {
	unknown := pastReading{log: r.log}
	for _, o := range list[T](e.informer) {
		id := e.id(o.GetNamespace(), o.GetName())
		if _, ok := open[id]; ok || !e.open(o) {
			continue
		}
		if err := r.limiter.Wait(ctx); err != nil {
			return err
		}
		runs, err := r.runs(ctx, id)
		if skip, err := unknown.skip(ctx, err); err != nil {
			return err
		} else if !skip && !runs {
			e.again(r.differ, o)
		}
	}
	return nil
}

// lostPods sends launcher pods again whose VMI is gone and has no workflow: only that removes their finalizer.
func (r *resyncer) lostPods(ctx context.Context, open map[string]openEntity) error {
	for _, pod := range list[*corev1.Pod](r.informers.Pods) {
		ref := observe.Owner(pod)
		if ref == nil || !slices.Contains(pod.Finalizers, contract.FinalizerPod) {
			continue
		}
		if open[contract.VMIID(pod.Namespace, ref.Name)].UID == ref.UID || r.informers.hasOwner(pod, ref) {
			continue
		}
		if err := r.limiter.Wait(ctx); err != nil {
			return err
		}
		r.differ.podAgain(pod)
	}
	return nil
}

// isGone asks the API server whether an object of that UID exists no more.
func (e *entity[T, O]) isGone(ctx context.Context, r *resyncer, namespace, name, uid string) (bool, error) {
	o, err := e.read(ctx, r.apiServer, namespace, name)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking whether %s %s still exists: %w", e.title, cache.NewObjectName(namespace, name),
			err)
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
