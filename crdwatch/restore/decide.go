package restore

import "github.com/virtflow/virtflow/contract"

// Token is the fencing token.
type Token = contract.FencingToken

// Result is the outcome of a check of both sides.
type Result struct {
	// Next is the token to write to Temporal, then to Kubernetes. If Temporal has it already, an earlier check ended
	// between its two writes. Then both sides are checked again.
	Next Token
	// Temporal and Kubernetes report whether this side was restored. If so, Next begins an epoch.
	Temporal, Kubernetes bool
}

// IsRestored reports whether either side was restored.
func (v Result) IsRestored() bool { return v.Temporal || v.Kubernetes }

// Decide compares the tokens of both sides, the zero token where there is none, with each other and with the greatest
// one that this process has seen on both. Restored: the informers of this process have received objects that are older
// than those that they held.
func Decide(temporal, kubernetes, seen Token, restored bool) Result {
	v := Result{
		Next:     temporal.Next(),
		Temporal: temporal.Compare(kubernetes) < 0 || temporal.Compare(seen) < 0,
		Kubernetes: temporal.Compare(kubernetes) > 0 && temporal != kubernetes.Next() || kubernetes.Compare(seen) < 0 ||
			restored,
	}
	switch {
	case v.IsRestored():
		v.Next = Token{Epoch: max(temporal.Epoch, kubernetes.Epoch, seen.Epoch) + 1, Counter: 1}
	case temporal == kubernetes.Next():
		v.Next = temporal
	}
	return v
}
