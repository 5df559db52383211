package migrationqueue

import (
	"fmt"
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/waits"
)

// The queue's steps.
const (
	actLimits entity.Action = "read the limits"
	actSignal entity.Action = "signal migrations"
)

const (
	// limitsValidFor is how long read limits are used while a migration waits.
	limitsValidFor = time.Minute
	// intervalAhead lies between two signals that report a migration's position. For one that is not among the first
	// ahead it is intervalPerPosition times the position, since each report costs a signal: so the queue sends a few a
	// second, however many migrations wait.
	intervalAhead, intervalPerPosition = 5 * time.Second, 6 * time.Second
	ahead                              = 10
	// missingFor is how long an admitted migration without a workflow keeps its admission, and how long a running one
	// is believed to have a workflow while others wait for it.
	missingFor = 10 * time.Minute
	// maxSignalsPerStep bounds how many signals one step sends.
	maxSignalsPerStep = 50
)

// whyClosed returns why the queue admits no migration now; "": it admits.
func (s *State) whyClosed() string {
	switch {
	case s.Listening != nil:
		return "the queue has just started and first observes which migrations run"
	case s.Hold != nil:
		return "the queue is " + s.Hold.Message
	case s.Limits == nil:
		return "the cluster's limits are not known yet"
	default:
		return ""
	}
}

// assess decides for each migration that waits whether it may begin now.
func (s *State) assess(now time.Time) []assessment {
	var limits contract.ReadLimitsResult
	if s.Limits != nil {
		limits = *s.Limits
	}
	return assess(s.Entries, limits, s.whyClosed(), s.HasChange(contract.ChangeAfterFirst), now)
}

// limitsDue returns when the limits are to be read: only while a migration waits to which they apply.
func (s *State) limitsDue() (at time.Time, due bool) {
	if s.Listening != nil || s.Hold != nil || len(waiting(s.Entries)) == 0 {
		return time.Time{}, false
	}
	if s.Limits == nil {
		return time.Time{}, true
	}
	return s.LimitsAt.Add(limitsValidFor), true
}

// message is an observation to send to a migration, and when.
type message struct {
	uid string
	at  time.Time
	// admit is set when the migration is admitted by this message.
	admit bool
	o     contract.AdmissionObservation
}

// messages returns the observations that migrations are to receive, now or later.
func (s *State) messages(now time.Time) []message {
	assessments := s.assess(now)
	waits, blocked := 0, false
	of := map[string]assessment{}
	for _, v := range assessments {
		of[v.uid] = v
		if !v.admit {
			waits++
			blocked = blocked || s.whyClosed() == ""
		}
	}
	var out []message
	for i := range s.Entries {
		e := &s.Entries[i]
		v, judged := of[e.Migration.UID]
		m := message{uid: e.Migration.UID, admit: v.admit, o: contract.AdmissionObservation{
			Migration: e.Migration.UID, Admitted: v.admit || e.isRunning(),
		}}
		switch {
		case !e.MissingSince.IsZero():
			m.at = e.MissingSince.Add(missingFor)
		case v.admit || e.AnswerDue && e.Requested:
			m.at = now
		case judged:
			m.at = e.SentAt.Add(positionInterval(v.position))
		case blocked && e.isRunning():
			m.at = e.LastContact.Add(missingFor)
		default:
			continue
		}
		if judged && !v.admit {
			m.o.Position, m.o.Waiting, m.o.Why = v.position, waits, v.why
			if !e.AnswerDue && isSameContent(e.Sent, m.o) {
				continue
			}
		}
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b message) int { // admissions first
		switch {
		case a.admit == b.admit:
			return 0
		case a.admit:
			return -1
		default:
			return 1
		}
	})
	return out
}

// positionInterval returns the time between two reports of that position.
func positionInterval(position int) time.Duration {
	if position > ahead {
		return time.Duration(position) * intervalPerPosition
	}
	return intervalAhead
}

// isSameContent reports whether two observations differ in their sequence number at most.
func isSameContent(before, o contract.AdmissionObservation) bool {
	o.Sequence = before.Sequence
	return before == o
}

// decide returns the next step, or what the queue waits for.
func (s *State) decide(now time.Time) entity.Decision {
	limits, reading := s.limitsDue()
	if reading && !now.Before(limits) && !s.Failure.MustWait(string(actLimits), now) {
		return entity.Decision{Action: actLimits, Why: "a migration waits"}
	}
	d := entity.Decision{Waiting: s.waitingFor()}
	if s.Listening != nil {
		d = d.WakeBy(s.Listening.Since.Add(listenFor))
	}
	if reading {
		if f := s.Failure.OfStep(string(actLimits)); f != nil && limits.Before(f.RetryAt) {
			limits = f.RetryAt
		}
		d = d.WakeBy(limits)
	}
	for _, e := range waiting(s.Entries) {
		if until := e.backOff(); now.Before(until) {
			d = d.WakeBy(until)
		}
	}
	due := 0
	for _, m := range s.messages(now) {
		if now.Before(m.at) {
			d = d.WakeBy(m.at)
		} else {
			due++
		}
	}
	switch {
	case due == 0:
		return d
	case s.Failure.MustWait(string(actSignal), now):
		return s.Failure.OfStep(string(actSignal)).Wait()
	}
	return entity.Decision{Action: actSignal, Why: fmt.Sprintf("%d migrations have to be signalled", due)}
}

func (s *State) waitingFor() waits.Wait {
	switch closed := s.whyClosed(); {
	case s.Listening != nil:
		return waits.For(waits.MigrationObservations)
	case len(waiting(s.Entries)) == 0:
		return waits.For(waits.Migrations)
	case closed != "":
		return waits.For(waits.ClosedQueue, closed)
	default:
		return waits.For(waits.RunningMigration)
	}
}
