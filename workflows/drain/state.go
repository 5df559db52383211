package drain

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Standing is how far a guest is with leaving the node.
type Standing string

// The standings. The first four keep a drain open.
const (
	// Waiting: its turn has not come.
	Waiting Standing = "waiting"
	// Migrating: a migration of it has not ended.
	Migrating Standing = "migrating"
	// Leaving: it was evicted, or is being deleted.
	Leaving Standing = "leaving"
	// Blocked: it is to be moved and cannot, which somebody has to change.
	Blocked Standing = "blocked"
	// Others: somebody else has it leave, or does not.
	Others Standing = "others"
)

// Guest is an instance that is to leave.
type Guest struct {
	contract.Evacuee
	Standing Standing `json:"standing"`
	// Reason is why it stands so, in words, and Since is since when.
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	// Evicted says that its pod was. Refused is why nothing could be done about it when that was tried last, Tries how
	// often in a row, and RetryAt is when it is tried again.
	Evicted bool      `json:"evicted,omitempty"`
	Refused string    `json:"refused,omitempty"`
	Tries   int       `json:"tries,omitempty"`
	RetryAt time.Time `json:"retryAt,omitzero"`
	// Hurried says that a person has ended its back-off after that many failures.
	Hurried int `json:"hurried,omitempty"`
}

// migrates says that its migration is what it is to leave by.
func (g *Guest) migrates() bool {
	return g.Migratable && (g.Strategy == strategyMigrate || g.Strategy == strategyIfPossible)
}

// Eviction strategies, as KubeVirt's.
const (
	strategyMigrate    = "LiveMigrate"
	strategyIfPossible = "LiveMigrateIfPossible"
	strategyExternal   = "External"
)

// notBefore is when something may be done about it.
func (g *Guest) notBefore() time.Time {
	at := g.RetryAt
	if end := entity.BackOffEnd(g.Failures, g.LastFailure); g.Hurried < g.Failures && end.After(at) {
		at = end
	}
	return at
}

// State is everything that a drain knows. It is carried across Continue-As-New.
type State struct {
	Node        string              `json:"node"`
	Scope       contract.DrainScope `json:"scope"`
	Parallelism int                 `json:"parallelism,omitempty"`
	Marked      int                 `json:"marked,omitempty"`
	Since       time.Time           `json:"since"`
	// Guests are those that are to leave, in the order in which that is to be, as they were at Seen. More is how many
	// there are besides, and Outbound the cluster's limit.
	Guests   []Guest   `json:"guests,omitempty"`
	More     int       `json:"more,omitempty"`
	Outbound int       `json:"outbound,omitempty"`
	Seen     time.Time `json:"seen,omitzero"`
	// Look says that there is something new to be read.
	Look bool `json:"look,omitempty"`
	// Moved, Evicted and Left count those that are not on the node any more.
	Moved   int `json:"moved,omitempty"`
	Evicted int `json:"evicted,omitempty"`
	Left    int `json:"left,omitempty"`

	Paused    *Request `json:"paused,omitempty"`
	Cancelled *Request `json:"cancelled,omitempty"`
	// Deleted and Cleared say what was done since it was cancelled.
	Deleted bool `json:"deleted,omitempty"`
	Cleared bool `json:"cleared,omitempty"`
	// Withdrawn says that not all guests are to leave any more: the node's taint and cordon are gone.
	Withdrawn bool `json:"withdrawn,omitempty"`
	// Gone says that the node exists no more.
	Gone bool `json:"gone,omitempty"`
	// Detached says that a run of the node's entity before this one has opened it.
	Detached bool            `json:"detached,omitempty"`
	Failure  *entity.Failure `json:"failure,omitempty"`
	entity.Manual
}

// Request is what a person asked for, as claimed.
type Request struct {
	Actor  string    `json:"actor"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
}

// tell takes in what the node's entity says.
func (s *State) tell(p contract.DrainProgress) {
	if s.Scope != p.Scope {
		s.Withdrawn = p.Scope == contract.ScopeMarked
	}
	if s.Scope != p.Scope || p.Marked != s.Marked {
		s.Look = true
	}
	s.Scope = p.Scope
	if p.Parallelism > 0 {
		s.Parallelism = p.Parallelism
	}
	s.Marked, s.Gone = p.Marked, s.Gone || p.Gone
}

// see takes in what was read of the node's guests.
func (s *State) see(now time.Time, r contract.FindEvacueesResult) {
	before := s.Guests
	s.Guests = make([]Guest, 0, len(r.Evacuees))
	for _, e := range r.Evacuees {
		g := Guest{Evacuee: e, Since: now}
		i := slices.IndexFunc(before, func(b Guest) bool { return b.VMI.UID == e.VMI.UID })
		if i >= 0 {
			b := before[i]
			g.Evicted, g.Refused, g.Tries, g.RetryAt, g.Hurried = b.Evicted, b.Refused, b.Tries, b.RetryAt, b.Hurried
		}
		if e.Migration.UID != "" {
			g.Refused, g.Tries, g.RetryAt = "", 0, time.Time{}
		}
		g.Standing, g.Reason = s.judge(&g)
		if i >= 0 && before[i].Standing == g.Standing {
			g.Since = before[i].Since
		}
		s.Guests = append(s.Guests, g)
	}
	for _, b := range before {
		if slices.ContainsFunc(s.Guests, func(g Guest) bool { return g.VMI.UID == b.VMI.UID }) {
			continue
		}
		switch {
		case b.Evicted:
			s.Evicted++
		case !b.Marked && s.Scope == contract.ScopeMarked: // it is not to leave any more
		case b.Standing == Migrating:
			s.Moved++
		default:
			s.Left++
		}
	}
	s.More, s.Outbound, s.Seen, s.Look = r.More, r.Outbound, now, false
}

// judge says how a guest stands, and why.
func (s *State) judge(g *Guest) (Standing, string) {
	switch {
	case g.Deleting:
		return Leaving, "it is being deleted"
	case g.Evicted:
		return Leaving, "its pod was evicted"
	case g.Migration.UID != "":
		return Migrating, "by " + g.Migration.Name
	case g.Strategy == strategyExternal:
		return Others, "its eviction strategy is External: another controller moves it"
	case g.Refused != "":
		return Blocked, g.Refused
	case !g.Running && (g.migrates() || g.Strategy == strategyMigrate):
		return Waiting, "its guest does not run yet, or is in two pods"
	case g.migrates():
		return Waiting, "its turn"
	case g.Strategy == strategyMigrate:
		return Blocked, "it cannot be moved: " + g.Why
	case s.Scope == contract.ScopeAll:
		return Waiting, "to be evicted when no other is left to be moved"
	default:
		return Others, "its eviction is not refused: whoever asked for it may ask again"
	}
}

// refused notes that nothing could be done about a guest.
func (s *State) refused(now time.Time, uid, why string) {
	guests := slices.Clone(s.Guests) // what a query was answered does not change under it
	for i := range guests {
		g := &guests[i]
		if g.VMI.UID != uid {
			continue
		}
		g.Refused, g.Tries = why, g.Tries+1
		g.RetryAt = now.Add(max(entity.Pause(g.Tries), leastPause))
		if g.Standing != Blocked {
			g.Standing, g.Since = Blocked, now
		}
		g.Reason = why
	}
	s.Guests = guests
}

// count is how many guests stand so.
func (s *State) count(what ...Standing) int {
	n := 0
	for _, g := range s.Guests {
		if slices.Contains(what, g.Standing) {
			n++
		}
	}
	return n
}
