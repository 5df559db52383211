package entity

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
)

// historyWhenSettled is the length of history, in events, from which an entity that has nothing to do continues as new.
// Some dozens of events keep a page readable and a replay cheap.
const historyWhenSettled = 200

// historyWhenAttached is the same while a transition is open that this run has opened: to detach it costs both some
// events.
const historyWhenAttached = 1000

// stepsPerWake bounds what one wake may do: a planner that never settles is a bug that must not spin.
const stepsPerWake = 100

// Step is one thing to do. Name and Why appear in history, logs and the answer to the plan query.
type Step struct {
	Name string `json:"name"`
	Why  string `json:"why,omitempty"`
	// Do is nil for the step that ends the workflow.
	Do func(workflow.Context) error `json:"-"`
}

// Plan is what a planner answers: the next step (nil: none), and when to ask again although nothing arrived (zero:
// never).
type Plan struct {
	Step   *Step     `json:"step,omitempty"`
	WakeAt time.Time `json:"wakeAt,omitzero"`
	// Finish ends the workflow: the object is gone and so is everything that it had.
	Finish bool `json:"finish,omitempty"`
	// Waiting says in plain words what is being waited for.
	Waiting string `json:"waiting,omitempty"`
	// Trouble is what failed last and was not made good since.
	Trouble string `json:"trouble,omitempty"`
}

// Entity is what the loop drives. S is the state, kept by the implementation.
type Entity interface {
	// State is what is carried across Continue-As-New and answered to the state query.
	State() any
	// Plan must be pure: the same state and time give the same plan.
	Plan(now time.Time) Plan
	// Refresh brings what is derived from observations up to date: it comes before each plan.
	Refresh(now time.Time)
	// Details are the workflow's current details, in Markdown.
	Details(p Plan) string
	// Busy says that something is open whose end only this run sees (an activity): no Continue-As-New then. Transitions
	// are not of that kind.
	Busy() bool
}

// Loop wires signals to an entity and runs it.
type Loop struct {
	ctx      workflow.Context
	entity   Entity
	channels []binding
	// dirty is set by everything that may change the next plan.
	dirty bool
	// alarm is when the armed timer fires (zero: none is armed).
	alarm  time.Time
	disarm workflow.CancelFunc
	// manual is the entity's memory of controls; nil: it offers none.
	manual *Manual
	// stepping says that a step is being done: its outcome is not in the state yet.
	stepping bool
	// repair makes the corrected state that the next run is to begin with; nil: there is none.
	repair func() ([]byte, error)
	// plan is the last one made, for the query: that of the step in hand, too, which may take its time.
	plan Plan
	// attached is the ID of the open transition whose end this run sees (see OpenTransition); "": there is none.
	attached       string
	cancelAttached workflow.CancelFunc
	// renew says that somebody asked for the next run.
	renew bool
	// closed is what is done when a transition has closed.
	closed func(workflow.Context, contract.TransitionClosed)
	// described are the search attributes that were written last in this run.
	described string
}

type binding struct {
	channel workflow.ReceiveChannel
	take    func(workflow.ReceiveChannel)
}

// NewLoop starts with a plan to be made.
func NewLoop(ctx workflow.Context, e Entity) *Loop {
	fixLogic(ctx)
	l := &Loop{ctx: ctx, entity: e, dirty: true}
	OnSignal(l, contract.SignalContinueAsNew, func(struct{}) { l.renew = true })
	return l
}

// OnSignal folds each signal of that name into the state. The SDK logs and drops a payload that cannot be read.
func OnSignal[T any](l *Loop, name string, fold func(T)) {
	l.channels = append(l.channels, binding{
		channel: workflow.GetSignalChannel(l.ctx, name),
		take: func(c workflow.ReceiveChannel) {
			var v T
			if c.ReceiveAsync(&v) {
				fold(v)
			}
		},
	})
}

// Wake makes the loop ask for a plan again; for coroutines that changed the state.
func (l *Loop) Wake() { l.dirty = true }

// Run drives the entity until it finishes or continues as new. again is the input of the next run.
func (l *Loop) Run(workflowType string, again func(carried []byte) any) error {
	ctx := l.ctx
	if err := workflow.SetQueryHandler(ctx, contract.QueryState, func() (any, error) {
		return l.entity.State(), nil
	}); err != nil {
		return fmt.Errorf("setting the state query: %w", err)
	}
	if err := workflow.SetQueryHandler(ctx, contract.QueryPlan, func() (Plan, error) {
		return l.plan, nil
	}); err != nil {
		return fmt.Errorf("setting the plan query: %w", err)
	}
	for {
		l.drain()
		if l.repair != nil {
			// First what is in hand: its outcome, and what arrives meanwhile, belong into the state that goes on.
			if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
				return err
			}
			l.drain()
			if carried := l.repaired(); carried != nil {
				l.measure()
				return workflow.NewContinueAsNewError(ctx, workflowType, again(carried))
			}
		}
		l.forgetRefusal()
		l.show(l.settle())
		if l.plan.Finish {
			return nil
		}
		if l.shouldContinueAsNew() {
			if !l.detach() {
				// It has closed: how, this run hears in a moment.
				if _, err := workflow.AwaitWithTimeout(ctx, time.Second, func() bool {
					return l.attached == "" || l.pending()
				}); err != nil {
					return err
				}
				continue
			}
			if l.pending() {
				continue
			}
			carried, err := Encode(l.entity.State())
			if err != nil {
				return err
			}
			return workflow.NewContinueAsNewError(ctx, workflowType, again(carried))
		}
		if err := l.sleep(l.wakeAt(l.plan)); err != nil {
			return err
		}
	}
}

