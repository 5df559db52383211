package replicaset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/virtflow/virtflow/contract"
)

// burst is how many replicas are made or removed before the planner compares again. It is KubeVirt's figure.
const burst = 250

// needs has the missing replicas of a set, and those to remove.
type needs struct {
	Make     int
	Remove   []contract.ReplicaObservation
	Finished []contract.ReplicaObservation // to be deleted, and replaced if needed
}

func (n needs) isEmpty() bool { return n.Make == 0 && len(n.Remove) == 0 && len(n.Finished) == 0 }

// why returns the reason of a transition, for people.
func (n needs) why(have, want int) string {
	var parts []string
	if n.Make > 0 || len(n.Remove) > 0 {
		parts = append(parts, fmt.Sprintf("%d %s wanted, and there are %d", want,
			plural(want, "replica is", "replicas are"), have))
	}
	if f := len(n.Finished); f > 0 {
		parts = append(parts, fmt.Sprintf("%d %s ended", f, plural(f, "has", "have")))
	}
	return strings.Join(parts, "; ")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// isController reports whether the set is the controller of a replica.
func (s *State) isController(r contract.ReplicaObservation) bool { return r.OwnerUID == s.Object.UID }

// isBeingRemoved reports whether the open transition deletes a replica.
func (s *State) isBeingRemoved(r contract.ReplicaObservation) bool {
	return s.Open != nil && (slices.Contains(s.Open.Remove, r.UID) || slices.Contains(s.Open.Finished, r.UID))
}

// countsForSet reports whether a replica counts towards the desired number.
func (s *State) countsForSet(r contract.ReplicaObservation) bool { return r.CountsFor(s.Object.UID) }

// active returns the replicas that count, without those that the open transition removes.
func (s *State) active() []contract.ReplicaObservation {
	return s.replicasWhere(func(r contract.ReplicaObservation) bool {
		return s.countsForSet(r) && !s.isBeingRemoved(r)
	})
}

// replicasWhere returns the known replicas for which a condition holds.
func (s *State) replicasWhere(keep func(contract.ReplicaObservation) bool) []contract.ReplicaObservation {
	var out []contract.ReplicaObservation
	for _, r := range s.Replicas {
		if keep(r) {
			out = append(out, r)
		}
	}
	return out
}

// needs compares the existing replicas with the desired number.
func (s *State) needs() needs {
	var n needs
	active := s.active()
	switch diff := len(active) - s.Set.Replicas; {
	case diff < 0:
		n.Make = min(-diff, burst)
	case diff > 0:
		slices.SortFunc(active, compareRemoval)
		n.Remove = active[:min(diff, burst)]
	}
	n.Finished = s.replicasWhere(func(r contract.ReplicaObservation) bool {
		return s.isController(r) && (r.Ended() || r.Terminating) && !r.Deleting && !s.isBeingRemoved(r)
	})
	n.Finished = n.Finished[:min(len(n.Finished), burst)]
	return n
}

// compareRemoval orders replicas by how little is lost with them: first those whose guest does not run yet, then those
// that are not ready, then the youngest. KubeVirt removes in no particular order.
func compareRemoval(a, b contract.ReplicaObservation) int {
	return cmp.Or(
		cmp.Compare(bootProgress(a), bootProgress(b)),
		b.Created.Compare(a.Created),
		cmp.Compare(b.Ordinal, a.Ordinal),
		cmp.Compare(a.UID, b.UID),
	)
}

func bootProgress(r contract.ReplicaObservation) int {
	switch r.Phase {
	case "Running":
		if r.Ready {
			return 5
		}
		return 4
	case "Scheduled":
		return 3
	case "Scheduling":
		return 2
	case "Pending":
		return 1
	default:
		return 0
	}
}

// ownershipChanges returns the instances to adopt, and those to release.
func (s *State) ownershipChanges() (adopt, release []contract.ReplicaObservation) {
	for _, r := range s.Replicas {
		switch {
		case r.Deleting:
		case r.OwnerUID == "" && r.Matches:
			adopt = append(adopt, r)
		case s.isController(r) && !r.Matches:
			release = append(release, r)
		}
	}
	return adopt[:min(len(adopt), ownershipBatch)], release[:min(len(release), ownershipBatch)]
}

// ownershipBatch is how many instances one call adopts or releases.
const ownershipBatch = 10

// progress returns the progress of the open transition, as observed.
func (s *State) progress() contract.ReplicateProgress {
	t := s.Open
	var p contract.ReplicateProgress
	left := 0
	for _, r := range s.Replicas {
		switch {
		case s.isBeingRemoved(r):
			left++
		case s.countsForSet(r) && r.Ordinal >= t.From && r.Ordinal < t.From+t.Make && r.Phase == "Running":
			p.Running++
		}
	}
	p.Gone = len(t.Remove) + len(t.Finished) - left
	p.Done = p.Running == t.Make && left == 0
	return p
}

// isTransitionObserved reports whether all instances that the open transition makes were observed, and those that it
// deletes are observed as being deleted. The observed replicas then are the result of the transition.
func (s *State) isTransitionObserved() bool {
	if len(s.Open.Unseen) > 0 {
		return false
	}
	return !slices.ContainsFunc(s.Replicas, func(r contract.ReplicaObservation) bool {
		return s.isBeingRemoved(r) && !r.Deleting
	})
}

// isBackingOff reports whether a replica that never ran is to be replaced, and the back-off after it has not ended.
func (s *State) isBackingOff(n needs, now time.Time) bool {
	return n.Make > 0 && now.Before(s.CrashLoopUntil) && slices.ContainsFunc(n.Finished, hasNeverRun)
}

func hasNeverRun(r contract.ReplicaObservation) bool { return !r.EverRan }
