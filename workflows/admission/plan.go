package admission

import (
	"fmt"
	"slices"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// What the queue does.
const (
	actLimits entity.Action = "read the limits"
	actSignal entity.Action = "signal migrations"
)

const (
	// limitsFor is how long limits count that were read, while somebody waits.
	limitsFor = time.Minute
	// pauseAhead lies between two times that a migration is told its position. Where it is not among the first ahead,
	// pauseEach does for each position, since each time costs a signal: so the queue sends a few a second, however many
	// wait.
	pauseAhead, pauseEach = 5 * time.Second, 6 * time.Second
	ahead                 = 10
	// lostFor is how long a migration without a workflow keeps its place, and how long one that has a place is believed
	// to have a workflow while others wait for it.
	lostFor = 10 * time.Minute
	// tellsTogether bounds what one step sends.
	tellsTogether = 50
)

// closed is why nobody is admitted; "": somebody may be.
func (s *State) closed() string {
	switch {
	case s.Listening != nil:
		return "the queue has just begun, and hears first which migrations run"
	case s.Hold != nil:
		return "the queue is " + s.Hold.Message
	case s.Limits == nil:
		return "the cluster's limits are not known yet"
	default:
		return ""
	}
}

// judge says of each migration that waits whether it may begin now.
func (s *State) judge(now time.Time) []verdict {
	var limits contract.ReadLimitsResult
	if s.Limits != nil {
		limits = *s.Limits
	}
	return judge(s.Entries, limits, s.closed(), now)
}

// limitsDue is when the limits are to be read: while somebody waits for whom they count.
func (s *State) limitsDue() (at time.Time, due bool) {
	if s.Listening != nil || s.Hold != nil || len(waiting(s.Entries)) == 0 {
		return time.Time{}, false
	}
	if s.Limits == nil {
		return time.Time{}, true
	}
	return s.LimitsAt.Add(limitsFor), true
}

// message is something that a migration is to be told, and when.
type message struct {
	uid string
	at  time.Time
	// admit says that it is admitted with that.
	admit bool
	o     contract.AdmissionObservation
}

// messages are what migrations are to be told, now or later.
func (s *State) messages(now time.Time) []message {
	verdicts := s.judge(now)
	waits, blocked := 0, false
	of := map[string]verdict{}
	for _, v := range verdicts {
		of[v.uid] = v
		if !v.admit {
			waits++
			blocked = blocked || s.closed() == ""
		}
	}
	var out []message
	for i := range s.Entries {
		e := &s.Entries[i]
		v, judged := of[e.Migration.UID]
		m := message{uid: e.Migration.UID, admit: v.admit, o: contract.AdmissionObservation{
			Migration: e.Migration.UID, Admitted: v.admit || e.runs(),
		}}
		switch {
		case !e.Lost.IsZero():
			m.at = e.Lost.Add(lostFor)
		case v.admit || e.Answer && e.Asked:
			m.at = now
		case judged:
			m.at = e.ToldAt.Add(pause(v.position))
		case blocked && e.runs():
			m.at = e.Heard.Add(lostFor)
		default:
			continue
		}
		if judged && !v.admit {
			m.o.Position, m.o.Waiting, m.o.Why = v.position, waits, v.why
			if !e.Answer && told(e.Told, m.o) {
				continue
			}
		}
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b message) int { // a place that is free waits for no other news
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

// pause lies between two times that a migration with that position is told.
func pause(position int) time.Duration {
	if position > ahead {
		return time.Duration(position) * pauseEach
	}
	return pauseAhead
}

// told says that an observation says what was told before.
func told(before, o contract.AdmissionObservation) bool {
	o.Sequence = before.Sequence
	return before == o
}

// decide says what is next.
func (s *State) decide(now time.Time) entity.Decision {
	limits, reading := s.limitsDue()
	if reading && !now.Before(limits) && !s.Failure.Holds(string(actLimits), now) {
		return entity.Decision{Action: actLimits, Why: "somebody waits"}
	}
	d := entity.Decision{Waiting: s.waitingFor()}
	if s.Listening != nil {
		d = d.By(s.Listening.Since.Add(listenFor))
	}
	if reading {
		if f := s.Failure.Of(string(actLimits)); f != nil && limits.Before(f.RetryAt) {
			limits = f.RetryAt
		}
		d = d.By(limits)
	}
	for _, e := range waiting(s.Entries) {
		if until := e.backOff(); now.Before(until) {
			d = d.By(until)
		}
	}
	due := 0
	for _, m := range s.messages(now) {
		if now.Before(m.at) {
			d = d.By(m.at)
		} else {
			due++
		}
	}
	switch {
	case due == 0:
		return d
	case s.Failure.Holds(string(actSignal), now):
		return s.Failure.Of(string(actSignal)).Wait()
	}
	return entity.Decision{Action: actSignal, Why: fmt.Sprintf("there is news for %d", due)}
}

func (s *State) waitingFor() string {
	switch closed := s.closed(); {
	case s.Listening != nil:
		return "whatever migrations there are"
	case len(waiting(s.Entries)) == 0:
		return "migrations"
	case closed != "":
		return "a migration to be let in: " + closed
	default:
		return "a place"
	}
}
