package drain

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// drain binds the state to one run of the workflow.
type drain struct {
	in    contract.DrainInput
	state State
	loop  *entity.Loop
}

// Workflow runs a drain. It ends when all guests that are to leave have left, or when it was cancelled and has
// cancelled its migrations and cleared its evacuations.
func Workflow(ctx workflow.Context, in contract.DrainInput) (contract.DrainResult, error) {
	d := &drain{in: in, state: State{Node: in.Node, Scope: in.Scope, Parallelism: in.Parallelism,
		Marked: in.Marked, Since: workflow.Now(ctx)}}
	if in.Node == "" {
		return contract.DrainResult{}, temporal.NewNonRetryableApplicationError("a drain needs the node's name",
			contract.ErrorInvalid, nil)
	}
	if err := entity.Decode(in.Carried, &d.state); err != nil {
		return contract.DrainResult{}, err
	}
	if in.Uncordoned {
		d.state.endByUncordon(workflow.Now(ctx))
	}
	// A cancellation by Temporal acts like the control: migrations are cancelled and evacuations cleared.
	loop, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	d.loop = entity.NewLoop(loop, d)
	workflow.Go(loop, func(loop workflow.Context) {
		ctx.Done().Receive(loop, nil)
		if ctx.Err() != nil {
			d.state.cancel(Request{Actor: "Temporal", Reason: "the workflow was cancelled", Since: workflow.Now(loop)})
			d.loop.Wake()
		}
	})
	entity.OnSignal(d.loop, contract.SignalProgress, func(p contract.DrainProgress) {
		d.state.observe(p)
		if p.Uncordoned {
			d.state.endByUncordon(workflow.Now(loop))
		}
	})
	entity.OnSignal(d.loop, contract.SignalDetached, func(struct{}) { d.state.Detached = true })
	if err := d.loop.OnControls(&d.state.Manual, d.controls()...); err != nil {
		return contract.DrainResult{}, err
	}
	d.loop.SetSearchAttributes(loop, []entity.Attribute{{Name: contract.SearchNode, Value: in.Node}})
	err := d.loop.Run(contract.WorkflowDrain, func(carried []byte) any {
		again := in
		again.Carried = carried
		return again
	})
	if workflow.IsContinueAsNewError(err) {
		return contract.DrainResult{}, err
	}
	return entity.ReportOutcomeIf(loop, d.state.Detached, d.state.result(), err)
}

// State returns the state, for the query.
func (d *drain) State() any { return d.state }

// Busy reports whether something is open between two steps: never.
func (d *drain) Busy() bool { return false }

// Refresh has nothing to derive.
func (d *drain) Refresh(time.Time) {}

// Plan binds the planner's decision to its step.
func (d *drain) Plan(now time.Time) entity.Plan {
	return d.state.decide(now).Plan(d.state.Failure, d.act)
}

// act does a step.
func (d *drain) act(ctx workflow.Context, do entity.Decision) error {
	return entity.RecordResult(ctx, &d.state.Failure, do.Step(), "", d.step(ctx, do))
}

func (d *drain) step(ctx workflow.Context, do entity.Decision) error {
	s := &d.state
	switch do.Action {
	case entity.ActRead:
		r, err := entity.Call[contract.FindEvacueesResult](ctx, contract.ActivityFindEvacuees,
			"look who is on "+s.Node, contract.FindEvacueesInput{Node: s.Node, Scope: s.Scope,
				Priority: s.Guests.Priority(s.More)})
		if err == nil {
			s.foldGuests(workflow.Now(ctx), r)
		}
		return err
	case actMigrate:
		return d.migrate(ctx)
	case actEvict:
		return d.evict(ctx, do.Object)
	case actDelete:
		err := entity.Do(ctx, contract.ActivityDeleteMigrations, "cancel migrations away from "+s.Node,
			contract.DeleteMigrationsInput{Migrations: s.openMigrations()})
		s.Deleted = err == nil
		return err
	case actClear:
		err := entity.Do(ctx, contract.ActivityClearEvacuation, "let those that are left on "+s.Node+" stay",
			contract.ClearEvacuationInput{Node: s.Node, Instances: s.markedGuests()})
		s.Cleared = err == nil
		return err
	default:
		return fmt.Errorf("a drain has no step %q", do.Action)
	}
}

// migrate makes the migrations that are due, and has the guests read afterwards.
func (d *drain) migrate(ctx workflow.Context) error {
	s := &d.state
	chosen, _ := s.movable(workflow.Now(ctx))
	r, err := entity.Call[contract.CreateMigrationsResult](ctx, contract.ActivityCreateMigrations,
		fmt.Sprintf("make %d migrations away from %s", len(chosen), s.Node),
		contract.CreateMigrationsInput{Node: s.Node, Instances: chosen, Actor: d.in.Actor})
	if err != nil {
		return err
	}
	for _, refused := range r.Refused {
		s.Guests = s.Guests.RecordRefused(workflow.Now(ctx), refused.UID, refused.Why)
	}
	s.Stale = len(r.Refused) < len(chosen)
	return nil
}

func (d *drain) evict(ctx workflow.Context, uid string) error {
	s := &d.state
	g := s.Guests.Find(uid)
	if g == nil {
		return nil
	}
	vmi := g.VMI
	r, err := entity.Call[contract.EvictPodResult](ctx, contract.ActivityEvictPod,
		"evict the pod of "+vmi.Namespace+"/"+vmi.Name, contract.EvictPodInput{Node: s.Node, VMI: vmi})
	now := workflow.Now(ctx)
	switch {
	case err != nil:
		return err
	case r.Refused != "":
		s.Guests = s.Guests.RecordRefused(now, uid, r.Refused)
	default:
		s.Guests = s.Guests.RecordEvicted(now, uid, s.standingOf)
	}
	return nil
}
