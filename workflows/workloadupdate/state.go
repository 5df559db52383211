package workloadupdate

import (
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/guests"
)

// State is everything that a workload update knows. It is carried across Continue-As-New.
type State struct {
	Since time.Time `json:"since"`
	// Observed is what crdwatch said last, Changed when it said another image than before, and Settles until when
	// nobody is moved because of that.
	Observed contract.OutdatedObservation `json:"observed"`
	Changed  time.Time                    `json:"changed,omitzero"`
	Settles  time.Time                    `json:"settles,omitzero"`
	// Guests are those in outdated launchers, in the order in which they are to leave, as they were at Seen. More is
	// how many there are besides.
	Guests   guests.List             `json:"guests,omitempty"`
	More     int                     `json:"more,omitempty"`
	Strategy contract.UpdateStrategy `json:"strategy"`
	Seen     time.Time               `json:"seen,omitzero"`
	// Whole says that every instance was looked at then. All says that this is to be done next, and Stale that there is
	// something new to be read.
	Whole bool `json:"whole,omitempty"`
	All   bool `json:"all,omitempty"`
	Stale bool `json:"stale,omitempty"`
	// Batch is when guests were evicted last.
	Batch time.Time `json:"batch,omitzero"`
	// Moved, Evicted and Left count those that are not outdated any more.
	Moved   int `json:"moved,omitempty"`
	Evicted int `json:"evicted,omitempty"`
	Left    int `json:"left,omitempty"`

	Failure *entity.Failure `json:"failure,omitempty"`
	entity.Manual
}

// observe takes in what crdwatch says. What comes late or twice changes nothing.
func (s *State) observe(now time.Time, o contract.OutdatedObservation) {
	if o.Epoch < s.Observed.Epoch || o.Epoch == s.Observed.Epoch && o.Sequence <= s.Observed.Sequence {
		return
	}
	if o.Image != s.Observed.Image {
		s.Changed, s.Settles, s.All = now, now.Add(settleFor), true
	}
	s.Observed, s.Stale = o, true
}

// see takes in what was read. Where crdwatch knows of more than have the label, nobody is missed yet: all are to be
// looked at.
func (s *State) see(now time.Time, all bool, r contract.FindOutdatedResult) {
	s.Strategy = r.Strategy // before they are judged by it
	next, gone := s.Guests.See(now, r.Instances, r.More, s.judge)
	found := len(r.Instances) + r.More
	lacking := !all && (found == 0 || found < s.Observed.Outdated)
	if lacking {
		next, gone = append(next, gone...), nil
	}
	for _, b := range gone {
		switch {
		case b.Evicted:
			s.Evicted++
		case b.Standing == guests.Migrating:
			s.Moved++
		default:
			s.Left++
		}
	}
	s.Guests, s.More, s.Seen, s.Whole = next, r.More, now, all
	s.All = lacking || r.Unmarked > 0
	s.Stale = s.All
}

// judge says how a guest stands, and why.
func (s *State) judge(g *guests.Guest) (guests.Standing, string) {
	u := s.Strategy
	switch {
	case g.Deleting:
		return guests.Leaving, "it is being deleted"
	case g.Evicted:
		return guests.Leaving, "its pod was evicted"
	case g.Migration.UID != "":
		return guests.Migrating, "by " + g.Migration.Name
	case !u.Acts():
		return guests.Others, "spec.workloadUpdateStrategy of the KubeVirt object names no method"
	case g.Refused != "":
		return guests.Blocked, g.Refused
	case !g.Running:
		return guests.Waiting, "its guest does not run yet, or is in two pods"
	case s.migrates(g):
		return guests.Waiting, "its turn"
	case s.evicts(g):
		return guests.Waiting, "to be evicted with one of the next batches"
	case u.Evict:
		return guests.Blocked, "it was started since the release, and its launcher is not of the image that was asked " +
			"for: something else changes that of its pod"
	default:
		return guests.Blocked, "it cannot be moved: " + g.Why
	}
}

// migrates says that a migration is what a guest is to leave by.
func (s *State) migrates(g *guests.Guest) bool { return s.Strategy.Migrate && g.Migratable }

// evicts says that an eviction is. It would bring no other launcher to one that was started when the release was
// everywhere, and so on for ever.
func (s *State) evicts(g *guests.Guest) bool {
	return s.Strategy.Evict && !s.migrates(g) && g.Created.Before(s.Changed.Add(settleFor))
}
