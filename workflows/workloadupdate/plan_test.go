package workloadupdate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/guests"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// guest is a running one in an outdated launcher that can be moved.
func guest(name string, change ...func(*contract.Movable)) contract.Movable {
	m := contract.Movable{VMI: contract.Object{Namespace: "ns", Name: name, UID: name}, Migratable: true, Running: true}
	for _, c := range change {
		c(&m)
	}
	return m
}

func fixed(m *contract.Movable) { m.Migratable, m.Why = false, "it bridges" }

func moving(m *contract.Movable) {
	m.Migration = contract.Object{Name: "m-" + m.VMI.Name, UID: "m-" + m.VMI.UID}
}

func boots(m *contract.Movable) { m.Running = false }

func failed(n int, ago time.Duration) func(*contract.Movable) {
	return func(m *contract.Movable) { m.Failures, m.LastFailure = n, now.Add(-ago) }
}

func none() contract.UpdateStrategy {
	return contract.UpdateStrategy{Limit: 2, Batch: 2, IntervalSeconds: 60}
}

func migrate() contract.UpdateStrategy { s := none(); s.Migrate = true; return s }

func evict() contract.UpdateStrategy { s := none(); s.Evict = true; return s }

func both() contract.UpdateStrategy { s := migrate(); s.Evict = true; return s }

// stateWith returns the state after a read of all instances has found these.
func stateWith(u contract.UpdateStrategy, found ...contract.Movable) *State {
	s := &State{Observed: contract.OutdatedObservation{Image: "new", Outdated: len(found)}}
	s.foldInstances(now, true, contract.FindOutdatedResult{Instances: found, Strategy: u})
	return s
}

func names(chosen []contract.Movable) []string {
	var out []string
	for _, m := range chosen {
		out = append(out, m.VMI.Name)
	}
	return out
}

// younger is one that was started when the release was everywhere.
func younger(m *contract.Movable) { m.Created = now }

func TestStandings(t *testing.T) {
	goes := func(m *contract.Movable) { m.Deleting = true }
	for name, c := range map[string]struct {
		strategy contract.UpdateStrategy
		guest    contract.Movable
		want     guests.Standing
	}{
		"moves next":                   {migrate(), guest("a"), guests.Waiting},
		"boots":                        {migrate(), guest("a", boots), guests.Waiting},
		"moves":                        {migrate(), guest("a", moving), guests.Migrating},
		"moves though nothing is done": {none(), guest("a", moving), guests.Migrating},
		"cannot be moved":              {migrate(), guest("a", fixed), guests.Blocked},
		"cannot be moved, is evicted":  {both(), guest("a", fixed), guests.Waiting},
		"can be moved, and is not":     {evict(), guest("a"), guests.Waiting},
		"started since the release":    {evict(), guest("a", younger), guests.Blocked},
		"started since, can be moved":  {both(), guest("a", younger), guests.Waiting},
		"nothing is done":              {none(), guest("a"), guests.Others},
		"goes":                         {none(), guest("a", goes), guests.Leaving},
	} {
		t.Run(name, func(t *testing.T) {
			g := stateWith(c.strategy, c.guest).Guests[0]
			require.Equal(t, c.want, g.Standing, g.Reason)
			require.NotEmpty(t, g.Reason)
		})
	}
}

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		state  *State
		change func(*State)
		want   entity.Action
		who    []string
		wake   time.Duration // from now; 0: never
	}{
		"at first":                {state: &State{}},
		"the image is known":      {state: &State{Observed: contract.OutdatedObservation{Image: "new"}}, want: entity.ActRead},
		"no launcher is outdated": {state: stateWith(migrate()), want: entity.ActFinish},
		"none with the label is outdated": {state: stateWith(migrate(), guest("a", moving)), change: func(s *State) {
			s.foldInstances(now, false, contract.FindOutdatedResult{})
		}, want: entity.ActRead},
		"there are more": {state: stateWith(none()), change: func(s *State) { s.More = 1 }, wake: lookWhileIdle},
		"two at a time": {state: stateWith(migrate(), guest("a"), guest("b"), guest("c")), want: actMove,
			who: []string{"a", "b"}},
		"one moves": {state: stateWith(migrate(), guest("a", moving), guest("b"), guest("c")), want: actMove,
			who: []string{"b"}},
		"two move": {state: stateWith(migrate(), guest("a", moving), guest("b", moving), guest("c")),
			wake: lookWhileMoving},
		"nothing is done": {state: stateWith(none(), guest("a")), wake: lookWhileIdle},
		"one boots":       {state: stateWith(migrate(), guest("a", boots)), wake: lookWhileWaiting},
		"one failed a moment ago": {state: stateWith(migrate(), guest("a", failed(1, 5*time.Second))),
			wake: 15 * time.Second},
		"others continue meanwhile": {state: stateWith(migrate(), guest("a", failed(1, 0)), guest("b")), want: actMove,
			who: []string{"b"}},
		"held": {state: stateWith(migrate(), guest("a")), change: func(s *State) { s.Hold = &entity.Hold{} },
			wake: lookWhileIdle},
		"held, and one moves": {state: stateWith(migrate(), guest("a", moving), guest("b")),
			change: func(s *State) { s.Hold = &entity.Hold{} }, wake: lookWhileMoving},
		"a new image settles": {state: stateWith(migrate(), guest("a")), change: func(s *State) {
			s.Settles = now.Add(settleFor)
		}, wake: settleFor},
		"those that cannot be moved stay": {state: stateWith(migrate(), guest("a", fixed)), wake: lookWhileIdle},
		"those that cannot be moved are shut": {state: stateWith(both(), guest("a", fixed)), want: actEvict,
			who: []string{"a"}},
		"moves come first": {state: stateWith(both(), guest("a"), guest("b", fixed)), want: actMove,
			who: []string{"a"}},
		"evictions do not wait for moves": {state: stateWith(both(), guest("a", moving), guest("b", fixed)),
			want: actEvict,
			who:  []string{"b"}},
		"a batch": {state: stateWith(evict(), guest("a"), guest("b", fixed), guest("c")), want: actEvict,
			who: []string{"a", "b"}},
		"one that was started since": {state: stateWith(evict(), guest("a", younger), guest("b")), want: actEvict,
			who: []string{"b"}},
		"a batch at a time": {state: stateWith(evict(), guest("a"), guest("b")), change: func(s *State) {
			s.Batch = now.Add(-20 * time.Second)
		}, wake: 40 * time.Second},
		"the next batch": {state: stateWith(evict(), guest("a")),
			change: func(s *State) { s.Batch = now.Add(-time.Minute) },
			want:   actEvict, who: []string{"a"}},
		"one that a budget protects": {state: stateWith(evict(), guest("a")), change: func(s *State) {
			s.Guests = s.Guests.RecordRefused(now, "a", "a budget")
		}, wake: 10 * time.Second},
		"crdwatch sends an observation": {state: stateWith(none(), guest("a")), change: func(s *State) {
			s.observe(now, contract.OutdatedObservation{Image: "new", Sequence: 7, Outdated: 1})
		}, want: entity.ActRead},
		"crdwatch has observed it before": {state: stateWith(none(), guest("a")), change: func(s *State) {
			s.Observed.Sequence = 7
			s.observe(now, contract.OutdatedObservation{Image: "old", Sequence: 6, Outdated: 5})
			s.observe(now, s.Observed)
		}, wake: lookWhileIdle},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.state
			if c.change != nil {
				c.change(s)
			}
			d := s.decide(now)
			require.Equal(t, c.want, d.Action, "%+v", d)
			switch c.want {
			case entity.ActNone:
				require.NotEmpty(t, d.Waiting)
				if c.wake == 0 {
					require.Zero(t, d.WakeAt)
				} else {
					require.Equal(t, c.wake, d.WakeAt.Sub(now))
				}
			case actMove:
				chosen, _ := s.movable(now)
				require.Equal(t, c.who, names(chosen))
			case actEvict:
				chosen, _ := s.evictable(now)
				require.Equal(t, c.who, names(chosen))
			default:
				require.NotEmpty(t, d.Why)
			}
		})
	}
}

