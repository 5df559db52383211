package diff

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/crdwatch/watch"
	"github.com/virtflow/virtflow/internal/observe"
)

// migrationQueue sends each migration to the migration queue, an entity without an object.
type migrationQueue struct{ *record }

// send sends a migration to the queue. A migration that has not ended starts it.
func (q migrationQueue) send(vmim *kubevirt.VirtualMachineInstanceMigration, from delivery.Cause) {
	k, o := queuedKind(), observe.Queued(vmim, q.informers.SourceOf(vmim), len(q.informers.UnendedMigrations()))
	if !recordNew(q.record, k, o.Migration.UID, o) {
		return
	}
	var start *delivery.Start
	if !o.Ended {
		start = &delivery.Start{Type: contract.WorkflowAdmission,
			Input: contract.EntityInput{Name: contract.AdmissionID}, Summary: "The queue of migrations"}
	}
	put(q.record, k, contract.AdmissionID, o.Migration.UID, o, start, from)
}

// sendGone sends the queue that a migration does not exist any more, unless it was sent that the migration had ended.
func (q migrationQueue) sendGone(vmim *kubevirt.VirtualMachineInstanceMigration, from delivery.Cause) {
	uid := string(vmim.UID)
	forget(q.record, queuedKind(), uid)
	if !vmim.IsFinal() {
		put(q.record, queuedKind(), contract.AdmissionID, uid, observe.QueuedGone(vmim), nil, from)
	}
}

// sendCurrent sends the current state of a migration, unless it was sent.
func (q migrationQueue) sendCurrent(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if vmim, ok := watch.Get[*kubevirt.VirtualMachineInstanceMigration](q.informers.Migrations, key); ok {
		q.send(vmim, resync)
	}
}

// forget drops the record of migrations that were sent to a queue that is lost.
func (q migrationQueue) forget(list []*kubevirt.VirtualMachineInstanceMigration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, vmim := range list {
		forget(q.record, queuedKind(), string(vmim.UID))
	}
}

func (migrationQueue) workflowType() string { return contract.WorkflowAdmission }

// missing is 1 if a migration has not ended and the queue does not run. If all have ended, the queue may run or not.
func (q migrationQueue) missing(running int) int {
	if len(q.informers.UnendedMigrations()) == 0 {
		return 0
	}
	return 1 - running
}

// sendAll sends the queue the migrations that have not ended, first those that run: the queue waits for observations
// only for a while, and then admits others.
func (q migrationQueue) sendAll(ctx context.Context) error {
	unended := q.informers.UnendedMigrations()
	slices.SortFunc(unended, func(a, b *kubevirt.VirtualMachineInstanceMigration) int {
		return cmp.Compare(admissionRank(a), admissionRank(b))
	})
	for _, vmim := range unended {
		if err := q.queue.Throttle(ctx, contract.AdmissionID); err != nil {
			return err
		}
		q.sendCurrent(cache.MetaObjectToName(vmim).String())
	}
	return nil
}

func (migrationQueue) sendVanishedObjects(context.Context, *sources, map[string]openEntity) error {
	return nil
}

// startLostWorkflows sends a lost queue all migrations that have not ended.
func (q migrationQueue) startLostWorkflows(ctx context.Context, s *sources, open map[string]openEntity) error {
	unended := q.informers.UnendedMigrations()
	if _, ok := open[contract.AdmissionID]; ok || len(unended) == 0 {
		return nil
	}
	if runs, err := s.isRunning(ctx, contract.AdmissionID); err != nil || runs {
		return err
	}
	q.forget(unended)
	return q.sendAll(ctx)
}

// admissionRank is 0 for a migration that runs, and 1 for one that waits.
func admissionRank(vmim *kubevirt.VirtualMachineInstanceMigration) int {
	if vmim.IsRunning() {
		return 0
	}
	return 1
}
