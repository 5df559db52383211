package entity

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
)

// How long a transition may take: to get a guest running, which waits for a node, an image and a boot; and to end one
// beyond its grace period, which is the kubelet's half minute and clean-up.
const (
	StartTime = 10 * time.Minute
	StopSlack = 3 * time.Minute
)

// closeSlack is what a transition may take beyond its deadline before the server ends it: to compensate, and to wait in
// virtflow's own queues, which its deadline does not count.
const closeSlack = lastWord + QueueLimit

// lastWord is the part of it that is for the transition's own end.
const lastWord = 10 * time.Minute

// Transition is what an entity's state keeps of its open transition. A nil one is none. One without an ID has no
// workflow of its own: the entity does it.
type Transition struct {
	ID        string             `json:"id"`
	Operation contract.Operation `json:"operation,omitempty"`
	// Why and Actor are the record of who asked for what, and ApprovedBy is who approved it, as claimed.
	Why        string    `json:"why"`
	Actor      string    `json:"actor,omitempty"`
	ApprovedBy string    `json:"approvedBy,omitempty"`
	Since      time.Time `json:"since"`
	// Deadline is when it ends by itself; zero: when what it waits for is so, or somebody cancels it.
	Deadline time.Time `json:"deadline,omitzero"`
	// Detached says that a run before this one has opened it: it reports by signal how it closes.
	Detached bool `json:"detached,omitempty"`
	// Asked is when a detached one was asked last whether it is still open, and Asks how often in a row; zero: it is
	// to be asked now.
	Asked time.Time `json:"asked,omitzero"`
	Asks  int       `json:"asks,omitempty"`
	// Cancelled says that it was asked to end, and CancelReason by whom, where a person did it.
	Cancelled    bool   `json:"cancelled,omitempty"`
	CancelReason string `json:"cancelReason,omitempty"`
}

// askFirst is after how long a detached transition is asked whether it is still open, doubled each time up to askMost:
// one that was terminated reports nothing. It is to be found out within the two minutes in which everything heals, and
// each question is an event in a history that may have to last for days.
const (
	askFirst = 30 * time.Second
	askMost  = 5 * time.Minute
)

// askAt is when to ask next; zero: never, for the server says how it closes.
func (t *Transition) askAt() time.Time {
	if t == nil || !t.Detached {
		return time.Time{}
	}
	return t.Asked.Add(min(askFirst<<min(t.Asks, 4), askMost))
}

// AskNow has a detached transition asked at once: what is known of it may be older than what is true.
func (t *Transition) AskNow() {
	if t != nil {
		t.Asked, t.Asks = time.Time{}, 0
	}
}

// Decide is what next says, unless it is time to ask whether a detached transition is still open.
func (t *Transition) Decide(now time.Time, next func(time.Time) Decision) Decision {
	at := t.askAt()
	if !at.IsZero() && !now.Before(at) {
		return Decision{Action: ActAsk, Why: "it was opened before the last Continue-As-New, and has not reported"}
	}
	return next(now).By(at)
}

// Superseded is why a transition that was cancelled did not do what it was for.
func (t *Transition) Superseded() string {
	if t.CancelReason != "" {
		return t.CancelReason
	}
	return "superseded by a newer desired state"
}

// Doing says in words what goes on, for people.
func (t *Transition) Doing() string {
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

// attributes are what people find a transition by.
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

// limit is after how long the server ends it; 0: never.
func (t *Transition) limit(now time.Time) time.Duration {
	if t.Deadline.IsZero() {
		return 0
	}
	return max(t.Deadline.Sub(now), 0) + closeSlack
}

// record is a transition as the history query answers it while it is open.
func (t *Transition) record(attempts int) contract.OperationRecord {
	return contract.OperationRecord{
		Operation: t.Operation, ID: t.ID, Why: t.Why, Actor: t.Actor, ApprovedBy: t.ApprovedBy, Since: t.Since,
		Attempts: attempts,
	}
}

// Outcome is how a transition went.
type Outcome struct {
	Operation contract.Operation `json:"operation,omitempty"`
	ID        string             `json:"id"`
	Summary   string             `json:"summary,omitempty"`
	Error     string             `json:"error,omitempty"`
	At        time.Time          `json:"at"`
}

// Text says it in words, for people.
func (o *Outcome) Text() string {
	text := fmt.Sprintf("Last transition: %s at %s", o.Operation, o.At.UTC().Format(time.RFC3339))
	if how := strings.TrimRight(o.Summary+o.Error, ". "); how != "" {
		text += ", " + how
	}
	return text + "."
}

// Opened notes a transition that has begun.
func (m *Manual) Opened(t *Transition) { m.Record(t.record(m.Attempts(t.Operation))) }

// Closed notes how a transition closed, and how it went by what its entity made of that.
func (m *Manual) Closed(t *Transition, c contract.TransitionClosed, o Outcome) {
	r := t.record(m.Attempts(t.Operation))
	r.Until, r.Outcome = o.At, OutcomeDone
	if o.Error != "" {
		r.Outcome = o.Error
	}
	m.Record(r)
	m.unmeasured = append(m.unmeasured, measure{
		operation: t.Operation, outcome: outcomeOf(c, o), took: max(time.Duration(0), o.At.Sub(t.Since))})
}

// LastWord is until when a transition may take so that it can say itself how it closed, before the server ends it.
// Zero: the server never does.
func LastWord(ctx workflow.Context) time.Time {
	info := workflow.GetInfo(ctx)
	if info.WorkflowExecutionTimeout == 0 {
		return time.Time{}
	}
	return info.WorkflowStartTime.Add(info.WorkflowExecutionTimeout - lastWord)
}
