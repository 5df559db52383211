package restore

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecide(t *testing.T) {
	none := Token{}
	at := func(epoch, counter int64) Token { return Token{Epoch: epoch, Counter: counter} }
	for name, c := range map[string]struct {
		temporal, kubernetes, seen Token
		want                       Result
	}{
		"both are new":                        {none, none, none, Result{Next: at(1, 1)}},
		"ended between the very first writes": {at(1, 1), none, none, Result{Next: at(1, 1)}},
		"all is well":                         {at(1, 7), at(1, 7), at(1, 7), Result{Next: at(1, 8)}},
		"a new leader":                        {at(1, 7), at(1, 7), none, Result{Next: at(1, 8)}},
		"another led in between":              {at(1, 9), at(1, 9), at(1, 7), Result{Next: at(1, 10)}},
		"ended between the two writes":        {at(1, 8), at(1, 7), none, Result{Next: at(1, 8)}},
		"Temporal is older by one":            {at(1, 6), at(1, 7), none, Result{Next: at(2, 1), Temporal: true}},
		"Temporal is empty":                   {none, at(1, 7), at(1, 7), Result{Next: at(2, 1), Temporal: true}},
		"Temporal is of an earlier epoch":     {at(1, 99), at(3, 7), none, Result{Next: at(4, 1), Temporal: true}},
		"etcd is older": {at(1, 9), at(1, 7), none,
			Result{Next: at(2, 1), Kubernetes: true}},
		"etcd is older by one, which was seen": {at(1, 8), at(1, 7), at(1, 8),
			Result{Next: at(2, 1), Kubernetes: true}},
		"the Lease was deleted": {at(3, 8), none, none, Result{Next: at(4, 1), Kubernetes: true}},
		"ended while it began an epoch": {at(2, 1), at(1, 7), none,
			Result{Next: at(3, 1), Kubernetes: true}},
		"both are older, equally": {at(1, 5), at(1, 5), at(1, 9),
			Result{Next: at(2, 1), Temporal: true, Kubernetes: true}},
		"both are older, and of an earlier epoch": {at(1, 5), at(1, 5), at(4, 1),
			Result{Next: at(5, 1), Temporal: true, Kubernetes: true}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, Decide(c.temporal, c.kubernetes, c.seen, false)) })
	}
	require.Equal(t, Result{Next: at(2, 1), Kubernetes: true}, Decide(at(1, 7), at(1, 7), at(1, 7), true),
		"an informer received an older version")
}

// sides are the two tokens, with every value that each has had.
type sides struct {
	temporal, kubernetes           Token
	temporalCopies, kubernetesCopy []Token
}

// look is what Detector.Check does, up to so many writes.
func (s *sides) look(seen Token, writes int) Result {
	for {
		v := Decide(s.temporal, s.kubernetes, seen, false)
		halfway := v.Next == s.temporal
		if !halfway && writes > 0 {
			s.temporalCopies = append(s.temporalCopies, s.temporal)
			s.temporal = v.Next
			writes--
		}
		if writes > 0 {
			s.kubernetesCopy = append(s.kubernetesCopy, s.kubernetes)
			s.kubernetes = v.Next
			writes--
		}
		if !halfway || writes == 0 {
			return v
		}
	}
}

// whole is as many writes as a look can have.
const whole = 3

// TestChecksInterruptedAtEveryPoint: checks end after any number of writes, two in a row; then possibly one side is
// restored to any earlier value; then a check is complete. A restore is detected, or its copy is younger than the last
// complete check; without a restore no epoch begins; and epochs never run backwards.
func TestChecksInterruptedAtEveryPoint(t *testing.T) {
	const looks = 4
	cases := 0
	for before := range looks {
		for writes := range whole + 1 {
			for again := range whole + 1 {
				for _, side := range []string{"none", "temporal", "kubernetes"} {
					for copied := range looks + 4 {
						name := fmt.Sprintf("%d looks, %d writes, %d writes, %s put back to copy %d", before, writes,
							again, side, copied)
						s := &sides{}
						for range before {
							s.look(Token{}, whole)
						}
						complete := s.kubernetes
						s.look(Token{}, writes)
						s.look(Token{}, again)
						putBack := Token{}
						switch {
						case side == "none" && copied == 0:
						case side == "temporal" && copied < len(s.temporalCopies):
							putBack, s.temporal = s.temporal, s.temporalCopies[copied]
						case side == "kubernetes" && copied < len(s.kubernetesCopy):
							putBack, s.kubernetes = s.kubernetes, s.kubernetesCopy[copied]
						default:
							continue
						}
						cases++
						at := s.temporal
						v := s.look(Token{}, whole)
						require.Equal(t, s.temporal, s.kubernetes, name)
						require.Positive(t, s.temporal.Compare(complete), name)
						require.Positive(t, s.temporal.Compare(at),
							name+": a copy from before a complete look is older than it")
						switch {
						case putBack == Token{}:
							require.False(t, v.IsRestored(), name)
						case side == "temporal" && s.temporalCopies[copied].Compare(complete) < 0:
							require.True(t, v.Temporal, name)
						case side == "kubernetes" && s.kubernetesCopy[copied].Next().Compare(putBack) < 0:
							require.True(t, v.Kubernetes, name)
						}
						if v.IsRestored() {
							require.Greater(t, s.temporal.Epoch, complete.Epoch, name)
						}
					}
				}
			}
		}
	}
	require.Greater(t, cases, 300)
}

// TestEpochBegunOnOneSide: the next leader detects an epoch that was begun on one side only, whichever side was older,
// and everything is sent again.
func TestEpochBegunOnOneSide(t *testing.T) {
	for name, s := range map[string]sides{
		"Temporal was older": {temporal: Token{Epoch: 1, Counter: 3}, kubernetes: Token{Epoch: 1, Counter: 7}},
		"etcd was older":     {temporal: Token{Epoch: 1, Counter: 7}, kubernetes: Token{Epoch: 1, Counter: 3}},
		"Temporal was empty": {kubernetes: Token{Epoch: 1, Counter: 7}},
		"the Lease was gone": {temporal: Token{Epoch: 1, Counter: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			first := s.look(Token{}, 1)
			require.True(t, first.IsRestored())
			second := s.look(Token{}, whole)
			require.True(t, second.IsRestored())
			require.Equal(t, s.temporal, s.kubernetes)
			require.Greater(t, s.temporal.Epoch, int64(1))
			require.False(t, s.look(Token{}, whole).IsRestored())
		})
	}
}
