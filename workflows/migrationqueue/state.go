package migrationqueue

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

const (
	// listenFor is how long a queue without state, or whose state may be of an older copy, collects observations before
	// it admits a migration; shorter where it has observed all migrations that exist.
	listenFor = 10 * time.Second
	// endedKept bounds how many ended migrations are remembered, so that a late or repeated observation does not bring
	// one back.
	endedKept = 256
)

// State is everything that the queue knows. Continue-As-New carries it.
type State struct {
	// Entries are the migrations that have not ended, in the order in which the queue first learnt of them.
	Entries []Entry `json:"entries,omitempty"`
	// Ended are the UIDs of those that ended last.
	Ended []string `json:"ended,omitempty"`
	// Listening is set while the queue only collects observations and admits no migration; nil: it may admit.
	Listening *Listening `json:"listening,omitempty"`

	// Limits are those that were read last, at LimitsAt; nil: none were read.
	Limits   *contract.ReadLimitsResult `json:"limits,omitempty"`
	LimitsAt time.Time                  `json:"limitsAt,omitzero"`
	Failure  *entity.Failure            `json:"failure,omitempty"`
	entity.Logic
	entity.Manual
	entity.Memory
}

// Listening is a time in which the queue collects observations of running migrations and admits none.
type Listening struct {
	Since time.Time `json:"since"`
	// Open is the number of migrations that have not ended; 0: not known.
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
	// Hurried is set when a person has ended its back-off.
	Hurried bool `json:"hurried,omitempty"`

	// Requested is set once it has requested admission.
	Requested bool `json:"asked,omitempty"`
	// Admitted is when it was admitted; zero: it was not. Begun is set once it has confirmed that, and Started once
	// crdwatch reports a phase in which it runs.
	Admitted time.Time `json:"admitted,omitzero"`
	Begun    bool      `json:"begun,omitempty"`
	Started  bool      `json:"started,omitempty"`
	// GaveBack reports whether it has returned its admission, whatever its phase: its target's pod exists. Unscheduled
	// reports whether it requests admission again only once the pod runs.
	GaveBack    bool `json:"gaveBack,omitempty"`
	Unscheduled bool `json:"unscheduled,omitempty"`

	// Seen is set once crdwatch has sent it since the queue began to listen, in that version.
	Seen    bool   `json:"seen,omitempty"`
	Version string `json:"version,omitempty"`
	// LastContact is when its last signal or observation arrived, or it last received one; MissingSince is the time
	// from which it is known to have no workflow.
	LastContact  time.Time `json:"heard,omitzero"`
	MissingSince time.Time `json:"lost,omitzero"`

	// AnswerDue is set while its request has no answer yet. Sent is the last observation that it received, at SentAt.
	AnswerDue bool                          `json:"answer,omitempty"`
	Sent      contract.AdmissionObservation `json:"told,omitzero"`
	SentAt    time.Time                     `json:"toldAt,omitzero"`
}

// workflow returns the ID of a migration's workflow.
func (e *Entry) workflow() string {
	return contract.MigrationID(e.Migration.Namespace, e.Migration.Name)
}

// isRunning reports whether a migration counts towards the limits.
func (e *Entry) isRunning() bool { return e.Started && !e.GaveBack || !e.Admitted.IsZero() }

// isWaiting reports whether a migration wants to begin and is not admitted yet.
func (e *Entry) isWaiting() bool {
	return e.Requested && !e.isRunning() && e.MissingSince.IsZero() && !e.Unscheduled
}

// backOff returns the time before which a migration must not begin; zero: it may begin at any time.
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

// entry returns the entry of a migration, and adds it if it is new.
func (s *State) entry(m contract.Object) *Entry {
	if e := s.find(m.UID); e != nil {
		return e
	}
	s.Entries = append(s.Entries, Entry{Migration: m})
	return &s.Entries[len(s.Entries)-1]
}

