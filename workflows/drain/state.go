package drain

import (
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/guests"
)

// migrates says that its migration is what a guest is to leave by.
func migrates(g *guests.Guest) bool {
	return g.Migratable && (g.Strategy == strategyMigrate || g.Strategy == strategyIfPossible)
}

// Eviction strategies, as KubeVirt's.
const (
	strategyMigrate    = "LiveMigrate"
	strategyIfPossible = "LiveMigrateIfPossible"
	strategyExternal   = "External"
)

// State is everything that a drain knows. It is carried across Continue-As-New.
type State struct {
	Node        string              `json:"node"`
	Scope       contract.DrainScope `json:"scope"`
	Parallelism int                 `json:"parallelism,omitempty"`
	Marked      int                 `json:"marked,omitempty"`
	Since       time.Time           `json:"since"`
	// Guests are those that are to leave, in the order in which that is to be, as they were at Seen. More is how many
	// there are besides, and Outbound the cluster's limit.
	Guests   guests.List `json:"guests,omitempty"`
	More     int         `json:"more,omitempty"`
	Outbound int         `json:"outbound,omitempty"`
	Seen     time.Time   `json:"seen,omitzero"`
	// Stale says that there is something new to be read.
	Stale bool `json:"stale,omitempty"`
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
		s.Stale = true
	}
	s.Scope = p.Scope
	if p.Parallelism > 0 {
		s.Parallelism = p.Parallelism
	}
	s.Marked, s.Gone = p.Marked, s.Gone || p.Gone
}

// see takes in what was read of the node's guests.
func (s *State) see(now time.Time, r contract.FindEvacueesResult) {
	next, gone := s.Guests.See(now, r.Evacuees, r.More, s.judge)
	for _, b := range gone {
		switch {
		case b.Evicted:
			s.Evicted++
		case !b.Marked && s.Scope == contract.ScopeMarked: // it is not to leave any more
		case b.Standing == guests.Migrating:
			s.Moved++
		default:
			s.Left++
		}
	}
	s.Guests, s.More, s.Outbound, s.Seen, s.Stale = next, r.More, r.Outbound, now, false
}

// judge says how a guest stands, and why.
func (s *State) judge(g *guests.Guest) (guests.Standing, string) {
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
	case !g.Running && (migrates(g) || g.Strategy == strategyMigrate):
		return guests.Waiting, "its guest does not run yet, or is in two pods"
	case migrates(g):
		return guests.Waiting, "its turn"
	case g.Strategy == strategyMigrate:
		return guests.Blocked, "it cannot be moved: " + g.Why
	case s.Scope == contract.ScopeAll:
		return guests.Waiting, "to be evicted when no other is left to be moved"
	default:
		return guests.Others, "its eviction is not refused: whoever asked for it may ask again"
	}
}
