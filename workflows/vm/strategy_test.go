package vm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/workflows/contract"
)

var (
	strategies = []Strategy{Always, RerunOnFailure, Manual, Halted, Once}
	situations = []Situation{Absent, Alive, Deleting, Succeeded, Failed}
	requests   = []Request{NoRequest, StartRequest, StopRequest, RestartRequest}
)

// TestStrategyTable checks the table itself: every strategy answers every situation once, no row is there twice or can never match, and
// whoever asks for something says why.
func TestStrategyTable(t *testing.T) {
	type cell struct {
		strategy  Strategy
		situation Situation
		request   Request
	}
	rows := map[cell]int{}
	for _, r := range Strategies() {
		require.Contains(t, strategies, r.Strategy)
		require.Contains(t, situations, r.Situation)
		require.Contains(t, requests, r.Request)
		rows[cell{r.Strategy, r.Situation, r.Request}]++
		if r.Wish != (Wish{}) {
			require.NotEmpty(t, r.Wish.Why, "%v", r)
		}
		if r.Situation == Absent {
			require.NotContains(t, []Request{StopRequest, RestartRequest}, r.Request, "no instance can be named: %v", r)
		}
	}
	for c, n := range rows {
		require.Equal(t, 1, n, "%v", c)
	}
	for _, strategy := range strategies {
		for _, situation := range situations {
			require.Equal(t, 1, rows[cell{strategy, situation, NoRequest}], "%s × %s has no row", strategy, situation)
		}
	}
	for _, s := range []Strategy{WaitAsReceiver, Contradictory, "Sometimes", ""} {
		_, known := wish(s, Absent, NoRequest)
		require.False(t, known)
		reason, message := unserved(s)
		require.NotEmpty(t, reason)
		require.NotEmpty(t, message)
	}
}

// TestEveryCell is the whole table, written out a second time: 5 strategies × 5 situations × 4 requests.
func TestEveryCell(t *testing.T) {
	const (
		none    = ""
		start   = "start"
		later   = "start after back-off"
		first   = "start after back-off if new"
		stop    = "stop"
		restart = "restart"
		always  = "become Always"
		rerun   = "request a start"
	)
	want := map[Strategy]map[Situation][4]string{ // no request, start, stop, restart
		Always: {
			Absent: {later, later, later, later}, Alive: {none, none, restart, restart}, Deleting: {},
			Succeeded: {stop, stop, stop, stop}, Failed: {stop, stop, stop, stop},
		},
		RerunOnFailure: {
			Absent: {first, later, first, first}, Alive: {none, none, stop, restart}, Deleting: {},
			Succeeded: {stop, stop, stop, stop}, Failed: {rerun, stop, stop, stop},
		},
		Manual: {
			Absent: {none, start, none, none}, Alive: {none, none, stop, restart}, Deleting: {},
			Succeeded: {none, none, stop, restart}, Failed: {none, none, stop, restart},
		},
		Halted: {
			Absent: {none, always, none, none}, Alive: {stop, stop, stop, stop}, Deleting: {},
			Succeeded: {stop, stop, stop, stop}, Failed: {stop, stop, stop, stop},
		},
		Once: {Absent: {start, start, start, start}, Alive: {}, Deleting: {}, Succeeded: {}, Failed: {}},
	}
	cells := 0
	for _, strategy := range strategies {
		for _, situation := range situations {
			for i, request := range requests {
				w, known := wish(strategy, situation, request)
				require.True(t, known)
				got := string(w.Operation)
				switch {
				case w.Always:
					got = always
				case w.Rerun:
					got = rerun
				case w.Once:
					got = first
				case w.AfterBackOff:
					got = later
				}
				require.Equal(t, want[strategy][situation][i], got, "%s × %s × %s", strategy, situation, request)
				cells++
			}
		}
	}
	require.Equal(t, 100, cells)
}

// state builds a state of a VM with an instance in that situation, and with the requests that amount to that request.
func state(strategy Strategy, situation Situation, request Request) *State {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &State{Object: contract.Object{Namespace: "default", Name: "web", UID: "vm"}}
	s.VM = &contract.VMObservation{UID: "vm", Generation: 1, RunStrategy: string(strategy), Finalizers: []string{contract.FinalizerVM}}
	switch request {
	case NoRequest:
	case StartRequest:
		s.VM.StateChangeRequests = []contract.StateChangeRequest{{Action: "Start"}}
	case StopRequest:
		s.VM.StateChangeRequests = []contract.StateChangeRequest{{Action: "Stop", UID: "i"}}
	case RestartRequest:
		s.VM.StateChangeRequests = []contract.StateChangeRequest{{Action: "Stop", UID: "i"}, {Action: "Start"}}
	}
	s.VMI = &contract.VMIObservation{UID: "i", OwnerUID: "vm", Phase: "Running", VMGeneration: 1, EverRan: true}
	switch situation {
	case Absent:
		s.VMI.Gone = true
	case Alive:
	case Deleting:
		s.VMI.DeletionTimestamp = &now
	case Succeeded, Failed:
		s.VMI.Phase = map[Situation]string{Succeeded: "Succeeded", Failed: "Failed"}[situation]
	}
	return s
}

