package fencing

import "github.com/virtflow/virtflow/workflows/contract"

// Token is the fencing token.
type Token = contract.FencingToken

// Verdict is what follows from a look at both sides.
type Verdict struct {
	// Next is the token to write to Temporal, then to Kubernetes. Where Temporal has it already, an earlier look ended
	// between its two writes: then both sides are looked at again.
	Next Token
	// Temporal and Kubernetes say that this side is an older copy: Next begins an epoch.
	Temporal, Kubernetes bool
}

// Older says that either side is an older copy.
func (v Verdict) Older() bool { return v.Temporal || v.Kubernetes }

// Decide compares the tokens of both sides, the zero token where there is none, and with the greatest one that this
// process has seen on both. Older: its informers were told of objects that are older than those that they held.
func Decide(temporal, kubernetes, seen Token, older bool) Verdict {
	v := Verdict{
		Next:     temporal.Next(),
		Temporal: temporal.Compare(kubernetes) < 0 || temporal.Compare(seen) < 0,
		Kubernetes: temporal.Compare(kubernetes) > 0 && temporal != kubernetes.Next() || kubernetes.Compare(seen) < 0 ||
			older,
	}
	switch {
	case v.Older():
		v.Next = Token{Epoch: max(temporal.Epoch, kubernetes.Epoch, seen.Epoch) + 1, Counter: 1}
	case temporal == kubernetes.Next():
		v.Next = temporal
	}
	return v
}