// show makes a plan what people see who look into the workflow.
func (l *Loop) show(p Plan) {
	if p.Step != nil {
		p.Waiting = fmt.Sprintf("the step in hand to end, %s (%s)", p.Step.Name, p.Step.Why)
	}
	l.plan = p
	workflow.SetCurrentDetails(l.ctx, l.entity.Details(p)+l.refusal())
}

// settle does step after step until the planner has none.
func (l *Loop) settle() Plan {
	for range stepsPerWake {
		l.dirty = false
		now := workflow.Now(l.ctx)
		l.entity.Refresh(now)
		l.measure()
		p := l.entity.Plan(now)
		if p.Step == nil || p.Finish {
			return p
		}
		workflow.GetLogger(l.ctx).Debug("step", "step", p.Step.Name, "why", p.Step.Why)
		l.show(p)
		l.stepping = true
		err := p.Step.Do(l.ctx)
		l.stepping = false
		if err != nil && !errors.Is(err, workflow.ErrCanceled) {
			countFailure(l.ctx, p.Step.Name, err)
			workflow.GetLogger(l.ctx).Warn("step failed", "step", p.Step.Name, "error", err)
		}
		l.drain()
		if l.repair != nil {
			return Plan{Waiting: "the repair to take effect"}
		}
	}
	workflow.GetLogger(l.ctx).Error("the planner does not settle; waiting for the next change")
	return Plan{Waiting: "the planner did not settle; this is a bug in virtflow",
		WakeAt: workflow.Now(l.ctx).Add(time.Minute)}
}

// measure tells the metrics of transitions that have closed. What this run does not tell, none does.
func (l *Loop) measure() {
	if l.manual != nil {
		l.manual.Measure(l.ctx)
	}
}

// drain folds what has arrived, channel by channel in the order they were bound: an order that replays.
func (l *Loop) drain() {
	for _, b := range l.channels {
		for b.channel.Len() > 0 {
			b.take(b.channel)
			l.dirty = true
		}
	}
}

func (l *Loop) pending() bool {
	if l.dirty || l.repair != nil {
		return true
	}
	for _, b := range l.channels {
		if b.channel.Len() > 0 {
			return true
		}
	}
	return false
}

func (l *Loop) shouldContinueAsNew() bool {
	if l.entity.Busy() || l.pending() || !workflow.AllHandlersFinished(l.ctx) {
		return false
	}
	info := workflow.GetInfo(l.ctx)
	limit := historyWhenSettled
	if l.attached != "" {
		limit = historyWhenAttached
	}
	return l.renew || info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() >= limit
}

// repaired is the corrected state that a repair asked for, or nil.
func (l *Loop) repaired() []byte {
	if l.repair == nil {
		return nil
	}
	carried, err := l.repair()
	l.repair = nil
	if err != nil {
		now := workflow.Now(l.ctx)
		l.manual.Refused = &Refusal{Control: contract.ControlRepair, Why: Message(err), At: now,
			Until: now.Add(refusedFor)}
		return nil
	}
	return carried
}

// forgetRefusal ends the time for which a refused control is shown.
func (l *Loop) forgetRefusal() {
	if l.manual != nil && l.manual.Refused != nil && !workflow.Now(l.ctx).Before(l.manual.Refused.Until) {
		l.manual.Refused = nil
	}
}

// wakeAt is when to plan again although nothing arrived: as the plan says, or when a refused control has been shown for
// long enough.
func (l *Loop) wakeAt(p Plan) time.Time {
	if l.manual == nil || l.manual.Refused == nil {
		return p.WakeAt
	}
	if until := l.manual.Refused.Until; p.WakeAt.IsZero() || until.Before(p.WakeAt) {
		return until
	}
	return p.WakeAt
}

// refusal is what the current details say of a control that came as a signal and was not taken.
func (l *Loop) refusal() string {
	if l.manual == nil || l.manual.Refused == nil {
		return ""
	}
	r := l.manual.Refused
	return fmt.Sprintf("\n\nThe control %s (claimed actor: %s) was refused at %s: %s.", r.Control, r.Actor,
		r.At.UTC().Format(time.RFC3339), r.Why)
}

func (l *Loop) sleep(until time.Time) error {
	l.arm(until)
	return workflow.Await(l.ctx, l.pending)
}

// arm keeps at most one timer, and the same one for as long as the planner names the same time: each costs events.
func (l *Loop) arm(until time.Time) {
	if until.Equal(l.alarm) {
		return
	}
	if l.disarm != nil {
		l.disarm()
		l.disarm = nil
	}
	l.alarm = until
	if until.IsZero() {
		return
	}
	wait := max(until.Sub(workflow.Now(l.ctx)), time.Millisecond)
	tctx, cancel := workflow.WithCancel(l.ctx)
	l.disarm = cancel
	workflow.Go(tctx, func(ctx workflow.Context) {
		if err := workflow.NewTimer(ctx, wait).Get(ctx, nil); err != nil {
			return
		}
		l.alarm, l.disarm = time.Time{}, nil
		l.Wake()
	})
}
