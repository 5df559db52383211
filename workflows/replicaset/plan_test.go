package replicaset

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/waits"
)

const me = "set"

func begin() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func running(name string, age int) contract.ReplicaObservation {
	return contract.ReplicaObservation{
		UID: name, Name: name, ResourceVersion: "1", OwnerUID: me, Matches: true, Phase: "Running", Ready: true,
		EverRan: true,
		Created: begin().Add(-time.Duration(age) * time.Minute),
	}
}

func with(r contract.ReplicaObservation, change func(*contract.ReplicaObservation)) contract.ReplicaObservation {
	change(&r)
	return r
}

// settledState returns a set with that desired number and those replicas; its status is written.
func settledState(want int, replicas ...contract.ReplicaObservation) *State {
	s := &State{
		Object: contract.Object{Namespace: "default", Name: "web", UID: me}, Known: true,
		Set: &contract.ReplicaSetObservation{UID: me, ResourceVersion: "1", Generation: 1, Replicas: want,
			Selector: "app=web"},
	}
	for _, r := range replicas {
		s.observeReplica(r)
	}
	s.written()
	return s
}

func (s *State) written() {
	s.setConditions(begin())
	st := s.status()
	s.Written = &st
}

func names(list []contract.ReplicaObservation) []string {
	var out []string
	for _, r := range list {
		out = append(out, r.Name)
	}
	return out
}

