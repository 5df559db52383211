package migration

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// limits of a step on a node: until when somebody there has to begin it, for how long one attempt may take, and all of
// them together. Tries is how many attempts there may be; 0: as many as there is time for.
type limits struct {
	begin, attempt, all time.Duration
	tries               int32
}

const (
	// offerTries is how often in a row the source may fail to make its offer: some 100 seconds. An attempt may take
	// minutes; a launcher that does not answer for so long has gone.
	offerTries = 24
	// followTries is how often in a row it may fail to say anything of a move that an earlier run has begun: some ten
	// minutes. How long such a move may take is not always known, and to look at both ends says more.
	followTries = 120
)

// limitsOf are those of each step. The copy's own come with it.
func limitsOf(a action) limits {
	switch a {
	case actOffer: // it reads whole images
		return limits{begin: time.Minute, attempt: 5 * time.Minute, all: 5 * time.Minute, tries: offerTries}
	case actPrepare:
		return limits{begin: time.Minute, attempt: time.Minute, all: 2 * time.Minute}
	case actFinish:
		return limits{begin: time.Minute, attempt: time.Minute, all: 5 * time.Minute}
	case actAbort:
		return limits{begin: 30 * time.Second, attempt: 30 * time.Second, all: time.Minute}
	case actWithdraw:
		return limits{begin: 30 * time.Second, attempt: 30 * time.Second, all: time.Minute}
	case actInspect:
		return limits{begin: 20 * time.Second, attempt: 10 * time.Second, all: 30 * time.Second}
	default: // actAdjust
		return limits{begin: 15 * time.Second, attempt: 15 * time.Second, all: 15 * time.Second}
	}
}

// heartbeats of the copy come each second.
const heartbeats = 30 * time.Second

// nodeOptions are for a step on a node.
func nodeOptions(node string, l limits, what string) workflow.ActivityOptions {
	o := entity.NodeOptions(node)
	o.ScheduleToStartTimeout, o.StartToCloseTimeout, o.ScheduleToCloseTimeout = l.begin, l.attempt, l.all
	retry := *o.RetryPolicy
	retry.MaximumAttempts = l.tries
	retry.NonRetryableErrorTypes = append(retry.NonRetryableErrorTypes, contract.ErrorUnsuitable,
		contract.ErrorNotBegun)
	o.RetryPolicy = &retry
	o.Summary = entity.Summary(what)
	return o
}

// onNode begins a step on a node and leaves the loop free. Only this run sees how it ends.
func (e *migration) onNode(ctx workflow.Context, a action) error {
	s := &e.state
	do := e.doing(a)
	if do == nil {
		return nil
	}
	s.opened(a)
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := do(ctx)
		e.state.closed(a)
		_ = e.settle(ctx, a, err)
		e.loop.Wake()
	})
	return nil
}

// doing is what does a step on a node, and takes in how it went.
func (e *migration) doing(a action) func(workflow.Context) error {
	switch a {
	case actOffer:
		return e.offer
	case actPrepare:
		return e.prepare
	case actMigrate:
		return e.migrate
	case actAdjust:
		return e.adjust
	case actAbort:
		return e.abort
	case actFinish:
		return e.finish
	case actInspect:
		return e.inspect
	case actWithdraw:
		return e.withdraw
	default:
		return nil
	}
}

// at calls an activity on the node of one end.
func at[Out any](ctx workflow.Context, end *End, a action, activity string, in any) (Out, error) {
	return begun[Out](ctx, end, a, activity, in)()
}

// begun is at in two steps: the call, and the wait for its answer.
func begun[Out any](ctx workflow.Context, end *End, a action, activity string, in any) func() (Out, error) {
	o := nodeOptions(end.node(), limitsOf(a), fmt.Sprintf("%s: %s on %s", a, end.name(), end.node()))
	f := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), activity, in)
	return func() (out Out, err error) {
		err = f.Get(ctx, &out)
		return out, err
	}
}

func (e *migration) offer(ctx workflow.Context) error {
	s := &e.state
	now := workflow.Now(ctx)
	in := contract.OfferMigrationInput{Migration: s.Object, VMI: s.VMI, Pod: s.pod(&s.Source),
		Expires: now.Add(keyTime)}
	o, err := at[contract.MigrationOffer](ctx, &s.Source, actOffer, contract.ActivityOfferMigration, in)
	if err == nil {
		s.Offer, s.OfferedAt = &o, now
	} else {
		s.fail(wordNoOffer, err)
	}
	return nil
}

// fail ends the migration before its guest was touched.
func (s *State) fail(word string, err error) {
	if s.Cause == "" && s.Result == ResultNone {
		s.Cause = word + entity.Message(err)
	}
}

func (e *migration) prepare(ctx workflow.Context) error {
	s := &e.state
	s.PrepareSent = true
	in := contract.PrepareTargetInput{Migration: s.Object, VMI: s.VMI, Pod: s.pod(&s.Target), Offer: *s.Offer,
		Expires: workflow.Now(ctx).Add(s.copyTime() + copySlack)}
	p, err := at[contract.PreparedTarget](ctx, &s.Target, actPrepare, contract.ActivityPrepareTarget, in)
	if err == nil {
		s.Prepared = &p
	} else {
		s.fail(wordNotReady, err)
	}
	return nil
}

