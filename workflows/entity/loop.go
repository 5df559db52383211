package entity

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/waits"
)

// historyWhenSettled is the length of history, in events, from which an entity that has nothing to do continues as new.
// Some dozens of events keep a page readable and a replay cheap.
const historyWhenSettled = 200

// historyWhenAttached is the same while a transition is open that this run has opened: detaching it costs both runs
// some events.
const historyWhenAttached = 1000

// historyAtMost is the length from which it continues as new although signals wait, and before its next step. Otherwise
// a flood of signals would prevent it until Temporal terminates the run, at 50 MiB or 51,200 events.
const historyAtMost = 2000

// changeOverdue is the change ID of historyAtMost. It is not among contract.Changes: a run asks for it only once it is
// that long.
const changeOverdue = "continue-as-new-while-signals-wait"

// stepsPerWake bounds the steps of one wake: a planner that never settles is a bug that must not spin.
const stepsPerWake = 100

// Step is one step of an entity. Name and Why appear in history, logs and the answer to the plan query.
type Step struct {
	Name string `json:"name"`
	Why  string `json:"why,omitempty"`
	// Do is nil for the step that ends the workflow.
	Do func(workflow.Context) error `json:"-"`
}

// Plan is a planner's answer: the next step (nil: none), and when to plan again although no signal arrived (zero:
// never).
type Plan struct {
	Step   *Step     `json:"step,omitempty"`
	WakeAt time.Time `json:"wakeAt,omitzero"`
	// Finish ends the workflow: the object is gone, and nothing of it is left.
	Finish bool `json:"finish,omitempty"`
	// Waiting describes what the entity waits for; during a step, that is the end of the step.
	Waiting waits.Wait `json:"waiting,omitzero"`
	// Trouble is the last failure that no success has cleared.
	Trouble string `json:"trouble,omitempty"`
}

// WaitText returns the paragraph of the current details on what is waited for; "": nothing is.
func (p Plan) WaitText() string {
	if p.Waiting == (waits.Wait{}) {
		return ""
	}
	return "\n\nWaiting for " + strings.TrimRight(p.Waiting.String(), ". ") + "."
}

// Entity is driven by the loop. The implementation keeps the state.
type Entity interface {
	// State returns what Continue-As-New carries and the state query answers.
	State() any
	// Plan returns the next step. It must be pure: the same state and time give the same plan.
	Plan(now time.Time) Plan
	// Refresh derives what follows from observations: it is called before each plan.
	Refresh(now time.Time)
	// Details returns the workflow's current details, in Markdown.
	Details(p Plan) string
	// Busy reports whether something is open whose end only this run sees (an activity), which prevents
	// Continue-As-New. A transition does not.
	Busy() bool
}

// Loop wires signals to an entity and runs it.
type Loop struct {
	ctx      workflow.Context
	entity   Entity
	channels []binding
	// dirty is set by everything that may change the next plan.
	dirty bool
	// timerAt is when the armed timer fires (zero: none is armed).
	timerAt     time.Time
	cancelTimer workflow.CancelFunc
	// manual is the entity's memory of controls; nil: it offers none.
	manual *Manual
	// stepping is set during a step: its result is not in the state yet.
	stepping bool
	// repair returns the corrected state with which the next run is to begin; nil: there is none.
	repair func() ([]byte, error)
	// plan is the last one, for the query, also during its step, which may take long.
	plan Plan
	// attached is the ID of the open transition whose end this run sees (see OpenTransition); "": there is none.
	attached       string
	cancelAttached workflow.CancelFunc
	// renew is set when a signal has asked for the next run.
	renew bool
	// onClosed is called when a transition has closed.
	onClosed func(workflow.Context, contract.TransitionClosed)
	logic    Logic
	// described are the search attributes that this run wrote last.
	described string
}

type binding struct {
	channel workflow.ReceiveChannel
	receive func(workflow.ReceiveChannel)
}

// NewLoop returns a loop that begins with a plan.
func NewLoop(ctx workflow.Context, e Entity) *Loop {
	l := &Loop{ctx: ctx, entity: e, dirty: true, logic: fixLogic(ctx, contract.Changes())}
	OnSignal(l, contract.SignalContinueAsNew, func(struct{}) { l.renew = true })
	return l
}

// Logic returns the logic that this run began with.
func (l *Loop) Logic() Logic { return l.logic }

// OnSignal folds each signal of that name into the state. The SDK logs and drops a payload that cannot be read.
func OnSignal[T any](l *Loop, name string, fold func(T)) {
	l.channels = append(l.channels, binding{
		channel: workflow.GetSignalChannel(l.ctx, name),
		receive: func(c workflow.ReceiveChannel) {
			var v T
			if c.ReceiveAsync(&v) {
				fold(v)
			}
		},
	})
}

// Wake makes the loop plan again; for coroutines that changed the state.
func (l *Loop) Wake() { l.dirty = true }