// request folds in a migration's own request.
func (s *State) request(r contract.AdmissionRequest, now time.Time) {
	switch {
	case r.Migration.UID == "":
		return
	case r.Done:
		s.end(r.Migration, now)
		return
	}
	// The migration's own workflow knows whether it has ended. An earlier observation of its end was wrong, or was
	// undone, or the workflow will report the end.
	s.Ended = entity.Without(s.Ended, r.Migration.UID)
	e := s.entry(r.Migration)
	e.Requested, e.AnswerDue, e.LastContact, e.MissingSince = true, true, now, time.Time{}
	e.Priority, e.NotBefore = r.Priority, r.NotBefore
	if r.Returned {
		s.closeRecord(e, now, "it could not use its place, and gave it back")
		e.Admitted, e.Begun, e.Hurried = time.Time{}, false, false
	}
	if e.Unscheduled = r.Unscheduled; r.Unscheduled {
		e.Admitted, e.GaveBack = time.Time{}, true
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

// observe folds in crdwatch's observation of a migration. A late one from an earlier epoch is dropped, since it may
// describe what was rolled back; crdwatch sends all current state again.
func (s *State) observe(o contract.QueuedMigration, now time.Time) {
	if s.AdvanceEpoch(o.Epoch) {
		s.listen(now)
		s.NoteRead()
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
	if s.endNamesakes(o, now) {
		s.end(o.Migration, now)
		return
	}
	e := s.entry(o.Migration)
	e.Seen, e.Version, e.LastContact = true, o.ResourceVersion, now
	e.VMI = o.VMIName
	if !e.Requested { // afterwards its own request is the better source
		e.Node, e.Priority, e.Since = o.Node, o.Priority, o.CreatedAt
	}
	if o.Started && !e.Started {
		if !e.isRunning() && !e.GaveBack {
			s.openRecord(e, now, "it runs by its phase")
		}
		e.Started = true
	}
}

// listen starts a time of listening, because what is known may be of an older copy.
func (s *State) listen(now time.Time) {
	s.Listening, s.Ended = &Listening{Since: now}, nil
	s.Entries = slices.Clone(s.Entries)
	for i := range s.Entries {
		e := &s.Entries[i]
		e.Seen, e.Started, e.Version = false, false, ""
	}
}

// hasListened reports whether the queue has been listening for long enough.
func (s *State) hasListened(now time.Time) bool {
	seen := 0
	for i := range s.Entries {
		if s.Entries[i].Seen {
			seen++
		}
	}
	l := s.Listening
	return l.Open > 0 && seen >= l.Open || !now.Before(l.Since.Add(listenFor))
}

// refresh ends the listening when its time is over, and drops each migration that was not observed meanwhile.
func (s *State) refresh(now time.Time) {
	if s.Listening == nil || !s.hasListened(now) {
		return
	}
	since := s.Listening.Since
	s.Listening = nil
	for _, e := range slices.Clone(s.Entries) {
		if !e.Seen && e.LastContact.Before(since) {
			s.drop(e.Migration.UID, now, "it was not observed again")
		}
	}
}

// endNamesakes reports whether a later migration of the same name is known, so that the observation by arrives late. It
// ends the earlier ones, since two objects of one name never exist at once.
func (s *State) endNamesakes(by contract.QueuedMigration, now time.Time) bool {
	for _, e := range s.Entries { // end changes a copy of this slice
		m := e.Migration
		switch {
		case m.Namespace != by.Migration.Namespace || m.Name != by.Migration.Name || m.UID == by.Migration.UID:
		case s.isLater(&e, by):
			return true
		default:
			s.end(m, now)
		}
	}
	return false
}

// isLater reports whether a migration was made after another of its name. One that has requested admission and was not
// observed yet has no version: then their creation times decide, unless the queue listens, and its entries may be old.
func (s *State) isLater(e *Entry, other contract.QueuedMigration) bool {
	if e.Version == "" {
		return s.Listening == nil && other.CreatedAt.Before(e.Since)
	}
	return !entity.Newer(other.ResourceVersion, e.Version)
}

// admit counts a migration towards the limits from now on.
func (s *State) admit(e *Entry, now time.Time, why string) {
	if !e.isRunning() {
		s.openRecord(e, now, why)
	}
	if e.Admitted.IsZero() {
		e.Admitted = now
	}
	e.GaveBack = false
}

// end removes a migration that has ended: only its own request brings it back.
func (s *State) end(m contract.Object, now time.Time) {
	s.drop(m.UID, now, "ended")
	list := append(entity.Without(s.Ended, m.UID), m.UID)
	s.Ended = list[max(0, len(list)-endedKept):]
}

// drop removes a migration: an observation may bring it back.
func (s *State) drop(uid string, now time.Time, outcome string) {
	if e := s.find(uid); e != nil && e.isRunning() {
		s.closeRecord(e, now, outcome)
	}
	s.Entries = slices.DeleteFunc(slices.Clone(s.Entries), func(e Entry) bool { return e.Migration.UID == uid })
}

// openRecord adds the record of a migration that begins to run.
func (s *State) openRecord(e *Entry, now time.Time, why string) {
	s.Record(contract.OperationRecord{Operation: contract.OperationMigrate, ID: e.workflow(), Why: why, Since: now})
}

// closeRecord sets in a migration's record how and when it stopped counting towards the limits.
func (s *State) closeRecord(e *Entry, now time.Time, outcome string) {
	for _, r := range s.Records {
		if r.ID == e.workflow() && r.Until.IsZero() {
			r.Until, r.Outcome = now, outcome
			s.Record(r)
			return
		}
	}
}