func TestDecide(t *testing.T) {
	three := []contract.ReplicaObservation{running("a", 3), running("b", 2), running("c", 1)}
	ended := with(running("a", 3), func(r *contract.ReplicaObservation) { r.Phase, r.Ready = "Succeeded", false })
	for name, c := range map[string]struct {
		state  *State
		change func(*State)
		want   action
		check  func(*testing.T, *State, decision)
	}{
		"nothing seen yet":  {&State{}, nil, entity.ActNone, nil},
		"as many as wanted": {settledState(3, three...), nil, entity.ActNone, nil},
		"nothing known yet": {settledState(3), func(s *State) { s.Known = false }, actFind, nil},
		"too few": {settledState(5, three...), nil, entity.ActOpen, func(t *testing.T, s *State, d decision) {
			require.Equal(t, 2, s.needs().Make)
		}},
		"too many": {settledState(1, three...), nil, entity.ActOpen, func(t *testing.T, s *State, d decision) {
			require.Equal(t, []string{"c", "b"}, names(s.needs().Remove))
		}},
		"none wanted": {settledState(0, three...), nil, entity.ActOpen, func(t *testing.T, s *State, d decision) {
			require.Len(t, s.needs().Remove, 3)
		}},
		"one being deleted": {settledState(3, three[0], three[1], with(three[2], func(r *contract.ReplicaObservation) {
			r.Deleting = true
		})), nil, entity.ActOpen, nil},
		"one ended": {settledState(3, ended, three[1], three[2]), nil, entity.ActOpen,
			func(t *testing.T, s *State, d decision) {
				require.Equal(t, 1, s.needs().Make)
				require.Equal(t, []string{"a"}, names(s.needs().Finished))
			}},
		"one ended, not needed": {settledState(2, ended, three[1], three[2]), nil, entity.ActOpen,
			func(t *testing.T, s *State, d decision) {
				require.Zero(t, s.needs().Make)
				require.Len(t, s.needs().Finished, 1)
			}},
		"its pod goes": {settledState(3, three[0], three[1], with(three[2], func(r *contract.ReplicaObservation) {
			r.Terminating, r.Ready = true, false
		})), nil, entity.ActOpen, func(t *testing.T, s *State, d decision) {
			require.Equal(t, 1, s.needs().Make)
			require.Equal(t, []string{"c"}, names(s.needs().Finished))
		}},
		"more than a burst": {settledState(1000), nil, entity.ActOpen, func(t *testing.T, s *State, d decision) {
			require.Equal(t, burst, s.needs().Make)
		}},
		"one to adopt": {settledState(3, three[0], with(three[1], func(r *contract.ReplicaObservation) {
			r.OwnerUID = ""
		})), nil, actClaim, nil},
		"one to release": {settledState(3, three[0], with(three[1], func(r *contract.ReplicaObservation) {
			r.Matches = false
		})), nil, actClaim, nil},
		"none to adopt that goes": {settledState(1, three[0], with(three[1], func(r *contract.ReplicaObservation) {
			r.OwnerUID, r.Deleting = "", true
		})), nil, entity.ActNone, nil},
		"claims while paused": {settledState(3, three[0], with(three[1], func(r *contract.ReplicaObservation) {
			r.OwnerUID = ""
		})), func(s *State) { s.Set.Paused = true }, actClaim, nil},
		"paused": {settledState(5, three...), func(s *State) {
			s.Set.Paused = true
			s.written()
		}, entity.ActNone, func(t *testing.T, s *State, d decision) {
			require.Equal(t, waits.Unpause, d.Waiting.Kind)
		}},
		"paused shows": {settledState(3, three...), func(s *State) {
			s.Set.Paused = true
		}, entity.ActWrite, nil},
		"paused while one is open": {settledState(5, three...), func(s *State) {
			s.Open = &Transition{Replicas: 5, Make: 2, From: 1}
			s.Set.Paused = true
		}, entity.ActCancel, nil},
		"being deleted": {settledState(5, three...), func(s *State) {
			at := begin()
			s.Set.DeletionTimestamp = &at
		}, entity.ActNone, nil},
		"deleted while one is open": {settledState(5, three...), func(s *State) {
			at := begin()
			s.Set.DeletionTimestamp = &at
			s.Open = &Transition{Replicas: 5}
		}, entity.ActCancel, nil},
		"gone": {settledState(5, three...), func(s *State) {
			s.Set.Gone = true
		}, entity.ActFinish, nil},
		"gone while one is open": {settledState(5, three...), func(s *State) {
			s.Set.Gone = true
			s.Open = &Transition{Replicas: 5}
		}, entity.ActCancel, nil},
		"gone, and another one is there": {settledState(5, three...), func(s *State) {
			s.Set.Gone = true
			s.Next = &contract.ReplicaSetObservation{UID: "x"}
		}, entity.ActNext, nil},
		"unusable": {settledState(5), func(s *State) {
			s.Set.Unusable = "no template"
		}, entity.ActNone, nil},
		"a newer scale": {settledState(2, three...), func(s *State) {
			s.Open = &Transition{Replicas: 5, Make: 2, From: 1}
		}, entity.ActCancel, nil},
		"cancelled already": {settledState(2, three...), func(s *State) {
			s.Open = &Transition{Replicas: 5, Make: 2, From: 1, Transition: entity.Transition{Cancelled: true}}
		}, entity.ActNone, nil},
		"what was made is not seen yet": {settledState(5, three...), func(s *State) {
			s.Open = &Transition{Replicas: 5, Make: 2, From: 1, Unseen: []int{1, 2}}
		}, entity.ActNone, nil},
		"one vanished meanwhile": {settledState(3, three[0], three[1]), func(s *State) {
			s.Open = &Transition{Replicas: 3, Make: 1, From: 1}
		}, actSignal, func(t *testing.T, s *State, d decision) {
			require.True(t, s.reportedProgress().Done)
			require.NotEmpty(t, s.reportedProgress().Note)
		}},
		"all run": {settledState(3, three[0], three[1], with(three[2], func(r *contract.ReplicaObservation) {
			r.Ordinal = 1
		})), func(s *State) {
			s.Open = &Transition{Replicas: 3, Make: 1, From: 1}
		}, actSignal, func(t *testing.T, s *State, d decision) {
			require.Equal(t, contract.ReplicateProgress{Running: 1, Done: true}, s.reportedProgress())
		}},
		"all gone": {settledState(1, three[0]), func(s *State) {
			s.Open = &Transition{Replicas: 1, Remove: []string{"b", "c"}}
		}, actSignal, func(t *testing.T, s *State, d decision) {
			require.Equal(t, contract.ReplicateProgress{Gone: 2, Done: true}, s.reportedProgress())
		}},
		"signalled already": {settledState(1, three[0]), func(s *State) {
			s.Open = &Transition{Replicas: 1, Remove: []string{"b"}, Reported: contract.ReplicateProgress{Done: true}}
		}, entity.ActNone, nil},
		"refused a moment ago": {settledState(5, three...), func(s *State) {
			s.Failure = &entity.Failure{Step: replicate, Reason: "FailedCreate", Message: "quota",
				RetryAt: begin().Add(time.Minute)}
			s.written()
		}, entity.ActNone, func(t *testing.T, s *State, d decision) {
			require.Equal(t, begin().Add(time.Minute), d.WakeAt)
		}},
		"a refusal shows": {settledState(5, three...), func(s *State) {
			s.Failure = &entity.Failure{Step: replicate, Reason: "FailedCreate", Message: "quota",
				RetryAt: begin().Add(time.Minute)}
			s.setConditions(begin())
		}, entity.ActWrite, nil},
		"refused a while ago": {settledState(5, three...), func(s *State) {
			s.Failure = &entity.Failure{Step: replicate, RetryAt: begin()}
		}, entity.ActOpen, nil},
		"a status was refused": {settledState(3, three...), func(s *State) {
			s.Written = nil
			s.Failure = &entity.Failure{Step: string(entity.ActWrite), RetryAt: begin().Add(time.Minute)}
		}, entity.ActNone, func(t *testing.T, s *State, d decision) { require.False(t, d.WakeAt.IsZero()) }},
		"an outcome unknown": {settledState(3, three...), func(s *State) {
			s.OutcomeUnknown = true
		}, entity.ActWrite, nil},
		"held": {settledState(5, three...), func(s *State) {
			s.Hold = &entity.Hold{Message: "held"}
			s.written()
		}, entity.ActNone, nil},
		"ended without having run": {settledState(3, three[0], three[1],
			with(ended, func(r *contract.ReplicaObservation) {
				r.UID, r.Name, r.EverRan = "z", "z", false
			})), func(s *State) {
			s.CrashLoopUntil = begin().Add(time.Minute)
		}, entity.ActNone, func(t *testing.T, s *State, d decision) {
			require.Equal(t, begin().Add(time.Minute), d.WakeAt)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change != nil {
				c.change(c.state)
			}
			if c.state.Set != nil {
				c.state.setConditions(begin())
			}
			d := c.state.decide(begin())
			require.Equal(t, c.want, d.Action, "%+v", d)
			if c.want == entity.ActNone {
				require.NotEmpty(t, d.Waiting)
			}
			if c.check != nil {
				c.check(t, c.state, d)
			}
		})
	}
}

