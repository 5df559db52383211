package drain

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/guests"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// guest is a running one that is marked and can be moved.
func guest(name string, change ...func(*contract.Movable)) contract.Movable {
	e := contract.Movable{VMI: contract.Object{Namespace: "ns", Name: name, UID: name}, Strategy: "LiveMigrate",
		Marked: true, Migratable: true, Running: true}
	for _, c := range change {
		c(&e)
	}
	return e
}

func strategy(s string) func(*contract.Movable) {
	return func(e *contract.Movable) { e.Strategy = s }
}

func fixed(e *contract.Movable) { e.Migratable, e.Why = false, "it bridges" }

func moving(e *contract.Movable) {
	e.Migration, e.Evacuates = contract.Object{Namespace: "ns", Name: "m-" + e.VMI.Name, UID: "m-" + e.VMI.UID}, true
}

func idle(e *contract.Movable) { e.Running = false }

func failed(n int, ago time.Duration) func(*contract.Movable) {
	return func(e *contract.Movable) { e.Failures, e.LastFailure = n, now.Add(-ago) }
}

func stateWith(scope contract.DrainScope, guests ...contract.Movable) *State {
	s := &State{Node: "n", Scope: scope}
	s.foldGuests(now, contract.FindEvacueesResult{Evacuees: guests, Outbound: 2})
	return s
}

func TestStandings(t *testing.T) {
	const marked, all = contract.ScopeMarked, contract.ScopeAll
	for name, c := range map[string]struct {
		scope contract.DrainScope
		guest contract.Movable
		want  guests.Standing
	}{
		"migratable":                     {marked, guest("a"), guests.Waiting},
		"migratable if possible":         {all, guest("a", strategy("LiveMigrateIfPossible")), guests.Waiting},
		"boots":                          {marked, guest("a", idle), guests.Waiting},
		"boots, and it is not known yet": {marked, guest("a", fixed, idle), guests.Waiting},
		"moves":                          {marked, guest("a", moving), guests.Migrating},
		"moves, although its strategy forbids it": {all, guest("a", strategy("None"), moving), guests.Migrating},
		"cannot move": {all, guest("a", fixed), guests.Blocked},
		"goes": {all, guest("a", func(e *contract.Movable) {
			e.Deleting = true
		}), guests.Leaving},
		"external":         {all, guest("a", strategy("External")), guests.Others},
		"none":             {all, guest("a", strategy("None")), guests.Waiting},
		"unset":            {all, guest("a", strategy("")), guests.Waiting},
		"none, and marked": {marked, guest("a", strategy("None")), guests.Others},
		"cannot move, if possible": {all, guest("a", fixed, strategy("LiveMigrateIfPossible")),
			guests.Waiting},
		"cannot move any more, if possible": {marked, guest("a", fixed, strategy("LiveMigrateIfPossible")), guests.Others},
	} {
		t.Run(name, func(t *testing.T) {
			g := stateWith(c.scope, c.guest).Guests[0]
			require.Equal(t, c.want, g.Standing, g.Reason)
			require.NotEmpty(t, g.Reason)
			require.Equal(t, now, g.Since)
		})
	}
}

func names(chosen []contract.Movable) []string {
	var out []string
	for _, e := range chosen {
		out = append(out, e.VMI.Name)
	}
	return out
}

