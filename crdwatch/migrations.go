package crdwatch

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/workflows/contract"
)

// besideMigration sends a migration to the queue of migrations; and to a migration that was not known the launcher pods
// of its VMI, with their nodes, behind itself.
func (d *differ) besideMigration(
	vmim *kubevirt.VirtualMachineInstanceMigration, _ contract.MigrationObservation, known bool, from origin,
) {
	d.queued(vmim, from)
	switch {
	case observe.ClosedMigration(vmim):
		d.forgetPodsOfMigration(vmim)
	case !known:
		for _, pod := range indexed[*corev1.Pod](d.informers.Pods, byVMI, vmim.Namespace+"/"+vmim.Spec.VMIName) {
			d.podForMigration(object(vmim), observe.Pod(pod), from)
			d.nodeForVMI(pod, from)
		}
	}
}

// besideMigrationGone sends the queue of migrations that one exists no more, unless it has heard that it has ended.
func (d *differ) besideMigrationGone(vmim *kubevirt.VirtualMachineInstanceMigration, from origin) {
	d.forgetPodsOfMigration(vmim)
	uid := string(vmim.UID)
	forget(d, queuedKind(), uid)
	if !vmim.IsFinal() {
		put(d, queuedKind(), contract.AdmissionID, uid, observe.QueuedGone(vmim), nil, from)
	}
}

// queued sends a migration to the queue of migrations, which is started by those that have not ended.
func (d *differ) queued(vmim *kubevirt.VirtualMachineInstanceMigration, from origin) {
	k, o := queuedKind(), observe.Queued(vmim, d.informers.sourceOf(vmim), len(d.informers.unended()))
	if !news(d, k, o.Migration.UID, o) {
		return
	}
	var start *Start
	if !o.Ended {
		start = &Start{Type: contract.WorkflowAdmission, Input: contract.EntityInput{Name: contract.AdmissionID},
			Summary: "The queue of migrations"}
	}
	put(d, k, contract.AdmissionID, o.Migration.UID, o, start, from)
}

func object(vmim *kubevirt.VirtualMachineInstanceMigration) contract.Object {
	return contract.Object{Namespace: vmim.Namespace, Name: vmim.Name, UID: string(vmim.UID)}
}

// migrationsOf are the migrations that a launcher pod concerns: all of its VMI that have business yet, since the guest
// may be in it, or is to come. The one that it was made for may have some although it exists no more.
func (d *differ) migrationsOf(pod *corev1.Pod) []contract.Object {
	ref := observe.Owner(pod)
	if ref == nil {
		return nil
	}
	var out []contract.Object
	for _, vmim := range d.informers.migrationsOf(pod.Namespace, ref.Name) {
		if !observe.ClosedMigration(vmim) {
			out = append(out, object(vmim))
		}
	}
	made := contract.Object{Namespace: pod.Namespace, Name: pod.Annotations[contract.AnnotationMigrationName],
		UID: pod.Labels[contract.LabelMigration]}
	if made.UID == "" || made.Name == "" {
		return out
	}
	key := made.Namespace + "/" + made.Name
	vmim, ok := get[*kubevirt.VirtualMachineInstanceMigration](d.informers.Migrations, key)
	if !ok || string(vmim.UID) != made.UID {
		out = append(out, made)
	}
	return out
}

// migrationKey names a launcher pod as one migration knows it.
func migrationKey(m contract.Object, pod string) string { return m.UID + "/" + pod }

// podForMigration sends a launcher pod to a migration, which it does not start.
func (d *differ) podForMigration(m contract.Object, o contract.PodObservation, from origin) {
	if k := migrationPodKind(); news(d, k, migrationKey(m, o.UID), o) {
		put(d, k, contract.MigrationID(m.Namespace, m.Name), o.UID, o, nil, from)
	}
}

func (d *differ) podGoneForMigration(m contract.Object, gone contract.PodObservation, from origin) {
	k, key := migrationPodKind(), migrationKey(m, gone.UID)
	forget(d, k, key)
	forget(d, migrationNodeKind(), key)
	put(d, k, contract.MigrationID(m.Namespace, m.Name), gone.UID, gone, nil, from)
}

