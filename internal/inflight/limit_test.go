package inflight_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/internal/inflight"
)

func TestEachOwnerHasItsQuota(t *testing.T) {
	var p inflight.Limit
	take := func(user, namespace string) (func(), error) {
		return p.Acquire(4, inflight.Quota{Owner: "user " + user, Max: 2},
			inflight.Quota{Owner: "namespace " + namespace, Max: 3})
	}
	first, err := take("anna", "a")
	require.NoError(t, err)
	_, err = take("anna", "a")
	require.NoError(t, err)
	full := &inflight.ExceededError{}
	_, err = take("anna", "b")
	require.ErrorAs(t, err, &full)
	require.Equal(t, inflight.ExceededError{Owner: "user anna", InFlight: 2}, *full)
	_, err = take("otto", "a")
	require.NoError(t, err)
	_, err = take("otto", "a")
	require.ErrorAs(t, err, &full)
	require.Equal(t, inflight.ExceededError{Owner: "namespace a", InFlight: 3}, *full,
		"another user of a namespace that is full")
	_, err = take("otto", "b")
	require.NoError(t, err)
	_, err = take("uma", "c")
	require.ErrorAs(t, err, &full)
	require.Equal(t, inflight.ExceededError{InFlight: 4}, *full)
	first()
	_, err = take("anna", "a")
	require.NoError(t, err, "what is released can be acquired again")
}

// TestGreedyOwnersLeaveSome: each of several greedy owners leaves a part to the next, which gets less than the one
// before.
func TestGreedyOwnersLeaveSome(t *testing.T) {
	const limit = 1000
	var p inflight.Limit
	take := func(owner int) (n int) {
		for {
			if _, err := p.Acquire(limit, inflight.Quota{Owner: fmt.Sprint(owner)}); err != nil {
				return n
			}
			n++
		}
	}
	require.Equal(t, []int{200, 160, 128, 102}, []int{take(1), take(2), take(3), take(4)})
	for owner := range 16 {
		require.Positive(t, take(100+owner))
	}
	require.Positive(t, take(200), "the 21st")
	one := inflight.Limit{}
	_, err := one.Acquire(1, inflight.Quota{Owner: "a"})
	require.NoError(t, err)
}
