package inflight_test

import (
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
	require.Equal(t, []int{1, 1, 64}, []int{inflight.Quarter(0), inflight.Quarter(3), inflight.Quarter(256)})
}
