package migration

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// limits are the timeouts of a step on a node, as Temporal names them. attempts is how many there may be; 0: as many as
// fit into scheduleToClose.
type limits struct {
	scheduleToStart, startToClose, scheduleToClose time.Duration
	attempts                                       int32
}

const (
	// offerTries is how often in a row the source's offer may fail: some 100 seconds. An attempt may take minutes; a
	// launcher that does not answer for so long is gone.
	offerTries = 24
	// followTries is how often in a row the source may fail to report a move that an earlier run has begun: some ten
	// minutes. How long such a move may take is not always known, and inspecting both ends shows more.
	followTries = 120
)

// limitsOf returns the limits of a step. Those of the copy come with it.
func limitsOf(a action) limits {
	switch a {
	case actOffer: // it reads whole images
		return limits{scheduleToStart: time.Minute, startToClose: 5 * time.Minute, scheduleToClose: 5 * time.Minute,
			attempts: offerTries}
	case actPrepare:
		return limits{scheduleToStart: time.Minute, startToClose: time.Minute, scheduleToClose: 2 * time.Minute}
	case actFinish:
		return limits{scheduleToStart: time.Minute, startToClose: time.Minute, scheduleToClose: 5 * time.Minute}
	case actAbort:
		return limits{scheduleToStart: 30 * time.Second, startToClose: 30 * time.Second, scheduleToClose: time.Minute}
	case actWithdraw:
		return limits{scheduleToStart: 30 * time.Second, startToClose: 30 * time.Second, scheduleToClose: time.Minute}
	case actInspect:
		return limits{scheduleToStart: 20 * time.Second, startToClose: 10 * time.Second,
			scheduleToClose: 30 * time.Second}
	default: // actAdjust
		return limits{scheduleToStart: 15 * time.Second, startToClose: 15 * time.Second,
			scheduleToClose: 15 * time.Second}
	}
}

// heartbeatTimeout is the heartbeat timeout of the copy, which sends one each second.
const heartbeatTimeout = 30 * time.Second

// nodeOptions returns the activity options of a step on a node.
func nodeOptions(node string, l limits, what string) workflow.ActivityOptions {
	o := entity.NodeOptions(node)
	o.ScheduleToStartTimeout, o.StartToCloseTimeout, o.ScheduleToCloseTimeout =
		l.scheduleToStart, l.startToClose, l.scheduleToClose
	retry := *o.RetryPolicy
	retry.MaximumAttempts = l.attempts
	retry.NonRetryableErrorTypes = append(retry.NonRetryableErrorTypes, contract.ErrorUnsuitable,
		contract.ErrorNotBegun)
	o.RetryPolicy = &retry
	o.Summary = entity.Summary(what)
	return o
}

// startOnNode starts a step on a node without blocking the loop. Only this run sees how it ends.
func (e *migration) startOnNode(ctx workflow.Context, a action) error {
	s := &e.state
	do := e.nodeStep(a)
	if do == nil {
		return nil
	}
	s.addOpen(a)
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := do(ctx)
		e.state.removeOpen(a)
		_ = e.recordResult(ctx, a, err)
		e.loop.Wake()
	})
	return nil
}

// nodeStep returns the function that does a step on a node and folds its result into the state.
func (e *migration) nodeStep(a action) func(workflow.Context) error {
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

// callNode calls an activity on the node of one end.
func callNode[Out any](ctx workflow.Context, end *End, a action, activity string, in any) (Out, error) {
	return startCall[Out](ctx, end, a, activity, in)()
}

// startCall starts an activity on the node of one end, and returns a function that waits for its answer.
func startCall[Out any](ctx workflow.Context, end *End, a action, activity string, in any) func() (Out, error) {
	o := nodeOptions(end.nodeName(), limitsOf(a), fmt.Sprintf("%s: %s on %s", a, end.podName(), end.nodeName()))
	f := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), activity, in)
	return func() (out Out, err error) {
		err = f.Get(ctx, &out)
		return out, err
	}
}

func (e *migration) offer(ctx workflow.Context) error {
	s := &e.state
	now := workflow.Now(ctx)
	in := contract.OfferMigrationInput{Migration: s.Object, VMI: s.VMI, Pod: s.podObject(&s.Source),
		Expires: now.Add(keyTime)}
	o, err := callNode[contract.MigrationOffer](ctx, &s.Source, actOffer, contract.ActivityOfferMigration, in)
	if err == nil {
		s.Offer, s.OfferedAt = &o, now
	} else {
		s.failBeforeMove(wordNoOffer, err)
	}
	return nil
}

// failBeforeMove ends the migration before its guest is moved.
func (s *State) failBeforeMove(word string, err error) {
	if s.Cause == "" && s.Result == ResultNone {
		s.Cause = word + entity.Message(err)
	}
}

func (e *migration) prepare(ctx workflow.Context) error {
	s := &e.state
	s.PrepareSent = true
	in := contract.PrepareTargetInput{Migration: s.Object, VMI: s.VMI, Pod: s.podObject(&s.Target), Offer: *s.Offer,
		Expires: workflow.Now(ctx).Add(s.copyTime() + copySlack)}
	if s.Settings != nil {
		in.Network = s.Settings.Network
	}
	p, err := callNode[contract.PreparedTarget](ctx, &s.Target, actPrepare, contract.ActivityPrepareTarget, in)
	if err == nil {
		s.Prepared = &p
	} else {
		s.failBeforeMove(wordNotReady, err)
	}
	return nil
}

