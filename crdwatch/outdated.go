package crdwatch

import (
	"context"
	"time"

	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/workflows/contract"
)

// outdatedUID stands for all instances with outdated launchers where the outbox asks for the UID of what is observed:
// they go together.
const outdatedUID = "outdated"

// outdatedHold is how long one waits for others: with a new image all are outdated at once.
const outdatedHold = 500 * time.Millisecond

func outdatedKind() kind[contract.OutdatedObservation] {
	return kind[contract.OutdatedObservation]{name: "outdated", signal: contract.SignalObserveOutdated}
}

// imageOf indexes the instances that have not ended by the image of their launcher.
func imageOf(o any) ([]string, error) {
	vmi, ok := o.(*kubevirt.VirtualMachineInstance)
	if !ok || vmi.IsFinal() || vmi.Status.LauncherContainerImageVersion == "" {
		return nil, nil
	}
	return []string{vmi.Status.LauncherContainerImageVersion}, nil
}

// outdated is how many instances have launchers of another image than new ones get.
func (i *Informers) outdated() int {
	n := 0
	if i.image == "" {
		return n
	}
	for _, image := range i.VMIs.GetIndexer().ListIndexFuncValues(byImage) {
		if image != i.image {
			n += len(indexed[*kubevirt.VirtualMachineInstance](i.VMIs, byImage, image))
		}
	}
	return n
}

// outdatedChanged sends the workload update how many there are, if that has changed.
func (d *differ) outdatedChanged(from origin) {
	last, known := recall(d, outdatedKind(), outdatedUID)
	if n := d.informers.outdated(); known && n != last.Outdated || !known && n > 0 {
		d.sendOutdated(from)
	}
}

// sendOutdated sends the workload update how many there are. It is started where there are any.
func (d *differ) sendOutdated(from origin) {
	k := outdatedKind()
	o := contract.OutdatedObservation{Image: d.informers.image, Outdated: d.informers.outdated()}
	if o.Image == "" {
		return
	}
	last, _ := recall(d, k, outdatedUID)
	o.Sequence = max(last.Sequence+1, time.Now().UnixMilli())
	remember(d, k, outdatedUID, o)
	delivery := Delivery{Workflow: contract.WorkloadUpdateID, Signal: k.signal, UID: outdatedUID, Kind: k.name,
		Payload: o, Resync: from == resync, Hold: outdatedHold}
	if o.Outdated > 0 {
		delivery.Start = &Start{Type: contract.WorkflowWorkloadUpdate,
			Input: contract.EntityInput{Name: contract.WorkloadUpdateID}, Summary: "The update of launchers"}
	}
	d.queue.Put(delivery)
}

// updateEntity is the workload update, an entity without an object.
type updateEntity struct{ informers *Informers }

func (updateEntity) subscribe(func() *Leader) error { return nil }

func (updateEntity) workflowType() string { return contract.WorkflowWorkloadUpdate }

// missing counts on it where a launcher is outdated. Where there is none it is about to end.
func (u updateEntity) missing(running int) int {
	if u.informers.outdated() == 0 {
		return 0
	}
	return 1 - running
}

// sendAll also tells one that none is outdated: it may go on from an older copy.
func (updateEntity) sendAll(_ context.Context, r *resyncer) error {
	r.differ.mu.Lock()
	defer r.differ.mu.Unlock()
	if _, known := recall(r.differ, outdatedKind(), outdatedUID); !known {
		r.differ.sendOutdated(resync)
	}
	return nil
}

func (updateEntity) vanishedObjects(context.Context, *resyncer, map[string]openEntity) error {
	return nil
}

// lostWorkflows starts one that is lost.
func (u updateEntity) lostWorkflows(ctx context.Context, r *resyncer, open map[string]openEntity) error {
	if _, ok := open[contract.WorkloadUpdateID]; ok || u.informers.outdated() == 0 {
		return nil
	}
	if runs, err := r.runs(ctx, contract.WorkloadUpdateID); err != nil || runs {
		return err
	}
	r.differ.mu.Lock()
	defer r.differ.mu.Unlock()
	r.differ.sendOutdated(resync)
	return nil
}
