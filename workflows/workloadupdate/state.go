package workloadupdate

import (
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/guests"
)

// State is everything that a workload update knows. Continue-As-New carries it.
type State struct {
	Since time.Time `json:"since"`
	// Observed is crdwatch's last observation, Changed when its image changed, and Settles until when no guest is moved
	// because of that.
	Observed contract.OutdatedObservation `json:"observed"`
	Changed  time.Time                    `json:"changed,omitzero"`
	Settles  time.Time                    `json:"settles,omitzero"`
	// Guests are those in outdated launchers, in the order in which they are to leave, as they were at Seen. More is
	// how many there are besides.
	Guests   guests.List             `json:"guests,omitempty"`
	More     int                     `json:"more,omitempty"`
	Strategy contract.UpdateStrategy `json:"strategy"`
	Seen     time.Time               `json:"seen,omitzero"`
	// Whole is set when every instance was read then. All is set when every instance is to be read next, and Stale when
	// the outdated ones are.
	Whole bool `json:"whole,omitempty"`
	All   bool `json:"all,omitempty"`
	Stale bool `json:"stale,omitempty"`
	// Batch is when guests were evicted last.
	Batch time.Time `json:"batch,omitzero"`
	// Moved, Evicted and Left count those that are no longer outdated.
	Moved   int `json:"moved,omitempty"`
	Evicted int `json:"evicted,omitempty"`
	Left    int `json:"left,omitempty"`

	Failure *entity.Failure `json:"failure,omitempty"`
	entity.Manual
}

// observe folds in crdwatch's observation. A late or repeated one changes nothing.
func (s *State) observe(now time.Time, o contract.OutdatedObservation) {
	if o.Epoch < s.Observed.Epoch || o.Epoch == s.Observed.Epoch && o.Sequence <= s.Observed.Sequence {
		return
	}
	if o.Image != s.Observed.Image {
		s.Changed, s.Settles, s.All = now, now.Add(settleFor), true
	}
	s.Observed, s.Stale = o, true
}

// foldInstances folds in the instances that were read. Where crdwatch has observed more than have the label, an
// instance that is not among them does not count as updated: all are to be read.
func (s *State) foldInstances(now time.Time, all bool, r contract.FindOutdatedResult) {
	s.Strategy = r.Strategy // judge uses it
	next, gone := s.Guests.FoldFound(now, r.Instances, r.More, s.standingOf)
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

// standingOf returns a guest's standing, and why.
func (s *State) standingOf(g *guests.Guest) (guests.Standing, string) {
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
	case s.leavesByMigration(g):
		return guests.Waiting, "its turn"
	case s.leavesByEviction(g):
		return guests.Waiting, "to be evicted with one of the next batches"
	case u.Evict:
		return guests.Blocked, "it was started since the release, and its launcher is not of the image that was asked " +
			"for: something else changes that of its pod"
	default:
		return guests.Blocked, "it cannot be moved: " + g.Why
	}
}

// leavesByMigration reports whether a guest is to leave by migration.
func (s *State) leavesByMigration(g *guests.Guest) bool { return s.Strategy.Migrate && g.Migratable }

// leavesByEviction reports whether a guest is to leave by eviction. One that was started when the release was
// everywhere would get no other launcher, and so on for ever.
func (s *State) leavesByEviction(g *guests.Guest) bool {
	return s.Strategy.Evict && !s.leavesByMigration(g) && g.Created.Before(s.Changed.Add(settleFor))
}
