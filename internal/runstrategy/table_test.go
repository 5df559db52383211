package runstrategy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
)

var (
	strategies = []Strategy{Always, RerunOnFailure, Manual, Halted, Once}
	situations = []Situation{Absent, Alive, Deleting, Succeeded, Failed}
	requests   = []Request{NoRequest, StartRequest, StopRequest, RestartRequest}
)

// TestStrategyTable checks the table itself: every strategy has one answer for every situation, no row is there twice
// or can never match, and every action has a reason.
func TestStrategyTable(t *testing.T) {
	type cell struct {
		strategy  Strategy
		situation Situation
		request   Request
	}
	rows := map[cell]int{}
	for _, r := range Table() {
		require.Contains(t, strategies, r.Strategy)
		require.Contains(t, situations, r.Situation)
		require.Contains(t, requests, r.Request)
		rows[cell{r.Strategy, r.Situation, r.Request}]++
		if r.Action != (Action{}) {
			require.NotEmpty(t, r.Action.Why, "%v", r)
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
		_, known := Lookup(s, Absent, NoRequest)
		require.False(t, known)
		reason, message := Unserved(s)
		require.NotEmpty(t, reason)
		require.NotEmpty(t, message)
	}
}

// TestEveryCell is the whole table, written out a second time: 5 strategies × 5 situations × 4 requests.
func TestEveryCell(t *testing.T) {
	const (
		none    = ""
		start   = "start"
		delayed = "start after back-off"
		first   = "start after back-off if new"
		stop    = "stop"
		restart = "restart"
		always  = "become Always"
		rerun   = "request a start"
	)
	want := map[Strategy]map[Situation][4]string{ // no request, start, stop, restart
		Always: {
			Absent: {delayed, delayed, delayed, delayed}, Alive: {none, none, restart, restart}, Deleting: {},
			Succeeded: {stop, stop, stop, stop}, Failed: {stop, stop, stop, stop},
		},
		RerunOnFailure: {
			Absent: {first, delayed, first, first}, Alive: {none, none, stop, restart}, Deleting: {},
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
				a, known := Lookup(strategy, situation, request)
				require.True(t, known)
				got := string(a.Operation)
				switch {
				case a.Always:
					got = always
				case a.Rerun:
					got = rerun
				case a.Once:
					got = first
				case a.AfterBackOff:
					got = delayed
				}
				require.Equal(t, want[strategy][situation][i], got, "%s × %s × %s", strategy, situation, request)
				cells++
			}
		}
	}
	require.Equal(t, 100, cells)
}

// TestEvictedGuestComesBack: an evicted guest starts again under the strategies under which a failed guest does, since
// it has not ended by itself.
func TestEvictedGuestComesBack(t *testing.T) {
	for _, strategy := range strategies {
		vm := contract.VMObservation{RunStrategy: string(strategy)}
		failed, evicted := instance(Failed), instance(Succeeded)
		evicted.Evicted = true
		want, _ := Desired(&vm, failed, string(strategy))
		got, _ := Desired(&vm, evicted, string(strategy))
		if want != (Action{}) && strategy != Halted {
			want.Why = evictedWhy
		}
		require.Equal(t, want, got, strategy)
	}
}

// TestRequestsAreTrimmedAsKubeVirtDoes: the first request is removed when it is done or no longer applies, and with it
// those after it that do not apply.
func TestRequestsAreTrimmedAsKubeVirtDoes(t *testing.T) {
	start, stop, other, unnamed := contract.StateChangeRequest{Action: "Start"},
		contract.StateChangeRequest{Action: "Stop", UID: "i"},
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
		"a stop of no instance":                   {Alive, list{unnamed}, 0, NoRequest},
		"a restart":                               {Alive, list{stop, start}, 2, RestartRequest},
		"half a restart":                          {Absent, list{stop, start}, 1, StartRequest},
		"a restart that was met":                  {Alive, list{other, start}, 0, NoRequest},
		"a start that was met, before another":    {Alive, list{start, stop, start}, 2, RestartRequest},
		"a stop of another, before one that goes": {Succeeded, list{other, stop}, 1, StopRequest},
	} {
		t.Run(name, func(t *testing.T) {
			vm, vmi := contract.VMObservation{StateChangeRequests: c.requests}, instance(c.situation)
			require.Equal(t, c.situation, SituationOf(vmi))
			require.Len(t, Pending(&vm, vmi), c.left)
			require.Equal(t, c.request, RequestOf(&vm, vmi))
		})
	}
}

// instance returns an instance in that situation.
func instance(situation Situation) *contract.VMIObservation {
	o := &contract.VMIObservation{UID: "i", Phase: "Running"}
	switch situation {
	case Absent:
		o.Gone = true
	case Alive:
	case Deleting:
		o.DeletionTimestamp = new(time.Unix(1000, 0))
	case Succeeded:
		o.Phase = "Succeeded"
	case Failed:
		o.Phase = "Failed"
	}
	return o
}

// TestDesired covers the table, and what is not in it: a VM that is being deleted, and a strategy that starts once.
func TestDesired(t *testing.T) {
	now := time.Unix(1000, 0)
	type vm = contract.VMObservation
	for name, c := range map[string]struct {
		vm        vm
		situation Situation
		last      string
		want      contract.Operation
		unknown   bool
	}{
		"halted, and it runs": {vm: vm{RunStrategy: "Halted"}, situation: Alive,
			want: contract.OperationStop},
		"always, and it runs": {vm: vm{RunStrategy: "Always"}, situation: Alive},
		"always, and there is none": {vm: vm{RunStrategy: "Always"}, situation: Absent,
			want: contract.OperationStart},
		"a stop of it is requested": {
			vm: vm{RunStrategy: "Manual",
				StateChangeRequests: []contract.StateChangeRequest{{Action: "Stop", UID: "i"}}}, situation: Alive,
			want: contract.OperationStop},
		"a stop of another is requested": {
			vm: vm{RunStrategy: "Manual",
				StateChangeRequests: []contract.StateChangeRequest{{Action: "Stop", UID: "j"}}}, situation: Alive},
		"RerunOnFailure is new": {vm: vm{RunStrategy: "RerunOnFailure"}, situation: Absent, last: "Halted",
			want: contract.OperationStart},
		"RerunOnFailure is not new": {vm: vm{RunStrategy: "RerunOnFailure"}, situation: Absent,
			last: "RerunOnFailure"},
		"being deleted, and it runs": {vm: vm{RunStrategy: "Always", DeletionTimestamp: &now}, situation: Alive,
			want: contract.OperationStop},
		"being deleted, and it has ended": {vm: vm{RunStrategy: "Once", DeletionTimestamp: &now}, situation: Succeeded,
			want: contract.OperationStop},
		"being deleted, and it goes": {vm: vm{RunStrategy: "Always", DeletionTimestamp: &now},
			situation: Deleting},
		"being deleted, there is none": {vm: vm{RunStrategy: "Always", DeletionTimestamp: &now}, situation: Absent},
		"being deleted, orphaning it": {
			vm: vm{RunStrategy: "Halted", DeletionTimestamp: &now, Finalizers: []string{"orphan"}}, situation: Alive},
		"gone":                {vm: vm{Gone: true}, situation: Alive, want: contract.OperationStop},
		"an unknown strategy": {vm: vm{RunStrategy: "Sometimes"}, situation: Alive, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			a, known := Desired(&c.vm, instance(c.situation), c.last)
			require.Equal(t, c.want, a.Operation)
			require.Equal(t, !c.unknown, known)
		})
	}
}
