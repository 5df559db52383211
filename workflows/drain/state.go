package drain

import (
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/guests"
)

// leavesByMigration reports whether a guest is to leave by migration.
func leavesByMigration(g *guests.Guest) bool {
	return g.Migratable && (g.Strategy == strategyMigrate || g.Strategy == strategyIfPossible)
}

// Eviction strategies, as KubeVirt's.
const (
	strategyMigrate    = "LiveMigrate"
	strategyIfPossible = "LiveMigrateIfPossible"
	strategyExternal   = "External"
)

// State is everything that a drain knows. Continue-As-New carries it.
type State struct {
	Node        string              `json:"node"`
	Scope       contract.DrainScope `json:"scope"`
	Parallelism int                 `json:"parallelism,omitempty"`
	Marked      int                 `json:"marked,omitempty"`
	Since       time.Time           `json:"since"`
	// Guests are those that are to leave, in that order, as they were at Seen. More is how many there are besides, and
	// Outbound the cluster's limit.
	Guests   guests.List `json:"guests,omitempty"`
	More     int         `json:"more,omitempty"`
	Outbound int         `json:"outbound,omitempty"`
	Seen     time.Time   `json:"seen,omitzero"`
	// Stale is set when the guests have to be read.
	Stale bool `json:"stale,omitempty"`
	// Moved, Evicted and Left count those that are no longer on the node.
	Moved   int `json:"moved,omitempty"`
	Evicted int `json:"evicted,omitempty"`
	Left    int `json:"left,omitempty"`

	Paused    *Request `json:"paused,omitempty"`
	Cancelled *Request `json:"cancelled,omitempty"`
	// Deleted and Cleared are set when these steps of its cancellation are done.
	Deleted bool `json:"deleted,omitempty"`
	Cleared bool `json:"cleared,omitempty"`
	// Withdrawn is set when not all guests are to leave any longer: the node's taint and cordon have ended.
	Withdrawn bool `json:"withdrawn,omitempty"`
	// Gone is set when the node no longer exists.
	Gone bool `json:"gone,omitempty"`
	// Detached is set when an earlier run of the node's entity has opened it.
	Detached bool            `json:"detached,omitempty"`
	Failure  *entity.Failure `json:"failure,omitempty"`
	entity.Manual
}

// Request is a person's control, as claimed.
type Request struct {
	Actor  string    `json:"actor"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
}

// observe folds in the progress that the node's entity signals.
func (s *State) observe(p contract.DrainProgress) {
	if s.Scope != p.Scope {
		s.Withdrawn = p.Scope == contract.ScopeMarked
	}
	if s.Scope != p.Scope || p.Marked != s.Marked {
		s.Stale = true
	}
	s.Scope = p.Scope
	if p.Parallelism > 0 {
		s.Parallelism = p.Parallelism
	}
	s.Marked, s.Gone = p.Marked, s.Gone || p.Gone
}

// foldGuests folds in the node's guests as they were read.
func (s *State) foldGuests(now time.Time, r contract.FindEvacueesResult) {
	next, gone := s.Guests.FoldFound(now, r.Evacuees, r.More, s.standingOf)
	for _, b := range gone {
		switch {
		case b.Evicted:
			s.Evicted++
		case !b.Marked && s.Scope == contract.ScopeMarked: // it is no longer to leave
		case b.Standing == guests.Migrating:
			s.Moved++
		default:
			s.Left++
		}
	}
	s.Guests, s.More, s.Outbound, s.Seen, s.Stale = next, r.More, r.Outbound, now, false
}

// standingOf returns a guest's standing, and why.
func (s *State) standingOf(g *guests.Guest) (guests.Standing, string) {
	switch {
	case g.Deleting:
		return guests.Leaving, "it is being deleted"
	case g.Evicted:
		return guests.Leaving, "its pod was evicted"
	case g.Migration.UID != "":
		return guests.Migrating, "by " + g.Migration.Name
	case g.Strategy == strategyExternal:
		return guests.Others, "its eviction strategy is External: another controller moves it"
	case g.Refused != "":
		return guests.Blocked, g.Refused
	case !g.Running && (leavesByMigration(g) || g.Strategy == strategyMigrate):
		return guests.Waiting, "its guest does not run yet, or is in two pods"
	case leavesByMigration(g):
		return guests.Waiting, "its turn"
	case g.Strategy == strategyMigrate:
		return guests.Blocked, "it cannot be moved: " + g.Why
	case s.Scope == contract.ScopeAll:
		return guests.Waiting, "to be evicted when no other is left to be moved"
	default:
		return guests.Others, "its eviction is not refused, so it may be requested again"
	}
}
