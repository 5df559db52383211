package admission

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

const (
	// listenFor is how long a queue that knows nothing, or may know too much, hears who runs before it admits anybody;
	// shorter where it has heard of all that there are.
	listenFor = 10 * time.Second
	// endedKept bounds the memory of what has ended: what crdwatch says late or twice does not bring it back.
	endedKept = 256
)

// State is everything that the queue knows. It is carried across Continue-As-New.
type State struct {
	// Entries are the migrations that have not ended, as they were first heard of.
	Entries []Entry `json:"entries,omitempty"`
	// Ended are the UIDs of those that ended last.
	Ended []string `json:"ended,omitempty"`
	// Listening says that nobody is admitted yet; nil: somebody may be.
	Listening *Listening `json:"listening,omitempty"`

	// Limits are those that were read last, at LimitsAt; nil: none were.
	Limits   *contract.ReadLimitsResult `json:"limits,omitempty"`
	LimitsAt time.Time                  `json:"limitsAt,omitzero"`
	Failure  *entity.Failure            `json:"failure,omitempty"`
	entity.Manual
	entity.Memory
}

// Listening is a time in which the queue hears who runs.
type Listening struct {
	Since time.Time `json:"since"`
	// Open is how many migrations there are that have not ended; 0: not known.
	Open int `json:"open,omitempty"`
}

// Entry is a migration that has not ended.
type Entry struct {
	Migration contract.Object `json:"migration"`
	VMI       string          `json:"vmi,omitempty"`  // its name
	Node      string          `json:"node,omitempty"` // that the guest is to leave
	Priority  string          `json:"priority,omitempty"`
	Since     time.Time       `json:"since,omitzero"`     // when it was created
	NotBefore time.Time       `json:"notBefore,omitzero"` // the end of its back-off
	// Hurried says that a person has ended its back-off.
	Hurried bool `json:"hurried,omitempty"`

	// Asked says that it wants to begin, or did.
	Asked bool `json:"asked,omitempty"`
	// Admitted is when it was; zero: it was not. Begun says that it has heard of that, and Started that its phase says
	// so.
	Admitted time.Time `json:"admitted,omitzero"`
	Begun    bool      `json:"begun,omitempty"`
	Started  bool      `json:"started,omitempty"`

	// Seen says that crdwatch has sent it since the queue has been listening, in that version.
	Seen    bool   `json:"seen,omitempty"`
	Version string `json:"version,omitempty"`
	// Heard is when something was last heard of it, and Lost since when it is known to have no workflow.
	Heard time.Time `json:"heard,omitzero"`
	Lost  time.Time `json:"lost,omitzero"`

	// Answer says that it is to be told at once how it stands. Told is what it was told last, at ToldAt.
	Answer bool                          `json:"answer,omitempty"`
	Told   contract.AdmissionObservation `json:"told,omitzero"`
	ToldAt time.Time                     `json:"toldAt,omitzero"`
}

// workflow is the ID of a migration's workflow.
func (e *Entry) workflow() string {
	return contract.MigrationID(e.Migration.Namespace, e.Migration.Name)
}

// runs says that a migration takes a place.
func (e *Entry) runs() bool { return e.Started || !e.Admitted.IsZero() }

// waits says that a migration wants to begin, and may not yet.
func (e *Entry) waits() bool { return e.Asked && !e.runs() && e.Lost.IsZero() }

// backOff is until when a migration is not to begin; the zero time: it may.
func (e *Entry) backOff() time.Time {
	if e.Hurried {
		return time.Time{}
	}
	return e.NotBefore
}

func (s *State) find(uid string) *Entry {
	i := slices.IndexFunc(s.Entries, func(e Entry) bool { return e.Migration.UID == uid })
	if i < 0 {
		return nil
	}
	return &s.Entries[i]
}

// entry is that of a migration, which may be new.
func (s *State) entry(m contract.Object) *Entry {
	if e := s.find(m.UID); e != nil {
		return e
	}
	s.Entries = append(s.Entries, Entry{Migration: m})
	return &s.Entries[len(s.Entries)-1]
}

// request folds what a migration asks for.
func (s *State) request(r contract.AdmissionRequest, now time.Time) {
	switch {
	case r.Migration.UID == "":
		return
	case r.Done:
		s.end(r.Migration, now)
		return
	}
	// Its workflow says when it has ended: what was said of it before was wrong, or has been undone, or it will say so.
	s.Ended = entity.Without(s.Ended, r.Migration.UID)
	e := s.entry(r.Migration)
	e.Asked, e.Answer, e.Heard, e.Lost = true, true, now, time.Time{}
	e.Priority, e.NotBefore = r.Priority, r.NotBefore
	if r.Returned {
		s.recorded(e, now, "it could not use its place, and gave it back")
		e.Admitted, e.Begun, e.Hurried = time.Time{}, false, false
	}
	if r.Node != "" {
		e.Node = r.Node
	}
	if !r.Since.IsZero() {
		e.Since = r.Since
	}
	if r.Begun {
		e.Begun = true
		s.admit(e, now, "it had been admitted before")
	}
}

