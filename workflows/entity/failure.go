package entity

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
)

// Failure is a step or transition that did not succeed; it is tried again at RetryAt. A nil one is none.
type Failure struct {
	Step string `json:"step"`
	// Reason is that of the condition that shows it.
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message"`
	Count   int       `json:"count"` // in a row
	RetryAt time.Time `json:"retryAt"`
	// Late says that nothing was refused: what was asked for takes longer than its deadline.
	Late bool `json:"late,omitempty"`
	// Conflict says that every write of the object meets the same: none is tried before RetryAt.
	Conflict bool `json:"conflict,omitempty"`
	// Write is that of the write of the status, where Step is another one: the write tells of it, and has a pause of
	// its own.
	Write *Failure `json:"write,omitempty"`
}

const stepWrite = string(ActWrite)

// Of is the failure of a step; nil: it has not failed.
func (f *Failure) Of(step string) *Failure {
	switch {
	case f == nil || f.Step == step:
		return f
	case f.Write != nil && f.Write.Step == step:
		return f.Write
	default:
		return nil
	}
}

// Conflicting is the failure of a write that met the same again and again; nil: there is none.
func (f *Failure) Conflicting() *Failure {
	switch {
	case f == nil || f.Conflict:
		return f
	case f.Write != nil && f.Write.Conflict:
		return f.Write
	default:
		return nil
	}
}

// Failed is what is known after a step has failed. Where that step has failed before it counts on, and the pause grows.
func (f *Failure) Failed(now time.Time, step, reason string, err error) *Failure {
	next := Failure{Step: step, Reason: reason, Message: Message(err), Count: 1,
		Late: ErrorType(err) == contract.ErrorDeadline}
	if before := f.Of(step); before != nil {
		next.Count = before.Count + 1
	}
	next.RetryAt = now.Add(Pause(next.Count))
	if step == stepWrite && f != nil && f.Step != stepWrite {
		both := *f
		both.Write = &next
		return &both
	}
	if step != stepWrite {
		next.Write = f.Of(stepWrite)
	}
	return &next
}

// Settle notes in last how a step went: a failure is kept with a growing pause, a success clears it. It returns err.
func Settle(ctx workflow.Context, last **Failure, step, reason string, err error) error {
	if err != nil {
		*last = (*last).Failed(workflow.Now(ctx), step, reason, err)
	} else {
		*last = (*last).Succeeded(step)
	}
	return err
}

// Succeeded is what is known after a step has succeeded.
func (f *Failure) Succeeded(step string) *Failure {
	switch {
	case f.Of(step) == nil:
		return f
	case f.Step == step:
		return f.Write
	default:
		rest := *f
		rest.Write = nil
		return &rest
	}
}

// Holds says that a step has to wait for RetryAt.
func (f *Failure) Holds(step string, now time.Time) bool {
	of := f.Of(step)
	return of != nil && now.Before(of.RetryAt)
}

// HoldBack keeps a step that failed from being repeated before RetryAt. Meanwhile the status shows that it failed:
// status decides whether it is to be written now (nil: it is not).
func (f *Failure) HoldBack(d Decision, now time.Time, status func(time.Time) Decision) Decision {
	if d.Action == ActNone || !f.Holds(d.Step(), now) {
		return d
	}
	held := f.Of(d.Step())
	if d.Action != ActWrite && status != nil {
		s := f.HoldBack(status(now), now, nil)
		if s.Action == ActWrite || !s.WakeAt.IsZero() && s.WakeAt.Before(held.RetryAt) {
			return s
		}
	}
	return held.Wait()
}

// Wait is the decision to wait for RetryAt.
func (f *Failure) Wait() Decision {
	return Decision{WakeAt: f.RetryAt, Waiting: "another attempt to " + f.Step + ": " + f.Message}
}

// RetryAfter is the same failure with another time of the next attempt.
func (f *Failure) RetryAfter(at time.Time) *Failure {
	if f == nil {
		return nil
	}
	next := *f
	next.RetryAt, next.Write = at, f.Write.RetryAfter(at)
	return &next
}

// Text says it in words, for people. again says that it is tried once more at RetryAt.
func (f *Failure) Text(again bool) string {
	text := fmt.Sprintf("Last failure: %s (%d times): %s.", f.Step, f.Count, strings.TrimRight(f.Message, ". "))
	if again {
		text += " Next try " + f.RetryAt.UTC().Format(time.RFC3339) + "."
	}
	return text
}