// migrate moves the guest, or follows what does. It ends with what the source says, or that nobody there knows.
func (e *migration) migrate(ctx workflow.Context) error {
	s := &e.state
	all := max(s.CopyBy.Sub(workflow.Now(ctx)), 0) + copySlack
	in := contract.MigrateDomainInput{Migration: s.Object, VMI: s.VMI, Pod: s.pod(&s.Source),
		CompletionSeconds: s.completion()}
	if s.Prepared != nil {
		in.Target = *s.Prepared
	}
	if s.Settings != nil {
		in.Configuration = s.Settings.Configuration
	}
	l := limits{begin: time.Minute, attempt: all, all: all}
	if s.Prepared == nil {
		l.tries = followTries
	}
	o := nodeOptions(s.Source.node(), l, fmt.Sprintf("move the guest from %s to %s", s.Source.node(), s.Target.node()))
	o.HeartbeatTimeout = heartbeats
	var out contract.MigrationOutcome
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), contract.ActivityMigrateDomain, in).
		Get(ctx, &out)
	switch kind := entity.ErrorType(err); {
	case kind == contract.ErrorUnsuitable || kind == contract.ErrorNotBegun:
		out = contract.MigrationOutcome{Result: contract.ResultStayed, Reason: entity.Message(err)}
	case err != nil:
		out = contract.MigrationOutcome{Result: contract.ResultLost, Reason: entity.Message(err)}
	}
	s.ended(workflow.Now(ctx), out)
	return nil
}

func (e *migration) adjust(ctx workflow.Context) error {
	s := &e.state
	in := contract.AdjustMigrationInput{Migration: s.Object, VMI: s.VMI, Pod: s.pod(&s.Source), Pause: true}
	_, err := at[struct{}](ctx, &s.Source, actAdjust, contract.ActivityAdjustMigration, in)
	if err == nil {
		s.Paused = true
		s.CopyBy = s.Start.Add(s.copyTime())
	}
	return err
}

// abort asks the source. How it went is the outcome of the copy, or is looked at.
func (e *migration) abort(ctx workflow.Context) error {
	s := &e.state
	in := contract.AbortMigrationInput{Migration: s.Object, VMI: s.VMI, Pod: s.pod(&s.Source), Why: s.Cause}
	r, err := at[contract.AbortMigrationResult](ctx, &s.Source, actAbort, contract.ActivityAbortMigration, in)
	if err == nil && !r.Found && s.open(actMigrate) {
		return errors.New("there is nothing to abort yet")
	}
	s.AbortSent = s.AbortSent || err == nil
	return err
}

func (e *migration) finish(ctx workflow.Context) error {
	s := &e.state
	in := contract.FinishTargetInput{Migration: s.Object, VMI: s.VMI, Pod: s.pod(&s.Target), Proof: *s.Proof}
	r, err := at[contract.FinishTargetResult](ctx, &s.Target, actFinish, contract.ActivityFinishTarget, in)
	switch {
	case s.Result != ResultNone: // the source has said it meanwhile
		return nil
	case err != nil:
		s.unknown(workflow.Now(ctx), entity.Message(err))
		return nil
	}
	s.Domain = &r.Domain
	s.moves(workflow.Now(ctx))
	return nil
}

// inspect asks both nodes at once. One that does not answer has said nothing.
func (e *migration) inspect(ctx workflow.Context) error {
	s := &e.state
	s.Look.News = false
	ask := func(end *End) func() (*contract.MigrationTruth, string) {
		if !end.reachable() {
			return func() (*contract.MigrationTruth, string) { return nil, "" }
		}
		in := contract.InspectMigrationInput{Migration: s.Object, VMI: s.VMI, Pod: s.pod(end)}
		answer := begun[contract.MigrationTruth](ctx, end, actInspect, contract.ActivityInspectMigration, in)
		return func() (*contract.MigrationTruth, string) {
			t, err := answer()
			if err != nil {
				return nil, entity.Message(err)
			}
			return &t, ""
		}
	}
	source, target := ask(&s.Source), ask(&s.Target)
	from, whyFrom := source()
	to, whyTo := target()
	s.looked(workflow.Now(ctx), from, to)
	if s.Look.Trouble = whyFrom; s.silentNode() == s.Target.node() {
		s.Look.Trouble = whyTo
	}
	return nil
}

// withdraw tells the target that nobody comes. One whose node does not answer ends with its pod: without proof nothing
// goes on there. Where nobody knows how its source is, it may get that yet: then both ends are looked at again.
func (e *migration) withdraw(ctx workflow.Context) error {
	s := &e.state
	in := contract.WithdrawTargetInput{Migration: s.Object, VMI: s.VMI, Pod: s.pod(&s.Target)}
	r, err := at[contract.WithdrawTargetResult](ctx, &s.Target, actWithdraw, contract.ActivityWithdrawTarget, in)
	if err == nil && r.Refused != "" && !s.vmiEnded() {
		s.Result, s.End = ResultNone, time.Time{}
		s.unknown(workflow.Now(ctx), r.Refused)
		return nil
	}
	if err != nil && s.Look.Source == SourceUnknown && !s.vmiEnded() && !s.Target.ended() {
		s.Result, s.End = ResultNone, time.Time{}
		s.unknown(workflow.Now(ctx), entity.Message(err))
		return nil
	}
	if err != nil && !temporal.IsCanceledError(err) {
		workflow.GetLogger(ctx).Warn("the target was not told that nobody comes", "error", err)
	}
	s.Withdrawn = true
	return nil
}
