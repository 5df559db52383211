package diff

import (
	"context"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
)

// outdatedUID is the UID in deliveries about outdated launchers: one delivery has the number of all of them.
const outdatedUID = "outdated"

func outdatedKind() kind[contract.OutdatedObservation] {
	return kind[contract.OutdatedObservation]{name: delivery.KindOutdated, signal: contract.SignalObserveOutdated}
}

// workloadUpdate sends the workload update, an entity without an object, how many launchers are outdated.
type workloadUpdate struct{ *record }

// sendIfChanged sends the workload update how many launchers are outdated, if that has changed.
func (u workloadUpdate) sendIfChanged(from delivery.Cause) {
	last, known := recall(u.record, outdatedKind(), outdatedUID)
	if n := u.informers.CountOutdated(); known && n != last.Outdated || !known && n > 0 {
		u.send(from)
	}
}

// send sends the workload update how many launchers are outdated. It starts the workflow if there are any.
func (u workloadUpdate) send(from delivery.Cause) {
	k := outdatedKind()
	o := contract.OutdatedObservation{Image: u.informers.Image, Outdated: u.informers.CountOutdated()}
	if o.Image == "" {
		return
	}
	last, _ := recall(u.record, k, outdatedUID)
	o.Sequence = max(last.Sequence+1, time.Now().UnixMilli())
	remember(u.record, k, outdatedUID, o)
	var start *delivery.Start
	if o.Outdated > 0 {
		start = &delivery.Start{Type: contract.WorkflowWorkloadUpdate,
			Input: contract.EntityInput{Name: contract.WorkloadUpdateID}, Summary: "The update of launchers"}
	}
	put(u.record, k, contract.WorkloadUpdateID, outdatedUID, o, start, from)
}

func (workloadUpdate) workflowType() string { return contract.WorkflowWorkloadUpdate }

// missing is 1 if launchers are outdated and the workflow does not run. If none is outdated, the workflow is about to
// end.
func (u workloadUpdate) missing(running int) int {
	if u.informers.CountOutdated() == 0 {
		return 0
	}
	return 1 - running
}

// sendAll sends the number also if it is 0, because the workflow may continue from a restored database.
func (u workloadUpdate) sendAll(context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := recall(u.record, outdatedKind(), outdatedUID); !known {
		u.send(resync)
	}
	return nil
}

func (workloadUpdate) sendVanishedObjects(context.Context, *sources, map[string]openEntity) error {
	return nil
}

// startLostWorkflows starts the workflow if it is lost.
func (u workloadUpdate) startLostWorkflows(ctx context.Context, s *sources, open map[string]openEntity) error {
	if _, ok := open[contract.WorkloadUpdateID]; ok || u.informers.CountOutdated() == 0 {
		return nil
	}
	if runs, err := s.isRunning(ctx, contract.WorkloadUpdateID); err != nil || runs {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.send(resync)
	return nil
}