// observe folds what crdwatch says of a migration. What comes late from an earlier epoch may never have been: all that
// is true is said again.
func (s *State) observe(o contract.QueuedMigration, now time.Time) {
	if s.Heard(o.Epoch) {
		s.listen(now)
		s.Stale = false
	}
	if o.Epoch < s.Epoch && s.Epoch > 1 { // 0: before there was a token, which then has 1
		return
	}
	uid := o.Migration.UID
	if l := s.Listening; l != nil && o.Open > l.Open {
		l.Open = o.Open
	}
	switch {
	case uid == "" || slices.Contains(s.Ended, uid):
		return
	case o.Ended:
		s.end(o.Migration, now)
		return
	}
	if e := s.find(uid); e != nil && e.Version != "" && !entity.Newer(o.ResourceVersion, e.Version) {
		return
	}
	if s.displaced(o, now) {
		s.end(o.Migration, now)
		return
	}
	e := s.entry(o.Migration)
	e.Seen, e.Version, e.Heard = true, o.ResourceVersion, now
	e.VMI = o.VMIName
	if !e.Asked { // it knows better itself
		e.Node, e.Priority, e.Since = o.Node, o.Priority, o.CreatedAt
	}
	if o.Started && !e.Started {
		if !e.runs() {
			s.record(e, now, "it runs by its phase")
		}
		e.Started = true
	}
}

// listen begins to hear who runs: what is known may be of an older copy.
func (s *State) listen(now time.Time) {
	s.Listening, s.Ended = &Listening{Since: now}, nil
	s.Entries = slices.Clone(s.Entries)
	for i := range s.Entries {
		e := &s.Entries[i]
		e.Seen, e.Started, e.Version = false, false, ""
	}
}

// listened says that it has been listening for long enough.
func (s *State) listened(now time.Time) bool {
	seen := 0
	for i := range s.Entries {
		if s.Entries[i].Seen {
			seen++
		}
	}
	l := s.Listening
	return l.Open > 0 && seen >= l.Open || !now.Before(l.Since.Add(listenFor))
}

// refresh ends the listening, when it is time. What nobody has spoken of since is not believed.
func (s *State) refresh(now time.Time) {
	if s.Listening == nil || !s.listened(now) {
		return
	}
	since := s.Listening.Since
	s.Listening = nil
	for _, e := range slices.Clone(s.Entries) {
		if !e.Seen && e.Heard.Before(since) {
			s.drop(e.Migration.UID, now, "nothing is heard of it any more")
		}
	}
}

// displaced ends an earlier migration of the same name, since two objects of one name never exist at once. It reports
// whether a later one is known: then by comes late.
func (s *State) displaced(by contract.QueuedMigration, now time.Time) bool {
	for _, e := range s.Entries { // end leaves this slice as it is
		m := e.Migration
		switch {
		case m.Namespace != by.Migration.Namespace || m.Name != by.Migration.Name || m.UID == by.Migration.UID:
		case s.later(&e, by):
			return true
		default:
			s.end(m, now)
		}
	}
	return false
}

// later says that a migration was made after another of its name. One that has asked, and is yet to be seen, has no
// version; what the queue knows of it counts unless it is just learning anew who is there.
func (s *State) later(e *Entry, other contract.QueuedMigration) bool {
	if e.Version == "" {
		return s.Listening == nil && other.CreatedAt.Before(e.Since)
	}
	return !entity.Newer(other.ResourceVersion, e.Version)
}

// admit gives a migration its place.
func (s *State) admit(e *Entry, now time.Time, why string) {
	if !e.runs() {
		s.record(e, now, why)
	}
	if e.Admitted.IsZero() {
		e.Admitted = now
	}
}

// end takes a migration out, which comes back only if it asks.
func (s *State) end(m contract.Object, now time.Time) {
	s.drop(m.UID, now, "ended")
	list := append(entity.Without(s.Ended, m.UID), m.UID)
	s.Ended = list[max(0, len(list)-endedKept):]
}

// drop takes a migration out, which may come back.
func (s *State) drop(uid string, now time.Time, outcome string) {
	if e := s.find(uid); e != nil && e.runs() {
		s.recorded(e, now, outcome)
	}
	s.Entries = slices.DeleteFunc(slices.Clone(s.Entries), func(e Entry) bool { return e.Migration.UID == uid })
}

// record notes that a migration runs.
func (s *State) record(e *Entry, now time.Time, why string) {
	s.Record(contract.OperationRecord{Operation: contract.OperationMigrate, ID: e.workflow(), Why: why, Since: now})
}

// recorded notes how a migration's place became free.
func (s *State) recorded(e *Entry, now time.Time, outcome string) {
	for _, r := range s.Records {
		if r.ID == e.workflow() && r.Until.IsZero() {
			r.Until, r.Outcome = now, outcome
			s.Record(r)
			return
		}
	}
}