func TestRemovalOrder(t *testing.T) {
	phase := func(name, phase string) contract.ReplicaObservation {
		return with(running(name, 9), func(r *contract.ReplicaObservation) { r.Phase, r.Ready = phase, false })
	}
	want := []contract.ReplicaObservation{
		phase("unset", ""), phase("pending", "Pending"), phase("scheduling", "Scheduling"),
		phase("scheduled", "Scheduled"), phase("not-ready", "Running"),
		running("young", 1), with(running("twin-2", 2), func(r *contract.ReplicaObservation) { r.Ordinal = 2 }),
		with(running("twin-1", 2), func(r *contract.ReplicaObservation) { r.Ordinal = 1 }), running("old", 3),
	}
	for i := range want { // in any order
		s := settledState(0, append(slices.Clone(want[i:]), want[:i]...)...)
		require.Equal(t, names(want), names(s.needs().Remove))
	}
}

func TestObservationsInAnyOrder(t *testing.T) {
	seen := []contract.ReplicaObservation{
		with(running("a", 1), func(r *contract.ReplicaObservation) {
			r.Phase, r.ResourceVersion, r.Ready = "Pending", "5", false
		}),
		with(running("a", 1), func(r *contract.ReplicaObservation) { r.ResourceVersion = "7" }),
		{UID: "a", Gone: true},
	}
	for _, order := range [][]int{{0, 1, 2}, {1, 0, 2}, {2, 1, 0}, {2, 0, 1, 2, 0}, {0, 2, 1}} {
		s := settledState(1)
		for _, i := range order {
			s.observeReplica(seen[i])
		}
		require.Empty(t, s.Replicas, "%v", order)
	}
	s := settledState(1)
	s.observeReplica(seen[1])
	s.observeReplica(seen[0])
	require.Equal(t, "Running", s.Replicas[0].Phase)
	s.observeReplica(with(seen[1], func(r *contract.ReplicaObservation) { r.Matches = false }))
	require.False(t, s.Replicas[0].Matches, "the selector may change although the instance does not")
	s.observeReplica(with(seen[1], func(r *contract.ReplicaObservation) { r.OwnerUID, r.Matches = "", false }))
	require.Empty(t, s.Replicas, "released")
}

// TestAsksOpenTransition: in a new epoch the set asks whether its transition is still open, because its own state may
// be that of an older copy of Temporal's database.
func TestAsksOpenTransition(t *testing.T) {
	s := settledState(1, running("a", 1))
	o := *s.Set
	o.Epoch = 1
	s.observeSet(o)
	s.Open = &Transition{Transition: entity.Transition{Detached: true, Asked: begin(), Asks: 3}}
	s.observeSet(o)
	require.NotEqual(t, entity.ActAsk, s.decide(begin()).Action)
	o.Epoch = 2
	s.observeSet(o)
	require.Equal(t, entity.ActAsk, s.decide(begin()).Action)
}

func TestFoundReplacesKnownReplicas(t *testing.T) {
	s := settledState(2, running("a", 1), running("b", 1),
		with(running("new", 1), func(r *contract.ReplicaObservation) {
			r.ResourceVersion = "12"
		}))
	s.Known = false
	s.applyFound(contract.FindReplicasResult{ResourceVersion: "10",
		Replicas: []contract.ReplicaObservation{running("b", 1),
			with(running("c", 1), func(r *contract.ReplicaObservation) {
				r.Ordinal = 7
			})}})
	require.Equal(t, []string{"b", "c", "new"}, names(s.Replicas))
	require.True(t, s.Known)
	require.Equal(t, 7, s.Ordinal)
}