func TestMovable(t *testing.T) {
	for name, c := range map[string]struct {
		guests      []contract.Movable
		parallelism int
		want        []string
		at          time.Duration // from now; 0: never
	}{
		"as many as a node may send": {guests: []contract.Movable{guest("a"), guest("b"), guest("c")},
			want: []string{"a", "b"}},
		"as many as was asked for": {guests: []contract.Movable{guest("a"), guest("b"), guest("c")}, parallelism: 1,
			want: []string{"a"}},
		"one moves": {guests: []contract.Movable{guest("a", moving), guest("b"), guest("c")}, want: []string{"b"}},
		"two move":  {guests: []contract.Movable{guest("a", moving), guest("b", moving), guest("c")}},
		"not those that boot": {guests: []contract.Movable{guest("a", idle), guest("b")},
			want: []string{"b"}},
		"not those that cannot": {guests: []contract.Movable{guest("a", fixed), guest("b", strategy("External")),
			guest("c", strategy("None")), guest("d")}, want: []string{"d"}},
		"one failed a moment ago": {guests: []contract.Movable{guest("a", failed(1, 5*time.Second)), guest("b")},
			want: []string{"b"}, at: 15 * time.Second},
		"one failed a while ago, and comes after the rest": {
			guests: []contract.Movable{guest("a", failed(1, 20*time.Second)), guest("b")}, want: []string{"b", "a"}},
		"one failed again and again": {guests: []contract.Movable{guest("a", failed(9, time.Minute))},
			at: 260 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := stateWith(contract.ScopeMarked, c.guests...)
			s.Parallelism = c.parallelism
			chosen, at := s.movable(now)
			require.Equal(t, c.want, names(chosen))
			if c.at != 0 {
				require.Equal(t, now.Add(c.at), at)
			} else {
				require.Zero(t, at)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	const marked, all = contract.ScopeMarked, contract.ScopeAll
	for name, c := range map[string]struct {
		state  *State
		change func(*State)
		want   entity.Action
		object string
		wake   time.Duration // from now; 0: never
	}{
		"at first":         {state: &State{}, want: entity.ActRead},
		"no guest is left": {state: stateWith(marked), want: entity.ActFinish},
		"only others' are left": {state: stateWith(all, guest("a", strategy("External"))),
			want: entity.ActFinish},
		"there are more": {state: stateWith(all), change: func(s *State) { s.More = 1 }, wake: lookWhileIdle},
		"the node is gone": {state: stateWith(all, guest("a")), change: func(s *State) { s.Gone = true },
			want: entity.ActFinish},
		"a guest waits": {state: stateWith(marked, guest("a")), want: actMigrate},
		"paused": {state: stateWith(marked, guest("a")), change: func(s *State) { s.Paused = &Request{} },
			wake: lookWhileIdle},
		"paused, and one moves": {state: stateWith(marked, guest("a", moving), guest("b")),
			change: func(s *State) { s.Paused = &Request{} }, wake: lookWhileMoving},
		"one moves": {state: stateWith(marked, guest("a", moving)), wake: lookWhileMoving},
		"something has changed": {state: stateWith(marked, guest("a")), change: func(s *State) {
			s.Stale = true
		}, want: entity.ActRead},
		"no guest can move":     {state: stateWith(marked, guest("a", fixed)), wake: lookWhileIdle},
		"one backs off":         {state: stateWith(marked, guest("a", failed(1, 0))), wake: 20 * time.Second},
		"none are evicted last": {state: stateWith(all, guest("a"), guest("b", strategy("None"))), want: actMigrate},
		"none wait for moves": {state: stateWith(all, guest("a", moving), guest("b", strategy("None"))),
			wake: lookWhileMoving},
		"none wait for back-offs": {state: stateWith(all, guest("a", failed(1, 0)), guest("b", strategy("None"))),
			wake: 20 * time.Second},
		"none do not wait for what is blocked": {state: stateWith(all, guest("a", fixed), guest("b", strategy("None"))),
			want: actEvict, object: "b"},
		"none one after the other": {state: stateWith(all, guest("a", strategy("None")), guest("b", strategy("None"))),
			change: func(s *State) { s.Guests[0].Evicted, s.Guests[0].Standing = true, guests.Leaving },
			wake:   lookWhileMoving},
		"none that a budget protects": {state: stateWith(all, guest("a", strategy("None"))),
			change: func(s *State) { s.Guests = s.Guests.RecordRefused(now, "a", "a budget") }, wake: 10 * time.Second},
		"none behind one that a budget protects": {
			state:  stateWith(all, guest("a", strategy("None")), guest("b", strategy("None"))),
			change: func(s *State) { s.Guests = s.Guests.RecordRefused(now, "a", "a budget") },
			want:   actEvict, object: "b"},
		"cancelled": {state: stateWith(marked, guest("a", moving)), change: func(s *State) { s.cancel(Request{}) },
			want: entity.ActRead},
		"cancelled, and looked": {state: stateWith(marked, guest("a", moving)), change: func(s *State) {
			s.cancel(Request{})
			s.Stale = false
		}, want: actDelete},
		"cancelled, its migrations deleted": {state: stateWith(marked, guest("a", moving)), change: func(s *State) {
			s.cancel(Request{})
			s.Stale, s.Deleted = false, true
		}, want: actClear},
		"cancelled, all done": {state: stateWith(marked, guest("a", moving)), change: func(s *State) {
			s.cancel(Request{})
			s.Stale, s.Deleted, s.Cleared = false, true, true
		}, want: entity.ActFinish},
		"cancelled, others' stay marked": {state: stateWith(all, guest("a", strategy("External"))),
			change: func(s *State) {
				s.cancel(Request{})
				s.Stale = false
			}, want: entity.ActFinish},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change != nil {
				c.change(c.state)
			}
			d := c.state.decide(now)
			require.Equal(t, c.want, d.Action, "%+v", d)
			require.Equal(t, c.object, d.Object)
			if c.want != entity.ActNone {
				require.NotEmpty(t, d.Why)
				return
			}
			require.NotEmpty(t, d.Waiting)
			require.Equal(t, c.wake, d.WakeAt.Sub(now))
		})
	}
}

// Guests that have left are counted by the standing that each had before.
func TestCountsHowGuestsLeft(t *testing.T) {
	s := stateWith(contract.ScopeAll, guest("a", moving), guest("b", strategy("None")), guest("c"), guest("d", fixed))
	s.Guests[1].Evicted = true
	later := now.Add(time.Minute)
	s.foldGuests(later, contract.FindEvacueesResult{Evacuees: []contract.Movable{guest("d", fixed)}})
	require.Equal(t, []int{1, 1, 1}, []int{s.Moved, s.Evicted, s.Left})
	require.Len(t, s.Guests, 1)
	require.Equal(t, now, s.Guests[0].Since, "it is blocked since then")
	require.Equal(t, "1 moved, 1 evicted, 1 left in other ways, 1 blocked.", s.summary())
}

func TestRetriesRefusal(t *testing.T) {
	s := stateWith(contract.ScopeMarked, guest("a"))
	s.Guests = s.Guests.RecordRefused(now, "a", "quota")
	require.Equal(t, guests.Blocked, s.Guests[0].Standing)
	require.Equal(t, actMigrate, s.decide(now.Add(10*time.Second)).Action)
	s.foldGuests(now, contract.FindEvacueesResult{Evacuees: []contract.Movable{guest("a")}})
	require.Equal(t, "quota", s.Guests[0].Reason)
	s.foldGuests(now, contract.FindEvacueesResult{Evacuees: []contract.Movable{guest("a", moving)}})
	require.Equal(t, guests.Migrating, s.Guests[0].Standing)
	require.Zero(t, s.Guests[0].Tries)
}

func TestPersonEndsBackOff(t *testing.T) {
	s := stateWith(contract.ScopeMarked, guest("a", failed(3, 0)))
	require.True(t, s.Guests.BacksOff())
	s.endBackOffs(now)
	s.Stale = false
	require.False(t, s.Guests.BacksOff())
	require.Equal(t, actMigrate, s.decide(now).Action)
	s.foldGuests(now, contract.FindEvacueesResult{Evacuees: []contract.Movable{guest("a", failed(4, 0))}, Outbound: 2})
	require.True(t, s.Guests.BacksOff(), "it has failed again")
}

func TestScopeFollowsNode(t *testing.T) {
	s := stateWith(contract.ScopeMarked, guest("a"))
	s.observe(contract.DrainProgress{Scope: contract.ScopeMarked})
	require.False(t, s.Stale)
	s.observe(contract.DrainProgress{Scope: contract.ScopeAll, Parallelism: 3, Marked: 2})
	require.True(t, s.Stale)
	require.Equal(t, contract.ScopeAll, s.Scope)
	stays := func(e *contract.Movable) { e.Marked = false }
	s.foldGuests(now, contract.FindEvacueesResult{Evacuees: []contract.Movable{guest("a"), guest("b", stays, fixed),
		guest("c", stays, strategy("None"))}})
	s.observe(contract.DrainProgress{Scope: contract.ScopeMarked, Marked: 2})
	require.Equal(t, contract.ScopeMarked, s.Scope)
	require.Equal(t, 3, s.Parallelism)
	require.Equal(t, entity.ActRead, s.decide(now).Action)
	s.foldGuests(now, contract.FindEvacueesResult{})
	require.Equal(t, entity.ActFinish, s.decide(now).Action)
	require.Equal(t, contract.DrainResult{Scope: contract.ScopeMarked, Left: 1,
		Summary: "The node is neither tainted nor cordoned any more, so other guests stay: 0 moved, 1 left in " +
			"other ways."}, s.result(), "those that stay have not left")
}
