package places_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/workers/node/access/places"
)

func TestEachOwnerHasItsShare(t *testing.T) {
	var p places.Places
	take := func(user, namespace string) (func(), error) {
		return p.Take(4, places.Share{Of: "user " + user, Most: 2}, places.Share{Of: "namespace " + namespace, Most: 3})
	}
	first, err := take("anna", "a")
	require.NoError(t, err)
	_, err = take("anna", "a")
	require.NoError(t, err)
	full := &places.FullError{}
	_, err = take("anna", "b")
	require.ErrorAs(t, err, &full)
	require.Equal(t, places.FullError{Of: "user anna", Taken: 2}, *full)
	_, err = take("otto", "a")
	require.NoError(t, err)
	_, err = take("otto", "a")
	require.ErrorAs(t, err, &full)
	require.Equal(t, places.FullError{Of: "namespace a", Taken: 3}, *full, "another user of a namespace that is full")
	_, err = take("otto", "b")
	require.NoError(t, err)
	_, err = take("uma", "c")
	require.ErrorAs(t, err, &full)
	require.Equal(t, places.FullError{Taken: 4}, *full)
	first()
	_, err = take("anna", "a")
	require.NoError(t, err, "who leaves makes room")
	require.Equal(t, []int{1, 1, 64}, []int{places.Quarter(0), places.Quarter(3), places.Quarter(256)})
}