func TestTombstonesAreBounded(t *testing.T) {
	s := settledState(0)
	for i := range 3 * maxTombstones {
		s.observeReplica(contract.ReplicaObservation{UID: fmt.Sprint(i), Gone: true})
	}
	require.Len(t, s.Tombstones, maxTombstones)
}

func TestRepairKeepsObject(t *testing.T) {
	was := settledState(1)
	for name, change := range map[string]func(*State){
		"set.uid": func(s *State) { s.Set = &contract.ReplicaSetObservation{UID: "other"} },
		"next":    func(s *State) { s.Next = &contract.ReplicaSetObservation{UID: "other"} },
		"open":    func(s *State) { s.Open = &Transition{} },
	} {
		now := *was
		change(&now)
		require.ErrorContains(t, checkRepair(was, &now), name+":")
	}
	now := *was
	now.Ordinal = 7
	require.NoError(t, checkRepair(was, &now))
}

// TestBoundsKnownInstances: beyond the bound, the set's own instances displace those that it might adopt. The set reads
// them again when some are gone.
func TestBoundsKnownInstances(t *testing.T) {
	s := settledState(1)
	free := func(i int) contract.ReplicaObservation {
		return with(running(fmt.Sprintf("free-%05d", i), 1), func(r *contract.ReplicaObservation) { r.OwnerUID = "" })
	}
	for i := range contract.MaxReplicasSeen + 5 {
		s.observeReplica(free(i))
	}
	require.Len(t, s.Replicas, contract.MaxReplicasSeen)
	require.Equal(t, 5, s.More)
	s.observeReplica(running("own", 1))
	require.Len(t, s.Replicas, contract.MaxReplicasSeen)
	require.Len(t, s.active(), 1)
	require.True(t, s.Known)
	s.observeReplica(contract.ReplicaObservation{UID: "free-00007", Gone: true})
	require.False(t, s.Known)
	s.applyFound(contract.FindReplicasResult{ResourceVersion: "9",
		Replicas: []contract.ReplicaObservation{running("own", 1), free(1)}})
	require.Len(t, s.Replicas, 2)
	require.Zero(t, s.More)
	require.True(t, s.Known)
}

// TestNewEpochOfSetAndInstances: versions may have run backwards, and instances may be observed first.
func TestNewEpochOfSetAndInstances(t *testing.T) {
	s := &State{}
	s.observeSet(contract.ReplicaSetObservation{UID: me, ResourceVersion: "90", Replicas: 3, Epoch: 1})
	s.Known = true
	s.observeReplicas(contract.ReplicasObservation{Epoch: 2})
	require.False(t, s.Known)
	s.observeSet(contract.ReplicaSetObservation{UID: me, ResourceVersion: "10", Replicas: 5, Epoch: 2})
	require.Equal(t, 5, s.Set.Replicas)
	s.observeSet(contract.ReplicaSetObservation{UID: me, ResourceVersion: "9", Replicas: 1, Epoch: 2})
	require.Equal(t, 5, s.Set.Replicas, "an old one of the same epoch")
	s.observeSet(contract.ReplicaSetObservation{UID: "another", ResourceVersion: "20", Epoch: 2})
	n := s.successor()
	require.EqualValues(t, 2, n.Epoch)
	n.observeSet(contract.ReplicaSetObservation{UID: "another", ResourceVersion: "11", Replicas: 7, Epoch: 3})
	require.Equal(t, 7, n.Set.Replicas)
}

// TestRestoresUnknownHold: the state is an older copy without the hold, and no new epoch has begun yet.
func TestRestoresUnknownHold(t *testing.T) {
	at := begin().Add(time.Minute)
	s := settledState(3)
	o := *s.Set
	o.ResourceVersion = "2"
	o.Conditions = []contract.Condition{
		{Type: contract.ConditionHeld, Status: "True", Message: "held by bob", LastTransitionTime: &at}}
	require.NoError(t, s.applyPatch(contract.PatchReplicaSetInput{ResourceVersion: s.Set.ResourceVersion},
		contract.PatchReplicaSetResult{Conflict: true, Current: &o}, at))
	require.Equal(t, "held by bob", s.Hold.Message)
	require.False(t, s.Known)
	s.Hold = nil
	s.Record(contract.OperationRecord{Operation: contract.ControlRelease, Since: at.Add(time.Second)})
	late := o
	late.ResourceVersion = "3"
	s.observeSet(late)
	require.Nil(t, s.Hold, "it was released here")
}
