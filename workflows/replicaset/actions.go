package replicaset

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// act does one step.
func (e *set) act(ctx workflow.Context, d decision) error {
	switch d.Action {
	case entity.ActNext:
		e.state = e.state.next()
		e.describe(ctx)
		return nil
	case actFind:
		return e.find(ctx)
	case actClaim:
		return e.claim(ctx)
	case entity.ActWrite:
		return e.write(ctx)
	case entity.ActOpen:
		return e.open(ctx, d)
	case entity.ActCancel:
		return e.loop.CancelOpen(ctx, e.state.open())
	case entity.ActAsk:
		return e.loop.AskOpen(ctx, e.state.open())
	case actSignal:
		return e.signalProgress(ctx)
	default: // nothing is to be done
	}
	return nil
}

// find asks the API server for every replica.
func (e *set) find(ctx workflow.Context) error {
	s := &e.state
	in := contract.FindReplicasInput{Set: s.Object, Selector: s.Set.Selector}
	r, err := entity.Call[contract.FindReplicasResult](ctx, contract.ActivityFindReplicas, string(actFind), in)
	if err == nil {
		s.found(r)
	}
	return e.settle(ctx, string(actFind), contract.ReasonFailedCreate, err)
}

// claim adopts and releases instances.
func (e *set) claim(ctx workflow.Context) error {
	s := &e.state
	adopt, release := s.claims()
	in := contract.ClaimReplicasInput{Set: s.Object, Adopt: e.objects(adopt), Release: e.objects(release)}
	r, err := entity.Call[contract.ClaimReplicasResult](ctx, contract.ActivityClaimReplicas, string(actClaim), in)
	if err == nil {
		for _, o := range r.Replicas {
			s.observeReplica(o)
		}
		s.lookAgain()
	}
	return e.settle(ctx, string(actClaim), contract.ReasonFailedCreate, err)
}

// write writes the status, locked by what was seen last.
func (e *set) write(ctx workflow.Context) error {
	s := &e.state
	st := s.status()
	in := contract.PatchReplicaSetInput{Set: s.Object, ResourceVersion: s.Set.ResourceVersion, Status: st,
		Events: s.events(st)}
	r, err := entity.Call[contract.PatchReplicaSetResult](ctx, contract.ActivityPatchReplicaSet,
		string(entity.ActWrite), in)
	if err != nil {
		s.Unanswered(&st)
	} else {
		err = s.patched(in, r, workflow.Now(ctx))
	}
	if e.settle(ctx, string(entity.ActWrite), contract.ReasonFailedUpdate, err) == nil {
		e.describe(ctx)
	}
	return err
}

// patched takes in what became of a patch.
func (s *State) patched(in contract.PatchReplicaSetInput, r contract.PatchReplicaSetResult, now time.Time) error {
	return entity.Wrote(&s.StatusWrites, entity.Patch[contract.ReplicaSetStatus, contract.ReplicaSetObservation]{
		Kind: "VirtualMachineInstanceReplicaSet", UID: s.Object.UID, Version: in.ResourceVersion, Status: &in.Status,
		Seen: &s.Set, Believe: s.believe, Observe: s.observeSet,
		Written: func() { s.WrittenAt = now },
	}, r)
}

// settle notes how a step went.
func (e *set) settle(ctx workflow.Context, step, reason string, err error) error {
	return entity.Settle(ctx, &e.state.Failure, step, reason, err)
}

// forgetFailure drops a failure whose aim has been reached another way, or is nobody's any more.
func (s *State) forgetFailure() {
	f := s.Failure
	if f == nil || s.Open != nil {
		return
	}
	over := false
	switch f.Step {
	case replicate:
		over = s.Known && s.needs().none() && (!f.Late || !s.waiting())
	case string(actClaim):
		adopt, release := s.claims()
		over = len(adopt)+len(release) == 0
	case string(actFind):
		over = s.Known
	default:
	}
	if over {
		s.Failure = nil
	}
}

// waiting says that a replica does not run yet, or is not gone yet.
func (s *State) waiting() bool {
	return len(s.pick(func(r contract.ReplicaObservation) bool {
		return s.mine(r) && (r.Deleting || s.counts(r) && r.Phase != "Running")
	})) > 0
}

// grace is how long a guest's end is waited for, before it is killed.
func (s *State) grace() time.Duration { return contract.GraceWait(s.Set.GracePeriodSeconds) }
