package replicaset

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// act does one step.
func (e *set) act(ctx workflow.Context, d decision) error {
	switch d.Action {
	case entity.ActNext:
		e.state = e.state.successor()
		e.setSearchAttributes(ctx)
		return nil
	case actFind:
		return e.findReplicas(ctx)
	case actClaim:
		return e.adoptAndRelease(ctx)
	case entity.ActWrite:
		return e.write(ctx)
	case entity.ActOpen:
		return e.openTransition(ctx, d)
	case entity.ActCancel:
		return e.loop.CancelOpen(ctx, e.state.openTransition())
	case entity.ActAsk:
		return e.loop.AskOpen(ctx, e.state.openTransition())
	case actSignal:
		return e.signalProgress(ctx)
	default: // no step
	}
	return nil
}

// findReplicas reads all replicas from the API server.
func (e *set) findReplicas(ctx workflow.Context) error {
	s := &e.state
	in := contract.FindReplicasInput{Set: s.Object, Selector: s.Set.Selector}
	r, err := entity.Call[contract.FindReplicasResult](ctx, contract.ActivityFindReplicas, string(actFind), in)
	if err == nil {
		s.applyFound(r)
	}
	return e.recordResult(ctx, string(actFind), contract.ReasonFailedCreate, err)
}

// adoptAndRelease adopts and releases instances.
func (e *set) adoptAndRelease(ctx workflow.Context) error {
	s := &e.state
	adopt, release := s.ownershipChanges()
	in := contract.ClaimReplicasInput{Set: s.Object, Adopt: e.objects(adopt), Release: e.objects(release)}
	r, err := entity.Call[contract.ClaimReplicasResult](ctx, contract.ActivityClaimReplicas, string(actClaim), in)
	if err == nil {
		for _, o := range r.Replicas {
			s.observeReplica(o)
		}
		s.findMore()
	}
	return e.recordResult(ctx, string(actClaim), contract.ReasonFailedCreate, err)
}

// write writes the status, with the last observed resourceVersion as its lock.
func (e *set) write(ctx workflow.Context) error {
	s := &e.state
	st := s.status()
	in := contract.PatchReplicaSetInput{Set: s.Object, ResourceVersion: s.Set.ResourceVersion, Status: st,
		Events: s.events(st)}
	r, err := entity.Call[contract.PatchReplicaSetResult](ctx, contract.ActivityPatchReplicaSet,
		string(entity.ActWrite), in)
	if err != nil {
		s.MarkWriteUnknown(&st)
	} else {
		err = s.applyPatch(in, r, workflow.Now(ctx))
	}
	if e.recordResult(ctx, string(entity.ActWrite), contract.ReasonFailedUpdate, err) == nil {
		e.setSearchAttributes(ctx)
	}
	return err
}

// applyPatch folds in the result of a patch.
func (s *State) applyPatch(in contract.PatchReplicaSetInput, r contract.PatchReplicaSetResult, now time.Time) error {
	return entity.FoldAnswer(&s.StatusWrites, entity.Patch[contract.ReplicaSetStatus, contract.ReplicaSetObservation]{
		Kind: "VirtualMachineInstanceReplicaSet", UID: s.Object.UID, Version: in.ResourceVersion, Status: &in.Status,
		Seen: &s.Set, Replace: s.setSet, Observe: s.observeSet,
		Written: func() { s.WrittenAt = now },
	}, r)
}

// recordResult records the result of a step.
func (e *set) recordResult(ctx workflow.Context, step, reason string, err error) error {
	return entity.RecordResult(ctx, &e.state.Failure, step, reason, err)
}

// dropObsoleteFailure drops a failure whose step has become unnecessary.
func (s *State) dropObsoleteFailure() {
	f := s.Failure
	if f == nil || s.Open != nil {
		return
	}
	over := false
	switch f.Step {
	case replicate:
		over = s.Known && s.needs().isEmpty() && (!f.Late || !s.isWaitingForReplicas())
	case string(actClaim):
		adopt, release := s.ownershipChanges()
		over = len(adopt)+len(release) == 0
	case string(actFind):
		over = s.Known
	default:
	}
	if over {
		s.Failure = nil
	}
}

// isWaitingForReplicas reports whether a replica does not run yet, or is not gone yet.
func (s *State) isWaitingForReplicas() bool {
	return len(s.replicasWhere(func(r contract.ReplicaObservation) bool {
		return s.isController(r) && (r.Deleting || s.countsForSet(r) && r.Phase != "Running")
	})) > 0
}

// grace returns how long a guest may take to shut down before it is killed.
func (s *State) grace() time.Duration { return contract.GraceWait(s.Set.GracePeriodSeconds) }