// TestEveryDecision: the planner decides in every cell of the table, for a new strategy and one that it knew, and says what it waits for where
// it has nothing to do. Whatever it decides is stable: asked again, it says the same.
func TestEveryDecision(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	cells := 0
	for _, strategy := range append([]Strategy{WaitAsReceiver, Contradictory, "Sometimes"}, strategies...) {
		for _, situation := range situations {
			for _, request := range requests {
				for _, last := range []string{"", string(strategy), string(Halted)} {
					s := state(strategy, situation, request)
					s.RunStrategy = last
					s.refresh(now)
					d := s.decide(now)
					require.True(t, d.Action != actNone || d.Waiting != "", "%s × %s × %s: neither a step nor a wait", strategy, situation, request)
					require.Equal(t, d, s.decide(now))
					st := s.status()
					s.Written = &st
					s.VM.StateChangeRequests = st.StateChangeRequests
					if d = s.decide(now); d.Action == actWrite {
						t.Errorf("%s × %s × %s: writes what it has just written", strategy, situation, request)
					}
					cells++
				}
			}
		}
	}
	require.Equal(t, 8*5*4*3, cells)
}

// TestRequestsAreTrimmedAsKubeVirtDoes: the first request goes when it has been met or makes no sense, and with it those behind it that do not.
func TestRequestsAreTrimmedAsKubeVirtDoes(t *testing.T) {
	start, stop, other, nobody := contract.StateChangeRequest{Action: "Start"}, contract.StateChangeRequest{Action: "Stop", UID: "i"},
		contract.StateChangeRequest{Action: "Stop", UID: "another"}, contract.StateChangeRequest{Action: "Stop"}
	type list = []contract.StateChangeRequest
	for name, c := range map[string]struct {
		situation Situation
		requests  list
		left      int
		request   Request
	}{
		"none":                                    {Alive, nil, 0, NoRequest},
		"a start that was met":                    {Alive, list{start}, 0, NoRequest},
		"a start, while the instance goes":        {Deleting, list{start}, 1, StartRequest},
		"a start, after the instance ended":       {Failed, list{start}, 1, StartRequest},
		"a start, with no instance":               {Absent, list{start}, 1, StartRequest},
		"a stop of this instance":                 {Alive, list{stop}, 1, StopRequest},
		"a stop of one that goes":                 {Deleting, list{stop}, 1, StopRequest},
		"a stop that was met":                     {Absent, list{stop}, 0, NoRequest},
		"a stop of another instance":              {Alive, list{other}, 0, NoRequest},
		"a stop of no instance":                   {Alive, list{nobody}, 0, NoRequest},
		"a restart":                               {Alive, list{stop, start}, 2, RestartRequest},
		"half a restart":                          {Absent, list{stop, start}, 1, StartRequest},
		"a restart that was met":                  {Alive, list{other, start}, 0, NoRequest},
		"a start that was met, before another":    {Alive, list{start, stop, start}, 2, RestartRequest},
		"a stop of another, before one that goes": {Succeeded, list{other, stop}, 1, StopRequest},
	} {
		t.Run(name, func(t *testing.T) {
			s := state(Manual, c.situation, NoRequest)
			s.VM.StateChangeRequests = c.requests
			require.Len(t, s.pendingRequests(), c.left)
			require.Equal(t, c.request, s.request())
		})
	}
}

// TestBackOff: 10 s × count², up to half as much again, at most 300 s (KubeVirt's figures), and the same for the same instance.
func TestBackOff(t *testing.T) {
	for _, tc := range []struct {
		count    int
		min, max time.Duration
	}{{1, 10 * time.Second, 15 * time.Second}, {2, 40 * time.Second, 60 * time.Second}, {3, 90 * time.Second, 135 * time.Second}, {6, 300 * time.Second, 300 * time.Second}, {1000, 300 * time.Second, 300 * time.Second}} {
		d := backOff(tc.count, "some-uid")
		require.GreaterOrEqual(t, d, tc.min, "count %d", tc.count)
		require.LessOrEqual(t, d, tc.max, "count %d", tc.count)
		require.Equal(t, d, backOff(tc.count, "some-uid"))
	}
}

// TestBackOffDelaysOnlyWhereKubeVirtDoes: instances that never ran are counted under Always, RerunOnFailure and Once, and delay the first two.
func TestBackOffDelaysOnlyWhereKubeVirtDoes(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)
	for strategy, delays := range map[Strategy]bool{Always: true, RerunOnFailure: true, Once: false, Manual: false} {
		s := state(strategy, Absent, StartRequest)
		s.VMI.EverRan = false
		s.StartFailure = &contract.StartFailure{ConsecutiveFailCount: 1, LastFailedVMIUID: "i", RetryAfter: new(now.Add(time.Minute))}
		s.refresh(now)
		st := s.status()
		s.Written = &st
		d := s.decide(now)
		require.Equal(t, backsOff(strategy), s.StartFailure != nil, strategy)
		if delays {
			require.Equal(t, now.Add(time.Minute), d.WakeAt, strategy)
			require.Equal(t, "CrashLoopBackOff", s.printable())
		} else {
			require.Equal(t, contract.OperationStart, d.Operation, strategy)
		}
	}
}