// Run drives the entity until it finishes or continues as new. again returns the input of the next run.
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
		l.foldSignals()
		if l.repair != nil {
			// First the open Updates: their results, and the signals that arrive meanwhile, belong into the state.
			if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
				return err
			}
			l.foldSignals()
			if carried := l.takeRepairedState(); carried != nil {
				l.recordMetrics()
				return workflow.NewContinueAsNewError(ctx, workflowType, again(carried))
			}
		}
		l.forgetRefusal()
		l.showPlan(l.runSteps())
		if l.plan.Finish {
			return nil
		}
		if l.shouldContinueAsNew() {
			if !l.detachTransition() {
				// It has closed: its outcome reaches this run in a moment.
				if _, err := workflow.AwaitWithTimeout(ctx, time.Second, func() bool {
					return l.attached == "" || l.hasPending()
				}); err != nil {
					return err
				}
				continue
			}
			if l.hasPending() && !l.isOverdue() {
				continue
			}
			l.foldSignals() // the next run begins with a plan for what has arrived
			if l.repair != nil || !l.isIdle() {
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

// showPlan makes a plan visible in the query and the current details.
func (l *Loop) showPlan(p Plan) {
	if p.Step != nil {
		p.Waiting = waits.For(waits.StepEnd, p.Step.Name, p.Step.Why)
	}
	l.plan = p
	workflow.SetCurrentDetails(l.ctx, l.entity.Details(p)+l.refusal())
}

// runSteps does step after step until the planner has none.
func (l *Loop) runSteps() Plan {
	for range stepsPerWake {
		l.dirty = false
		now := workflow.Now(l.ctx)
		l.entity.Refresh(now)
		l.recordMetrics()
		p := l.entity.Plan(now)
		if p.Step == nil || p.Finish {
			return p
		}
		if l.isIdle() && l.isOverdue() {
			return Plan{Waiting: waits.For(waits.NextRun)}
		}
		workflow.GetLogger(l.ctx).Debug("step", "step", p.Step.Name, "why", p.Step.Why)
		l.showPlan(p)
		l.stepping = true
		err := p.Step.Do(l.ctx)
		l.stepping = false
		if err != nil && !errors.Is(err, workflow.ErrCanceled) {
			countFailure(l.ctx, p.Step.Name, err)
			workflow.GetLogger(l.ctx).Warn("step failed", "step", p.Step.Name, "error", err)
		}
		l.foldSignals()
		if l.repair != nil {
			return Plan{Waiting: waits.For(waits.Repair)}
		}
	}
	workflow.GetLogger(l.ctx).Error("failed to settle: the planner always has a step; waiting for the next change")
	return Plan{Waiting: waits.For(waits.UnsettledPlanner), WakeAt: workflow.Now(l.ctx).Add(time.Minute)}
}

// recordMetrics records the metrics of transitions that have closed. The next run does not have them.
func (l *Loop) recordMetrics() {
	if l.manual != nil {
		l.manual.RecordMetrics(l.ctx)
	}
}

// foldSignals folds in what has arrived, channel by channel in the order of their registration, which replays.
func (l *Loop) foldSignals() {
	for _, b := range l.channels {
		for b.channel.Len() > 0 {
			b.receive(b.channel)
			l.dirty = true
		}
	}
}

// hasPending reports whether something has arrived or changed since the last plan.
func (l *Loop) hasPending() bool {
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
	if l.repair != nil || !l.isIdle() {
		return false
	}
	if l.hasPending() {
		return l.isOverdue()
	}
	info := workflow.GetInfo(l.ctx)
	limit := historyWhenSettled
	if l.attached != "" {
		limit = historyWhenAttached
	}
	return l.renew || info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() >= limit
}

// isIdle reports whether nothing is open that only this run can complete: no activity (Busy) and no update's handler.
func (l *Loop) isIdle() bool { return !l.entity.Busy() && workflow.AllHandlersFinished(l.ctx) }

// isOverdue reports whether the run is so long that waiting signals do not prevent its Continue-As-New. It is false in
// the replay of a run of an earlier release, which had no such length.
func (l *Loop) isOverdue() bool {
	return workflow.GetInfo(l.ctx).GetCurrentHistoryLength() >= historyAtMost &&
		workflow.GetVersion(l.ctx, changeOverdue, workflow.DefaultVersion, 1) == 1
}

// takeRepairedState returns the corrected state of a repair, or nil.
func (l *Loop) takeRepairedState() []byte {
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

// wakeAt returns when to plan again although no signal arrived: at the plan's time, or when a refused control has been
// shown for long enough.
func (l *Loop) wakeAt(p Plan) time.Time {
	if l.manual == nil || l.manual.Refused == nil {
		return p.WakeAt
	}
	if until := l.manual.Refused.Until; p.WakeAt.IsZero() || until.Before(p.WakeAt) {
		return until
	}
	return p.WakeAt
}

// refusal returns the current details of a refused control that came as a signal.
func (l *Loop) refusal() string {
	if l.manual == nil || l.manual.Refused == nil {
		return ""
	}
	r := l.manual.Refused
	return fmt.Sprintf("\n\nThe control %s (claimed actor: %s) was refused at %s: %s.", r.Control, r.Actor,
		r.At.UTC().Format(time.RFC3339), r.Why)
}

// sleep blocks until something is pending, or until the given time (zero: without limit).
func (l *Loop) sleep(until time.Time) error {
	l.armTimer(until)
	return workflow.Await(l.ctx, l.hasPending)
}

// armTimer keeps at most one timer, and the same one while the planner returns the same time: each costs events.
func (l *Loop) armTimer(until time.Time) {
	if until.Equal(l.timerAt) {
		return
	}
	if l.cancelTimer != nil {
		l.cancelTimer()
		l.cancelTimer = nil
	}
	l.timerAt = until
	if until.IsZero() {
		return
	}
	wait := max(until.Sub(workflow.Now(l.ctx)), time.Millisecond)
	tctx, cancel := workflow.WithCancel(l.ctx)
	l.cancelTimer = cancel
	workflow.Go(tctx, func(ctx workflow.Context) {
		if err := workflow.NewTimer(ctx, wait).Get(ctx, nil); err != nil {
			return
		}
		l.timerAt, l.cancelTimer = time.Time{}, nil
		l.Wake()
	})
}