func (d *differ) forgetPodsOfMigration(vmim *kubevirt.VirtualMachineInstanceMigration) {
	forgetOf(d, migrationPodKind(), string(vmim.UID))
	forgetOf(d, migrationNodeKind(), string(vmim.UID))
}

// migrationsOf lists the migrations of a VMI.
func (i *Informers) migrationsOf(namespace, vmi string) []*kubevirt.VirtualMachineInstanceMigration {
	return indexed[*kubevirt.VirtualMachineInstanceMigration](i.Migrations, byVMI, namespace+"/"+vmi)
}

// unended lists the migrations that have not ended.
func (i *Informers) unended() []*kubevirt.VirtualMachineInstanceMigration {
	return indexed[*kubevirt.VirtualMachineInstanceMigration](i.Migrations, byEnd, unended)
}

// sourceOf is the node that a migration's guest is on, or was on before it was moved; "": not known.
func (i *Informers) sourceOf(vmim *kubevirt.VirtualMachineInstanceMigration) string {
	vmi, ok := get[*kubevirt.VirtualMachineInstance](i.VMIs, vmim.Namespace+"/"+vmim.Spec.VMIName)
	if !ok {
		return ""
	}
	if s := vmi.Status.MigrationState; s != nil && s.MigrationUID == vmim.UID && s.SourceNode != "" {
		return s.SourceNode
	}
	return vmi.Status.NodeName
}

// queueEntity is the queue of migrations, an entity without an object: it hears with each migration.
type queueEntity struct{ informers *Informers }

func (queueEntity) subscribe(func() *Leader) error { return nil }

func (queueEntity) workflowType() string { return contract.WorkflowAdmission }

// missing counts on it where there is a migration that has not ended. Where there is none it may be there or not.
func (q queueEntity) missing(running int) int {
	if len(q.informers.unended()) == 0 {
		return 0
	}
	return 1 - running
}

// sendAll sends the queue the migrations that have not ended, first those that run: it listens for a while, and then
// admits others, whether it has heard of all or not.
func (q queueEntity) sendAll(ctx context.Context, r *resyncer) error {
	unended := q.informers.unended()
	slices.SortFunc(unended, func(a, b *kubevirt.VirtualMachineInstanceMigration) int {
		return cmp.Compare(waits(a), waits(b))
	})
	for _, vmim := range unended {
		if err := r.throttle.wait(ctx, contract.AdmissionID); err != nil {
			return err
		}
		r.differ.toQueue(cache.MetaObjectToName(vmim).String())
	}
	return nil
}

func (queueEntity) vanishedObjects(context.Context, *resyncer, map[string]openEntity) error {
	return nil
}

// lostWorkflows sends a queue that is lost all that have not ended.
func (q queueEntity) lostWorkflows(ctx context.Context, r *resyncer, open map[string]openEntity) error {
	unended := q.informers.unended()
	if _, ok := open[contract.AdmissionID]; ok || len(unended) == 0 {
		return nil
	}
	if runs, err := r.runs(ctx, contract.AdmissionID); err != nil || runs {
		return err
	}
	r.differ.forgetQueued(unended)
	return q.sendAll(ctx, r)
}

// waits is 0 for a migration that runs, and 1 for one that does not yet.
func waits(vmim *kubevirt.VirtualMachineInstanceMigration) int {
	if vmim.IsRunning() {
		return 0
	}
	return 1
}

// toQueue sends a migration to the queue as it is by now, unless it was sent.
func (d *differ) toQueue(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if vmim, ok := get[*kubevirt.VirtualMachineInstanceMigration](d.informers.Migrations, key); ok {
		d.queued(vmim, resync)
	}
}

// forgetQueued drops what was sent of migrations to a queue that has heard of nothing.
func (d *differ) forgetQueued(list []*kubevirt.VirtualMachineInstanceMigration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, vmim := range list {
		forget(d, queuedKind(), string(vmim.UID))
	}
}