// TestReadsAllOrLabelled: all at first, at intervals, and where fewer have the label than crdwatch has observed.
func TestReadsAllOrLabelled(t *testing.T) {
	require.True(t, (&State{}).lookAtAll(now))
	s := stateWith(migrate(), guest("a", moving), guest("b", moving))
	require.False(t, s.lookAtAll(now.Add(lookWhileMoving)))
	require.True(t, s.lookAtAll(now.Add(lookWhileIdle)))
	look := func(r contract.FindOutdatedResult, whole bool) bool {
		s.foldInstances(now, whole, r)
		return s.Stale && s.lookAtAll(now)
	}
	one := contract.FindOutdatedResult{Instances: []contract.Movable{guest("a")}}
	require.True(t, look(one, false), "crdwatch knows of two")
	require.False(t, look(one, true), "which was not so")
	require.True(t, look(contract.FindOutdatedResult{}, false), "before it ends")
	require.Len(t, s.Guests, 1, "none counts as updated yet")
	one.Unmarked = 3
	require.True(t, look(one, true), "labels are still to be set")
	s.observe(now, contract.OutdatedObservation{Image: "newer", Sequence: 1, Outdated: 1})
	require.Equal(t, now.Add(settleFor), s.Settles)
	require.True(t, s.Stale && s.All)
	s.observe(now, contract.OutdatedObservation{Image: "older", Epoch: 1})
	require.Equal(t, "older", s.Observed.Image, "a newer epoch is believed")
}

// Guests that have left are counted by the standing that each had before.
func TestCountsHowGuestsLeft(t *testing.T) {
	s := stateWith(both(), guest("a", moving), guest("b", fixed), guest("c"), guest("d", fixed))
	s.Guests = s.Guests.RecordEvicted(now, "b", s.standingOf)
	s.foldInstances(now, true, contract.FindOutdatedResult{Instances: []contract.Movable{guest("d", fixed)},
		Strategy: migrate()})
	require.Equal(t, contract.WorkloadUpdateResult{Moved: 1, Evicted: 1, Left: 1,
		Summary: "No launcher is outdated any more: 1 moved, 1 evicted, 1 left in other ways, 1 blocked."}, s.result())
}

func TestPersonEndsBackOff(t *testing.T) {
	s := stateWith(migrate(), guest("a", failed(3, 0)))
	s.Settles = now.Add(settleFor)
	s.endBackOffs(now)
	require.Equal(t, entity.ActRead, s.decide(now).Action)
	s.Stale = false
	require.Equal(t, actMove, s.decide(now).Action)
}
