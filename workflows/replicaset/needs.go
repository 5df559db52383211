package replicaset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

// burst is how many replicas are made or removed before the planner looks again at what there is: KubeVirt's.
const burst = 250

// needs are what is to be done for a set, from what there is.
type needs struct {
	Make     int
	Remove   []contract.ReplicaObservation
	Finished []contract.ReplicaObservation // to be cleaned up
}

func (n needs) none() bool { return n.Make == 0 && len(n.Remove) == 0 && len(n.Finished) == 0 }

// why says it in plain words.
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

// mine says whether the set controls a replica.
func (s *State) mine(r contract.ReplicaObservation) bool { return r.OwnerUID == s.Object.UID }

// going says that the open transition deletes a replica.
func (s *State) going(r contract.ReplicaObservation) bool {
	return s.Open != nil && (slices.Contains(s.Open.Remove, r.UID) || slices.Contains(s.Open.Finished, r.UID))
}

func (s *State) counts(r contract.ReplicaObservation) bool { return r.CountsFor(s.Object.UID) }

// active are the replicas that count, without those that the open transition removes.
func (s *State) active() []contract.ReplicaObservation {
	return s.pick(func(r contract.ReplicaObservation) bool { return s.counts(r) && !s.going(r) })
}

func (s *State) pick(keep func(contract.ReplicaObservation) bool) []contract.ReplicaObservation {
	var out []contract.ReplicaObservation
	for _, r := range s.Replicas {
		if keep(r) {
			out = append(out, r)
		}
	}
	return out
}

// needs compares what there is with what is wanted.
func (s *State) needs() needs {
	var n needs
	active := s.active()
	switch diff := len(active) - s.Set.Replicas; {
	case diff < 0:
		n.Make = min(-diff, burst)
	case diff > 0:
		slices.SortFunc(active, firstToGo)
		n.Remove = active[:min(diff, burst)]
	}
	n.Finished = s.pick(func(r contract.ReplicaObservation) bool {
		return s.mine(r) && (r.Ended() || r.Terminating) && !r.Deleting && !s.going(r)
	})
	n.Finished = n.Finished[:min(len(n.Finished), burst)]
	return n
}

// firstToGo orders replicas by how little is lost with them: those whose guest does not run yet, then those that are
// not ready, then the youngest. KubeVirt removes in no particular order.
func firstToGo(a, b contract.ReplicaObservation) int {
	return cmp.Or(
		cmp.Compare(progress(a), progress(b)),
		b.Created.Compare(a.Created),
		cmp.Compare(b.Ordinal, a.Ordinal),
		cmp.Compare(a.UID, b.UID),
	)
}

func progress(r contract.ReplicaObservation) int {
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

// claims are instances to be adopted, and those to be released.
func (s *State) claims() (adopt, release []contract.ReplicaObservation) {
	for _, r := range s.Replicas {
		switch {
		case r.Deleting:
		case r.OwnerUID == "" && r.Matches:
			adopt = append(adopt, r)
		case s.mine(r) && !r.Matches:
			release = append(release, r)
		}
	}
	return adopt[:min(len(adopt), claimBatch)], release[:min(len(release), claimBatch)]
}

// claimBatch is how many instances are adopted, or released, by one call.
const claimBatch = 10

// progress is how far the open transition is, as observed.
func (s *State) progress() contract.ReplicateProgress {
	t := s.Open
	var p contract.ReplicateProgress
	left := 0
	for _, r := range s.Replicas {
		switch {
		case s.going(r):
			left++
		case s.counts(r) && r.Ordinal >= t.From && r.Ordinal < t.From+t.Make && r.Phase == "Running":
			p.Running++
		}
	}
	p.Gone = len(t.Remove) + len(t.Finished) - left
	p.Done = p.Running == t.Make && left == 0
	return p
}

// settled says that all instances that the open transition makes have been observed, and that those it deletes are
// going: what there is now is what it has led to.
func (s *State) settled() bool {
	if len(s.Open.Unseen) > 0 {
		return false
	}
	return !slices.ContainsFunc(s.Replicas, func(r contract.ReplicaObservation) bool {
		return s.going(r) && !r.Deleting
	})
}

// hopeless says that a replica is to be replaced which never ran, and that the pause after it is not over.
func (s *State) hopeless(n needs, now time.Time) bool {
	return n.Make > 0 && now.Before(s.CrashLoopUntil) && slices.ContainsFunc(n.Finished, neverRan)
}

func neverRan(r contract.ReplicaObservation) bool { return !r.EverRan }
