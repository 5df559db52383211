package guests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func found(names ...string) []contract.Movable {
	var out []contract.Movable
	for _, name := range names {
		out = append(out, contract.Movable{VMI: contract.Object{Namespace: "ns", Name: name, UID: name}})
	}
	return out
}

func waits(g *Guest) (Standing, string) {
	if g.Refused != "" {
		return Blocked, g.Refused
	}
	return Waiting, "its turn"
}

func all(*Guest) bool { return true }

// TestListIsNeverChanged: its methods return another list.
func TestListIsNeverChanged(t *testing.T) {
	before, _ := List(nil).FoldFound(now, found("a", "b"), 0, waits)
	refused := before.RecordRefused(now, "a", "a quota")
	require.Equal(t, Waiting, before.Find("a").Standing)
	require.Equal(t, Blocked, refused.Find("a").Standing)
	evicted := refused.RecordEvicted(now, "a", waits)
	require.Equal(t, []Standing{Blocked, Leaving}, []Standing{refused[0].Standing, evicted[0].Standing})
	hurried := refused.EndBackOffs()
	require.True(t, refused.BacksOff())
	require.False(t, hurried.BacksOff())
	require.Nil(t, before.Find("c"))
	require.Equal(t, refused, refused.RecordRefused(now, "c", "it is not there"))
}

// The back-off of a refused guest is longer each time, until it has a migration. The time of its standing stays.
func TestRefusedGuestBacksOff(t *testing.T) {
	l, _ := List(nil).FoldFound(now, found("a", "b"), 0, waits)
	for _, pause := range []time.Duration{10 * time.Second, 10 * time.Second, 10 * time.Second, 10 * time.Second,
		16 * time.Second} {
		l = l.RecordRefused(now, "a", "a quota")
		chosen, at := l.Next(now, 9, all)
		require.Equal(t, found("b"), chosen)
		require.Equal(t, now.Add(pause), at)
	}
	later := now.Add(time.Hour)
	l, gone := l.FoldFound(later, found("a"), 0, waits)
	require.Equal(t, now, l[0].Since)
	require.Equal(t, 5, l[0].Tries)
	require.Equal(t, "b", gone[0].VMI.Name)
	moves := found("a")
	moves[0].Migration.UID = "m"
	l, _ = l.FoldFound(later, moves, 0, waits)
	require.Zero(t, l[0].Tries)
	require.Equal(t, later, l[0].Since)
}

// TestKeepsIdleGuestsBeyondLimit: with more guests than were found, only those that were leaving are gone.
func TestKeepsIdleGuestsBeyondLimit(t *testing.T) {
	moves := found("moves", "idles", "fails", "refused", "boots")
	moves[0].Migration.UID, moves[2].Failures = "m", 1
	for i := range moves[:4] {
		moves[i].Running = true
	}
	l, _ := List(nil).FoldFound(now, moves, 1, func(g *Guest) (Standing, string) {
		if g.Migration.UID != "" {
			return Migrating, "by m"
		}
		return waits(g)
	})
	l = l.RecordRefused(now, "refused", "a quota")
	require.Equal(t, contract.Priority{Leaving: []string{"moves"}}, l.Priority(0))
	require.Equal(t, contract.Priority{Leaving: []string{"moves"}, Stuck: []string{"fails", "refused", "boots"}},
		l.Priority(1))
	_, gone := l.FoldFound(now, nil, 1, waits)
	require.Len(t, gone, 1)
	require.Equal(t, "moves", gone[0].VMI.Name)
	_, gone = l.FoldFound(now, nil, 0, waits)
	require.Len(t, gone, 5)
}

// TestFailedGuestComesLater: a guest that no node accepts delays no other.
func TestFailedGuestComesLater(t *testing.T) {
	three := found("a", "b", "c")
	three[0].Failures, three[0].LastFailure = 1, now.Add(-time.Hour)
	l, _ := List(nil).FoldFound(now, three, 0, waits)
	chosen, at := l.Next(now, 2, all)
	require.Equal(t, found("b", "c"), chosen)
	require.Zero(t, at)
	chosen, _ = l.Next(now, 3, all)
	require.Equal(t, []contract.Movable{three[1], three[2], three[0]}, chosen)
	chosen, _ = l.Next(now, -1, all)
	require.Empty(t, chosen)
}

// A guest that still runs is evicted again after a while: a restore of etcd may have brought its pod back.
func TestEvictsRunningGuestAgain(t *testing.T) {
	there := found("a")
	there[0].Running = true
	judge := func(g *Guest) (Standing, string) {
		if g.Evicted {
			return Leaving, "evicted"
		}
		return Waiting, "its turn"
	}
	l, _ := List(nil).FoldFound(now, there, 0, judge)
	l = l.RecordEvicted(now, "a", judge)
	l, _ = l.FoldFound(now.Add(evictAgainAfter-time.Second), there, 0, judge)
	require.True(t, l[0].Evicted)
	again, _ := l.FoldFound(now.Add(evictAgainAfter), there, 0, judge)
	require.Equal(t, Waiting, again[0].Standing)
	there[0].Running = false
	again, _ = l.FoldFound(now.Add(evictAgainAfter), there, 0, judge)
	require.True(t, again[0].Evicted, "it is on its way out")
}
