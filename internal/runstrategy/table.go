package runstrategy

import "github.com/virtflow/virtflow/contract"

// Strategy is a VM's effective run strategy.
type Strategy string

// Run strategies, as KubeVirt names them.
const (
	Always         Strategy = "Always"
	RerunOnFailure Strategy = "RerunOnFailure"
	Manual         Strategy = "Manual"
	Halted         Strategy = "Halted"
	Once           Strategy = "Once"
	// WaitAsReceiver is refused at admission, because no instance can be received from another cluster. A VM that has
	// it nevertheless is not served.
	WaitAsReceiver Strategy = "WaitAsReceiver"
	// Contradictory stands for a VM that sets both spec.running and spec.runStrategy.
	Contradictory Strategy = contract.RunStrategyContradictory
)

// Situation is the state of a VM's VMI, as far as it matters here.
type Situation string

// Situations.
const (
	Absent    Situation = "absent"    // there is none
	Alive     Situation = "alive"     // it exists and has not ended
	Deleting  Situation = "deleting"  // it is being deleted
	Succeeded Situation = "succeeded" // its guest powered off
	Failed    Situation = "failed"    // its guest crashed or never ran
)

// Request names what the first pending state change requests ask for, if they concern the current VMI.
type Request string

// Requests.
const (
	NoRequest      Request = "none"
	StartRequest   Request = "start"
	StopRequest    Request = "stop"    // names the current VMI
	RestartRequest Request = "restart" // a stop that names the current VMI, and a start after it
)

// Action is the desired action of a VM in its situation. The zero value asks for nothing.
type Action struct {
	Operation contract.Operation
	// Always is true if the strategy must become Always: a start was requested while Halted.
	Always bool
	// Rerun is true if a start must be requested: the guest failed, and is to run again.
	Rerun bool
	// AfterBackOff is true if a start waits for the back-off after instances that never ran.
	AfterBackOff bool
	// Once is true if a start is made only if the strategy is new to this VM: its status had another one, or none.
	Once bool
	Why  string
}

// Row is one line of the table of strategies.
type Row struct {
	Strategy  Strategy
	Situation Situation
	Request   Request // NoRequest matches any request that no other row of the same strategy and situation names
	Action    Action
}

// Table returns the whole table: KubeVirt's semantics of each strategy.
func Table() []Row {
	start := func(why string) Action { return Action{Operation: contract.OperationStart, Why: why} }
	afterBackOff := func(why string) Action {
		return Action{Operation: contract.OperationStart, AfterBackOff: true, Why: why}
	}
	stop := func(why string) Action { return Action{Operation: contract.OperationStop, Why: why} }
	restart := func(why string) Action { return Action{Operation: contract.OperationRestart, Why: why} }
	nothing := Action{}
	const (
		startAsked   = "a start was requested"
		stopAsked    = "a stop was requested"
		restartAsked = "a restart was requested"
	)
	first := afterBackOff("the run strategy has become RerunOnFailure")
	first.Once = true
	return []Row{
		{Always, Absent, NoRequest, afterBackOff("the run strategy is Always")},
		{Always, Alive, NoRequest, nothing},
		{Always, Alive, StopRequest, restart(restartAsked)},
		{Always, Alive, RestartRequest, restart(restartAsked)},
		{Always, Deleting, NoRequest, nothing},
		{Always, Succeeded, NoRequest, stop("the guest powered off; it is started again after its instance is gone")},
		{Always, Failed, NoRequest, stop("the guest failed; it is started again after its instance is gone")},

		{RerunOnFailure, Absent, NoRequest, first},
		{RerunOnFailure, Absent, StartRequest, afterBackOff(startAsked)},
		{RerunOnFailure, Alive, NoRequest, nothing},
		{RerunOnFailure, Alive, StopRequest, stop(stopAsked)},
		{RerunOnFailure, Alive, RestartRequest, restart(restartAsked)},
		{RerunOnFailure, Deleting, NoRequest, nothing},
		{RerunOnFailure, Succeeded, NoRequest, stop("the guest powered off, and did not fail")},
		{RerunOnFailure, Failed, NoRequest, Action{Rerun: true, Why: "the guest failed"}},
		{RerunOnFailure, Failed, StartRequest,
			stop("the guest failed; it is started again after its instance is gone")},
		{RerunOnFailure, Failed, StopRequest, stop(stopAsked)},
		{RerunOnFailure, Failed, RestartRequest, stop(restartAsked)},

		{Manual, Absent, NoRequest, nothing},
		{Manual, Absent, StartRequest, start(startAsked)},
		{Manual, Alive, NoRequest, nothing},
		{Manual, Alive, StopRequest, stop(stopAsked)},
		{Manual, Alive, RestartRequest, restart(restartAsked)},
		{Manual, Deleting, NoRequest, nothing},
		{Manual, Succeeded, NoRequest, nothing},
		{Manual, Succeeded, StopRequest, stop(stopAsked)},
		{Manual, Succeeded, RestartRequest, restart(restartAsked)},
		{Manual, Failed, NoRequest, nothing},
		{Manual, Failed, StopRequest, stop(stopAsked)},
		{Manual, Failed, RestartRequest, restart(restartAsked)},

		{Halted, Absent, NoRequest, nothing},
		{Halted, Absent, StartRequest, Action{Always: true, Why: startAsked}},
		{Halted, Alive, NoRequest, stop("the run strategy is Halted")},
		{Halted, Deleting, NoRequest, nothing},
		{Halted, Succeeded, NoRequest, stop("the run strategy is Halted")},
		{Halted, Failed, NoRequest, stop("the run strategy is Halted")},

		{Once, Absent, NoRequest, start("the run strategy is Once")},
		{Once, Alive, NoRequest, nothing},
		{Once, Deleting, NoRequest, nothing},
		{Once, Succeeded, NoRequest, nothing},
		{Once, Failed, NoRequest, nothing},
	}
}

// Lookup returns the action of the matching row. ok is false for a strategy that is not in the table.
func Lookup(strategy Strategy, situation Situation, request Request) (a Action, ok bool) {
	for _, r := range Table() {
		if r.Strategy != strategy {
			continue
		}
		ok = true
		if r.Situation == situation && r.Request == request {
			return r.Action, true
		}
		if r.Situation == situation && r.Request == NoRequest {
			a = r.Action
		}
	}
	return a, ok
}

// BacksOff reports whether instances that never ran are counted under a strategy.
func BacksOff(s Strategy) bool { return s == Always || s == RerunOnFailure || s == Once }

// Unserved returns why a VM's strategy is not served: KubeVirt's reason and message where there are any, or virtflow's.
func Unserved(s Strategy) (reason, message string) {
	switch s {
	case WaitAsReceiver:
		return "UnsupportedSyncError",
			"run strategy WaitAsReceiver is not supported yet: no instance can be received from another cluster"
	case Contradictory:
		return contract.ReasonFailedCreate, "running and runstrategy are mutually exclusive"
	default:
		return contract.ReasonFailedCreate, "unknown runstrategy: " + string(s)
	}
}
