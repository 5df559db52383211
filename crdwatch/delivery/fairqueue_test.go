package delivery

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// all pops everything.
func (t *fairQueue) all() (out []string) {
	for t.Len() > 0 {
		out = append(out, t.Pop())
	}
	return out
}

func TestServesNamespacesInTurn(t *testing.T) {
	t.Parallel()
	q := &fairQueue{hasChange: func(string) bool { return true }}
	for i := range 4 {
		q.Push(fmt.Sprintf("vm/many/%d", i))
	}
	require.Equal(t, "vm/many/0", q.Pop())
	for _, w := range []string{"vm/one/a", "node/node1", "migrations", "vmi/one/a"} {
		q.Push(w)
	}
	require.Equal(t, 7, q.Len())
	require.Equal(t, []string{"vm/many/1", "vm/one/a", "node/node1", "migrations", "vm/many/2", "vmi/one/a",
		"vm/many/3"}, q.all())
	q.Push("vm/many/4")
	require.Equal(t, []string{"vm/many/4"}, q.all(), "it is empty in between")
}

func TestTouchMovesChangeAhead(t *testing.T) {
	t.Parallel()
	changed := map[string]bool{}
	q := &fairQueue{hasChange: func(w string) bool { return changed[w] }}
	for _, w := range []string{"vm/a/1", "vm/a/2", "vm/b/1"} {
		q.Push(w)
	}
	changed["vm/c/1"] = true
	q.Push("vm/c/1")
	q.Touch("vm/a/2") // nothing has changed
	changed["vm/b/1"], changed["vm/a/2"] = true, true
	q.Touch("vm/b/1")
	q.Touch("vm/c/1") // it is ahead already
	q.Touch("vm/d/1") // it is not there
	require.Equal(t, 4, q.Len())
	require.Equal(t, []string{"vm/c/1", "vm/b/1", "vm/a/1", "vm/a/2"}, q.all())
}
