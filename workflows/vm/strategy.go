package vm

import "github.com/virtflow/virtflow/workflows/contract"

// Strategy is a VM's effective run strategy.
type Strategy string

// Run strategies, as KubeVirt names them. The others are refused at admission until they are supported.
const (
	Always Strategy = "Always"
	Halted Strategy = "Halted"
	Once   Strategy = "Once"
)

// Situation is what a VM's VMI does.
type Situation string

// Situations.
const (
	Absent    Situation = "absent"    // there is none
	Alive     Situation = "alive"     // it exists and has not ended
	Deleting  Situation = "deleting"  // it is going away
	Succeeded Situation = "succeeded" // its guest powered off
	Failed    Situation = "failed"    // its guest crashed or never ran
)

// Request is the first pending state change request, as far as it concerns the present VMI.
type Request string

// Requests.
const (
	NoRequest    Request = "none"
	StartRequest Request = "start"
	StopRequest  Request = "stop" // names the present VMI
)

// Wish is what a strategy asks for.
type Wish struct {
	Operation contract.Operation
	// Always says that the strategy is to become Always: a start was requested while Halted.
	Always bool
	Why    string
}

// Row is one line of the table of strategies.
type Row struct {
	Strategy  Strategy
	Situation Situation
	Request   Request // NoRequest matches any request that no other row of the same strategy and situation names
	Wish      Wish
}

// Strategies is the table: KubeVirt's semantics of each strategy. Combinations that are not listed ask for nothing.
func Strategies() []Row {
	start := func(why string) Wish { return Wish{Operation: contract.OperationStart, Why: why} }
	stop := func(why string) Wish { return Wish{Operation: contract.OperationStop, Why: why} }
	return []Row{
		{Always, Absent, NoRequest, start("the run strategy is Always")},
		{Always, Alive, NoRequest, Wish{}},
		{Always, Alive, StopRequest, Wish{Operation: contract.OperationRestart, Why: "a restart was requested"}},
		{Always, Deleting, NoRequest, Wish{}},
		{Always, Succeeded, NoRequest, stop("the guest powered off; it is started again after its instance is gone")},
		{Always, Failed, NoRequest, stop("the guest failed; it is started again after its instance is gone")},

		{Halted, Absent, NoRequest, Wish{}},
		{Halted, Absent, StartRequest, Wish{Always: true, Why: "a start was requested"}},
		{Halted, Alive, NoRequest, stop("the run strategy is Halted")},
		{Halted, Deleting, NoRequest, Wish{}},
		{Halted, Succeeded, NoRequest, stop("the run strategy is Halted")},
		{Halted, Failed, NoRequest, stop("the run strategy is Halted")},

		{Once, Absent, NoRequest, start("the run strategy is Once")},
		{Once, Alive, NoRequest, Wish{}},
		{Once, Deleting, NoRequest, Wish{}},
		{Once, Succeeded, NoRequest, Wish{}},
		{Once, Failed, NoRequest, Wish{}},
	}
}

// wish looks the table up. ok is false for a strategy that is not in it.
func wish(strategy Strategy, situation Situation, request Request) (w Wish, ok bool) {
	for _, r := range Strategies() {
		if r.Strategy != strategy {
			continue
		}
		ok = true
		if r.Situation == situation && r.Request == request {
			return r.Wish, true
		}
		if r.Situation == situation && r.Request == NoRequest {
			w = r.Wish
		}
	}
	return w, ok
}