// migrate moves the guest, or follows a move that is under way. It ends with the source's report of the outcome, or
// without one.
func (e *migration) migrate(ctx workflow.Context) error {
	s := &e.state
	all := max(s.CopyBy.Sub(workflow.Now(ctx)), 0) + copySlack
	in := contract.MigrateDomainInput{Migration: s.Object, VMI: s.VMI, Pod: s.podObject(&s.Source),
		CompletionSeconds: s.completionSeconds()}
	if s.Prepared != nil {
		in.Target = *s.Prepared
	}
	if s.Settings != nil {
		in.Configuration, in.Network = s.Settings.Configuration, s.Settings.Network
	}
	l := limits{scheduleToStart: time.Minute, startToClose: all, scheduleToClose: all}
	if s.Prepared == nil {
		l.attempts = followTries
	}
	o := nodeOptions(s.Source.nodeName(), l,
		fmt.Sprintf("move the guest from %s to %s", s.Source.nodeName(), s.Target.nodeName()))
	o.HeartbeatTimeout = heartbeatTimeout
	var out contract.MigrationOutcome
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), contract.ActivityMigrateDomain, in).
		Get(ctx, &out)
	switch kind := entity.ErrorType(err); {
	case kind == contract.ErrorUnsuitable || kind == contract.ErrorNotBegun:
		out = contract.MigrationOutcome{Result: contract.ResultStayed, Reason: entity.Message(err)}
	case err != nil:
		out = contract.MigrationOutcome{Result: contract.ResultLost, Reason: entity.Message(err)}
	}
	s.recordOutcome(workflow.Now(ctx), out)
	return nil
}

func (e *migration) adjust(ctx workflow.Context) error {
	s := &e.state
	in := contract.AdjustMigrationInput{Migration: s.Object, VMI: s.VMI, Pod: s.podObject(&s.Source), Pause: true}
	_, err := callNode[struct{}](ctx, &s.Source, actAdjust, contract.ActivityAdjustMigration, in)
	if err == nil {
		s.Paused = true
		s.CopyBy = s.Start.Add(s.copyTime())
	}
	return err
}

// abort aborts the move at the source. The outcome of the copy, or an inspection, shows how that went.
func (e *migration) abort(ctx workflow.Context) error {
	s := &e.state
	in := contract.AbortMigrationInput{Migration: s.Object, VMI: s.VMI, Pod: s.podObject(&s.Source), Why: s.Cause}
	r, err := callNode[contract.AbortMigrationResult](ctx, &s.Source, actAbort, contract.ActivityAbortMigration, in)
	if err == nil && !r.Found && s.isOpen(actMigrate) {
		return errors.New("there is nothing to abort yet")
	}
	s.AbortSent = s.AbortSent || err == nil
	return err
}

func (e *migration) finish(ctx workflow.Context) error {
	s := &e.state
	in := contract.FinishTargetInput{Migration: s.Object, VMI: s.VMI, Pod: s.podObject(&s.Target), Proof: *s.Proof}
	r, err := callNode[contract.FinishTargetResult](ctx, &s.Target, actFinish, contract.ActivityFinishTarget, in)
	switch {
	case s.Result != ResultNone: // the source has reported it meanwhile
		return nil
	case err != nil:
		s.markMoveUnknown(workflow.Now(ctx), entity.Message(err))
		return nil
	}
	s.Domain = &r.Domain
	s.recordMoved(workflow.Now(ctx))
	return nil
}

// inspect asks both nodes at once. A node that does not answer has reported nothing.
func (e *migration) inspect(ctx workflow.Context) error {
	s := &e.state
	s.Inspection.News = false
	ask := func(end *End) func() (*contract.MigrationTruth, string) {
		if !end.isReachable() {
			return func() (*contract.MigrationTruth, string) { return nil, "" }
		}
		in := contract.InspectMigrationInput{Migration: s.Object, VMI: s.VMI, Pod: s.podObject(end)}
		answer := startCall[contract.MigrationTruth](ctx, end, actInspect, contract.ActivityInspectMigration, in)
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
	s.recordInspection(workflow.Now(ctx), from, to)
	if s.Inspection.Trouble = whyFrom; s.silentNode() == s.Target.nodeName() {
		s.Inspection.Trouble = whyTo
	}
	return nil
}

// withdraw ends the target's launcher, since no guest arrives. Where its node does not answer, the deletion of its pod
// does: without proof it never resumes. If the source is unreachable too, the target may still get a proof: then both
// ends are inspected again.
func (e *migration) withdraw(ctx workflow.Context) error {
	s := &e.state
	in := contract.WithdrawTargetInput{Migration: s.Object, VMI: s.VMI, Pod: s.podObject(&s.Target)}
	r, err := callNode[contract.WithdrawTargetResult](ctx, &s.Target, actWithdraw, contract.ActivityWithdrawTarget, in)
	if err == nil && r.Refused != "" && !s.vmiEnded() {
		s.Result, s.End = ResultNone, time.Time{}
		s.markMoveUnknown(workflow.Now(ctx), r.Refused)
		return nil
	}
	if err != nil && s.Inspection.Source == SourceUnknown && !s.vmiEnded() && !s.Target.hasEnded() {
		s.Result, s.End = ResultNone, time.Time{}
		s.markMoveUnknown(workflow.Now(ctx), entity.Message(err))
		return nil
	}
	if err != nil && !temporal.IsCanceledError(err) {
		workflow.GetLogger(ctx).Warn("failed to withdraw migration target", "error", err)
	}
	s.Withdrawn = true
	return nil
}
