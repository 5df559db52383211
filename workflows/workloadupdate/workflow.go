package workloadupdate

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// update binds the state to one run of the workflow.
type update struct {
	state State
	loop  *entity.Loop
}

// Workflow runs a workload update. It ends when no launcher is outdated any longer.
func Workflow(ctx workflow.Context, in contract.EntityInput) (contract.WorkloadUpdateResult, error) {
	u := &update{state: State{Since: workflow.Now(ctx)}}
	if err := entity.Decode(in.Carried, &u.state); err != nil {
		return contract.WorkloadUpdateResult{}, err
	}
	u.loop = entity.NewLoop(ctx, u)
	entity.OnSignal(u.loop, contract.SignalObserveOutdated, func(o contract.OutdatedObservation) {
		u.state.observe(workflow.Now(ctx), o)
	})
	if err := u.loop.OnControls(&u.state.Manual, u.controls()...); err != nil {
		return contract.WorkloadUpdateResult{}, err
	}
	err := u.loop.Run(contract.WorkflowWorkloadUpdate, func(carried []byte) any {
		return contract.EntityInput{Name: in.Name, Carried: carried}
	})
	return u.state.result(), err
}

// State returns the state, for the query.
func (u *update) State() any { return u.state }

// Busy reports whether something is open between two steps: never.
func (u *update) Busy() bool { return false }

// Refresh has nothing to derive.
func (u *update) Refresh(time.Time) {}

// Plan binds the planner's decision to its step.
func (u *update) Plan(now time.Time) entity.Plan {
	return u.state.decide(now).Plan(u.state.Failure, u.act)
}

// act does a step.
func (u *update) act(ctx workflow.Context, do entity.Decision) error {
	return entity.RecordResult(ctx, &u.state.Failure, do.Step(), "", u.step(ctx, do))
}

func (u *update) step(ctx workflow.Context, do entity.Decision) error {
	s := &u.state
	switch do.Action {
	case entity.ActRead:
		all, labels := s.lookAtAll(workflow.Now(ctx)), 0
		if all {
			labels = contract.MaxMarked
		}
		r, err := entity.CallBatch[contract.FindOutdatedResult](ctx, contract.ActivityFindOutdated,
			"look whose launchers are outdated", labels,
			contract.FindOutdatedInput{Image: s.Observed.Image, All: all, Priority: s.Guests.Priority(s.More)})
		if err == nil {
			s.foldInstances(workflow.Now(ctx), all, r)
		}
		return err
	case actMove:
		chosen, _ := s.movable(workflow.Now(ctx))
		refused, err := u.apply(ctx, contract.ActivityMoveOutdated, "make migrations to new launchers: %d", chosen)
		s.Stale = err == nil && refused < len(chosen)
		return err
	case actEvict:
		chosen, _ := s.evictable(workflow.Now(ctx))
		_, err := u.apply(ctx, contract.ActivityEvictOutdated, "evict pods of outdated launchers: %d", chosen)
		if err == nil {
			s.Batch = workflow.Now(ctx)
		}
		return err
	default:
		return fmt.Errorf("a workload update has no step %q", do.Action)
	}
}

// apply calls an activity that updates guests, and records its refusals.
func (u *update) apply(
	ctx workflow.Context, activity, what string, chosen []contract.Movable,
) (refused int, err error) {
	s := &u.state
	in := contract.UpdateInstancesInput{Image: s.Observed.Image}
	for _, m := range chosen {
		in.Instances = append(in.Instances, m.VMI)
	}
	r, err := entity.CallBatch[contract.UpdateInstancesResult](ctx, activity, fmt.Sprintf(what, len(chosen)),
		len(chosen), in)
	if err != nil {
		return 0, err
	}
	now := workflow.Now(ctx)
	no := map[string]bool{}
	for _, x := range r.Refused {
		no[x.UID] = true
		s.Guests = s.Guests.RecordRefused(now, x.UID, x.Why)
	}
	for _, m := range chosen {
		if activity == contract.ActivityEvictOutdated && !no[m.VMI.UID] {
			s.Guests = s.Guests.RecordEvicted(now, m.VMI.UID, s.standingOf)
		}
	}
	return len(no), nil
}
