package entity

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
)

// Time limits of a transition: to start a guest, which waits for a node, an image and a boot; and to stop one, beyond
// its grace period, which is the kubelet's half minute and the clean-up.
const (
	StartTime = 10 * time.Minute
	StopSlack = 3 * time.Minute
)

// closeGrace is the time beyond its deadline after which the server ends a transition: for its compensation, and for
// the waits in virtflow's own queues, which the deadline does not count.
const closeGrace = selfCloseTime + QueueLimit

// selfCloseTime is the part of closeGrace in which the transition itself closes.
const selfCloseTime = 10 * time.Minute

// Transition is the record of the open transition in an entity's state. nil: none is open. One without an ID has no
// workflow of its own: the entity does it.
type Transition struct {
	ID        string             `json:"id"`
	Operation contract.Operation `json:"operation,omitempty"`
	// Why and Actor are the reason and who requested it, and ApprovedBy is who approved it, as claimed.
	Why        string    `json:"why"`
	Actor      string    `json:"actor,omitempty"`
	ApprovedBy string    `json:"approvedBy,omitempty"`
	Since      time.Time `json:"since"`
	// Deadline is when it ends by itself; zero: when its goal is reached, or a person cancels it.
	Deadline time.Time `json:"deadline,omitzero"`
	// Detached is set when an earlier run has opened it: it reports its outcome by signal.
	Detached bool `json:"detached,omitempty"`
	// Asked is when a detached one was last asked whether it is open, and Asks how often in a row; zero: it is asked
	// now.
	Asked time.Time `json:"asked,omitzero"`
	Asks  int       `json:"asks,omitempty"`
	// Cancelled is set once it was asked to end, and CancelReason has who asked, if a person did.
	Cancelled    bool   `json:"cancelled,omitempty"`
	CancelReason string `json:"cancelReason,omitempty"`
}

// askFirst is the time after which a detached transition is asked whether it is still open, doubled each time up to
// maxAskInterval: a transition that was terminated reports nothing. That has to be noticed within the two minutes in
// which everything recovers, and each question is an event in a history that may have to last for days.
const (
	askFirst       = 30 * time.Second
	maxAskInterval = 5 * time.Minute
)

// askAt returns when to ask next; zero: never, since the server reports its end.
func (t *Transition) askAt() time.Time {
	if t == nil || !t.Detached {
		return time.Time{}
	}
	return t.Asked.Add(min(askFirst<<min(t.Asks, 4), maxAskInterval))
}

// AskNow has a detached transition asked at once, because the state may be old.
func (t *Transition) AskNow() {
	if t != nil {
		t.Asked, t.Asks = time.Time{}, 0
	}
}

// Decide returns next's decision, unless it is time to ask whether a detached transition is still open.
func (t *Transition) Decide(now time.Time, next func(time.Time) Decision) Decision {
	at := t.askAt()
	if !at.IsZero() && !now.Before(at) {
		return Decision{Action: ActAsk, Why: "it was opened before the last Continue-As-New, and has not reported"}
	}
	return next(now).WakeBy(at)
}

// SupersededText returns why a cancelled transition did not reach its goal.
func (t *Transition) SupersededText() string {
	if t.CancelReason != "" {
		return t.CancelReason
	}
	return "superseded by a newer desired state"
}

// Text returns a sentence on the open transition, for people.
func (t *Transition) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Doing: %s since %s because %s", t.Operation, t.Since.UTC().Format(time.RFC3339), t.Why)
	if t.Actor != "" {
		fmt.Fprintf(&b, ", asked for by %s", t.Actor)
	}
	if t.ApprovedBy != "" {
		fmt.Fprintf(&b, ", approved by %s (claimed)", t.ApprovedBy)
	}
	if t.ID != "" {
		fmt.Fprintf(&b, " (`%s`)", t.ID)
	}
	return b.String() + "."
}

// attributes returns the search attributes by which people find a transition.
func (t *Transition) attributes(o contract.Object) temporal.SearchAttributes {
	var set []temporal.SearchAttributeUpdate
	for _, a := range []Attribute{
		{Name: contract.SearchNamespace, Value: o.Namespace}, {Name: contract.SearchName, Value: o.Name},
		{Name: contract.SearchUID, Value: o.UID}, {Name: contract.SearchOperation, Value: string(t.Operation)},
		{Name: contract.SearchActor, Value: t.Actor},
	} {
		if a.Value != "" {
			set = append(set, keyword(a.Name, a.Value))
		}
	}
	return temporal.NewSearchAttributes(set...)
}

// executionTimeout returns after how long the server ends it; 0: never.
func (t *Transition) executionTimeout(now time.Time) time.Duration {
	if t.Deadline.IsZero() {
		return 0
	}
	return max(t.Deadline.Sub(now), 0) + closeGrace
}

// record returns an open transition's record for the history query.
func (t *Transition) record(attempts int) contract.OperationRecord {
	return contract.OperationRecord{
		Operation: t.Operation, ID: t.ID, Why: t.Why, Actor: t.Actor, ApprovedBy: t.ApprovedBy, Since: t.Since,
		Attempts: attempts,
	}
}

// Outcome has how a transition ended.
type Outcome struct {
	Operation contract.Operation `json:"operation,omitempty"`
	ID        string             `json:"id"`
	Summary   string             `json:"summary,omitempty"`
	Error     string             `json:"error,omitempty"`
	At        time.Time          `json:"at"`
}

// Text returns the outcome as a sentence.
func (o *Outcome) Text() string {
	text := fmt.Sprintf("Last transition: %s at %s", o.Operation, o.At.UTC().Format(time.RFC3339))
	if how := strings.TrimRight(o.Summary+o.Error, ". "); how != "" {
		text += ", " + how
	}
	return text + "."
}

// RecordOpened adds the record of a transition that has begun.
func (m *Manual) RecordOpened(t *Transition) { m.Record(t.record(m.Attempts(t.Operation))) }

// RecordClosed completes the record of a transition that has closed, with the entity's view of its outcome.
func (m *Manual) RecordClosed(t *Transition, c contract.TransitionClosed, o Outcome) {
	r := t.record(m.Attempts(t.Operation))
	r.Until, r.Outcome = o.At, OutcomeDone
	if o.Error != "" {
		r.Outcome = o.Error
	}
	m.Record(r)
	m.unmeasured = append(m.unmeasured, measure{
		operation: t.Operation, outcome: outcomeOf(c, o), took: max(time.Duration(0), o.At.Sub(t.Since))})
}

// SelfCloseBy returns the time until which a transition may close by itself, before the server ends it. Zero: the
// server never does.
func SelfCloseBy(ctx workflow.Context) time.Time {
	info := workflow.GetInfo(ctx)
	if info.WorkflowExecutionTimeout == 0 {
		return time.Time{}
	}
	return info.WorkflowStartTime.Add(info.WorkflowExecutionTimeout - selfCloseTime)
}
