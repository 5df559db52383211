package entity

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/waits"
)

// Failure is a step or transition that failed; it is tried again at RetryAt. nil: none failed.
type Failure struct {
	Step string `json:"step"`
	// Reason is the reason of its condition.
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message"`
	Count   int       `json:"count"` // in a row
	RetryAt time.Time `json:"retryAt"`
	// Late is set when nothing was refused: the transition takes longer than its deadline.
	Late bool `json:"late,omitempty"`
	// Conflict is set when every write of the object meets the same conflict: none is tried before RetryAt.
	Conflict bool `json:"conflict,omitempty"`
	// Write is the failed write of the status, where Step is another step: that write would show the failure, and has a
	// back-off of its own.
	Write *Failure `json:"write,omitempty"`
}

const stepWrite = string(ActWrite)

// OfStep returns the failure of a step; nil: it has not failed.
func (f *Failure) OfStep(step string) *Failure {
	switch {
	case f == nil || f.Step == step:
		return f
	case f.Write != nil && f.Write.Step == step:
		return f.Write
	default:
		return nil
	}
}

// OfConflict returns the failure of a write that met the same conflict again and again; nil: there is none.
func (f *Failure) OfConflict() *Failure {
	switch {
	case f == nil || f.Conflict:
		return f
	case f.Write != nil && f.Write.Conflict:
		return f.Write
	default:
		return nil
	}
}

// AfterFailure returns the failure after a step has failed. A repeated failure of a step counts on, and its back-off
// grows.
func (f *Failure) AfterFailure(now time.Time, step, reason string, err error) *Failure {
	next := Failure{Step: step, Reason: reason, Message: Message(err), Count: 1,
		Late: ErrorType(err) == contract.ErrorDeadline}
	if before := f.OfStep(step); before != nil {
		next.Count = before.Count + 1
	}
	next.RetryAt = now.Add(StepBackoff(next.Count))
	if step == stepWrite && f != nil && f.Step != stepWrite {
		both := *f
		both.Write = &next
		return &both
	}
	if step != stepWrite {
		next.Write = f.OfStep(stepWrite)
	}
	return &next
}

// RecordResult records a step's result in last: a failure is kept with a growing back-off, a success clears it. It
// returns err.
func RecordResult(ctx workflow.Context, last **Failure, step, reason string, err error) error {
	if err != nil {
		*last = (*last).AfterFailure(workflow.Now(ctx), step, reason, err)
	} else {
		*last = (*last).AfterSuccess(step)
	}
	return err
}

// AfterSuccess returns the failure that remains after a step has succeeded.
func (f *Failure) AfterSuccess(step string) *Failure {
	switch {
	case f.OfStep(step) == nil:
		return f
	case f.Step == step:
		return f.Write
	default:
		rest := *f
		rest.Write = nil
		return &rest
	}
}

// MustWait reports whether a step has to wait for RetryAt.
func (f *Failure) MustWait(step string, now time.Time) bool {
	of := f.OfStep(step)
	return of != nil && now.Before(of.RetryAt)
}

// WithBackoff keeps a step that failed from being repeated before RetryAt. Meanwhile status decides whether to write a
// status that shows the failure (nil: it is not written).
func (f *Failure) WithBackoff(d Decision, now time.Time, status func(time.Time) Decision) Decision {
	if d.Action == ActNone || !f.MustWait(d.Step(), now) {
		return d
	}
	held := f.OfStep(d.Step())
	if d.Action != ActWrite && status != nil {
		s := f.WithBackoff(status(now), now, nil)
		if s.Action == ActWrite || !s.WakeAt.IsZero() && s.WakeAt.Before(held.RetryAt) {
			return s
		}
	}
	return held.Wait()
}

// Wait returns the decision to wait for RetryAt.
func (f *Failure) Wait() Decision {
	return Decision{WakeAt: f.RetryAt, Waiting: waits.For(waits.NextAttempt, f.Step, f.Message)}
}

// RetryAfter returns the same failure with another time of the next attempt.
func (f *Failure) RetryAfter(at time.Time) *Failure {
	if f == nil {
		return nil
	}
	next := *f
	next.RetryAt, next.Write = at, f.Write.RetryAfter(at)
	return &next
}

// Text returns the failure as a sentence. again adds when it is tried again.
func (f *Failure) Text(again bool) string {
	text := fmt.Sprintf("Last failure: %s (%d times): %s.", f.Step, f.Count, strings.TrimRight(f.Message, ". "))
	if again {
		text += " Next try " + f.RetryAt.UTC().Format(time.RFC3339) + "."
	}
	return text
}
