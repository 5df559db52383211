package lifecycle

import "github.com/virtflow/virtflow/contract"

// State of the launcher towards its guest.
type State string

// States.
const (
	Idle          State = "Idle"          // no domain was requested yet
	Starting      State = "Starting"      // disks are prepared, the domain is defined and started
	Abandoning    State = "Abandoning"    // as Starting, while the pod terminates with a grace period
	AbandoningNow State = "AbandoningNow" // as Starting, while the pod terminates without one
	Running       State = "Running"       // the guest runs
	Receiving     State = "Receiving"     // a guest is expected from another launcher
	Held          State = "Held"          // it has arrived, complete and paused; it may still run at its source
	Leaving       State = "Leaving"       // the guest is being moved to another launcher
	LeavingStop   State = "LeavingStop"   // as Leaving, while the pod terminates: the migration is being aborted
	Stopping      State = "Stopping"      // the power button was pressed, and the grace period runs
	Killing       State = "Killing"       // the domain is being destroyed
	Ended         State = "Ended"         // the launcher exits
)

// Input is one event for the table.
type Input string

// Inputs.
const (
	StartAsked         Input = "StartAsked"     // the node worker requests the domain
	StartDone          Input = "StartDone"      // it runs
	StartRefused       Input = "StartRefused"   // it cannot be built or started: another attempt does not help
	StartRetryable     Input = "StartRetryable" // starting failed, and another attempt may succeed
	Stop               Input = "Stop"           // the pod terminates; the guest has a grace period
	StopNow            Input = "StopNow"        // the pod terminates at once
	GracePeriodExpired Input = "GracePeriodExpired"
	Again              Input = "Again" // the guest has not reacted for a while
	GuestOff           Input = "GuestOff"
	GuestKilled        Input = "GuestKilled"
	GuestCrashed       Input = "GuestCrashed"
	GuestGone          Input = "GuestGone" // the domain ended unobserved, for an unknown reason

	ReceiveAsked  Input = "ReceiveAsked"  // the node worker requests that this launcher receives a guest
	ReceiveFailed Input = "ReceiveFailed" // it cannot: this node does not suit the guest
	Arrived       Input = "Arrived"       // the guest has arrived completely
	Granted       Input = "Granted"       // it can never run again at its source
	Withdraw      Input = "Withdraw"      // no guest arrives, or the one that arrived must not run
	LeaveAsked    Input = "LeaveAsked"    // the node worker requests that the guest moves
	Left          Input = "Left"          // it can never run here again
	Stayed        Input = "Stayed"        // the migration failed, and the guest is as it was
)

// Action is something for the launcher to do.
type Action string

// Actions.
const (
	Start    Action = "Start"    // start the domain, then input StartDone, StartRefused or StartRetryable
	Shutdown Action = "Shutdown" // press the guest's power button; input Again after a while
	Destroy  Action = "Destroy"  // end the domain; input Again after a while
	Receive  Action = "Receive"  // prepare for the guest, then input ReceiveFailed if that fails
	Resume   Action = "Resume"   // resume the guest that was received, unless its user had paused it
	Leave    Action = "Leave"    // move the guest, then input Left, Stayed or how it ended
	Abort    Action = "Abort"    // abort moving it; input Again after a while
	End      Action = "End"      // write the termination message with Reason, and exit
)

// Step is one entry of the table.
type Step struct {
	Next   State
	Do     Action // "": nothing
	Reason string // of End
}

// Table returns the whole decision: every state has an entry for every input. Inputs that do not matter in a state have
// entries that keep it and do nothing.
func Table() map[State]map[Input]Step {
	starting := row(Starting, map[Input]Step{
		StartDone:      {Next: Running},
		StartRefused:   endStep(contract.ReasonFailed),
		StartRetryable: {Next: Idle},
		Stop:           {Next: Abandoning},
		StopNow:        {Next: AbandoningNow},
		GuestOff:       endStep(contract.ReasonShutdown), // it ended before the starting call returned
		GuestKilled:    endStep(contract.ReasonDestroyed),
		GuestCrashed:   endStep(contract.ReasonCrashed),
		GuestGone:      endStep(contract.ReasonCrashed),
	})
	abandoning := row(Abandoning, map[Input]Step{
		StartDone:          {Next: Stopping, Do: Shutdown},
		StartRefused:       endStep(contract.ReasonNeverRan),
		StartRetryable:     endStep(contract.ReasonNeverRan),
		StopNow:            {Next: AbandoningNow},
		GracePeriodExpired: {Next: AbandoningNow},
		GuestOff:           endStep(contract.ReasonShutdown),
		GuestKilled:        endStep(contract.ReasonDestroyed),
		GuestCrashed:       endStep(contract.ReasonCrashed),
		GuestGone:          endStep(contract.ReasonCrashed),
	})
	// A target's guest has not run here. Its QEMU ends with the launcher, and the source continues by itself.
	notReceived := map[Input]Step{
		Withdraw:     endStep(contract.ReasonNotReceived),
		Stop:         endStep(contract.ReasonNotReceived),
		StopNow:      endStep(contract.ReasonNotReceived),
		GuestOff:     endStep(contract.ReasonNotReceived),
		GuestKilled:  endStep(contract.ReasonNotReceived),
		GuestCrashed: endStep(contract.ReasonNotReceived),
		GuestGone:    endStep(contract.ReasonNotReceived),
	}
	return map[State]map[Input]Step{
		Idle: row(Idle, map[Input]Step{
			StartAsked:   {Next: Starting, Do: Start},
			ReceiveAsked: {Next: Receiving, Do: Receive},
			Stop:         endStep(contract.ReasonNeverRan),
			StopNow:      endStep(contract.ReasonNeverRan),
		}),
		Receiving: with(row(Receiving, notReceived), map[Input]Step{
			ReceiveFailed: {Next: Idle},
			Arrived:       {Next: Held},
		}),
		Held: with(row(Held, notReceived), map[Input]Step{
			Granted: {Next: Running, Do: Resume},
		}),
		Starting:   starting,
		Abandoning: abandoning,
		AbandoningNow: row(AbandoningNow, map[Input]Step{
			StartDone:      {Next: Killing, Do: Destroy},
			StartRefused:   endStep(contract.ReasonNeverRan),
			StartRetryable: endStep(contract.ReasonNeverRan),
			GuestOff:       endStep(contract.ReasonShutdown),
			GuestKilled:    endStep(contract.ReasonDestroyed),
			GuestCrashed:   endStep(contract.ReasonDestroyed),
			GuestGone:      endStep(contract.ReasonDestroyed),
		}),
		Running: row(Running, map[Input]Step{
			LeaveAsked:   {Next: Leaving, Do: Leave},
			Left:         endStep(contract.ReasonMigrated),
			Stop:         {Next: Stopping, Do: Shutdown},
			StopNow:      {Next: Killing, Do: Destroy},
			GuestOff:     endStep(contract.ReasonShutdown),
			GuestKilled:  endStep(contract.ReasonDestroyed),
			GuestCrashed: endStep(contract.ReasonCrashed),
			GuestGone:    endStep(contract.ReasonCrashed),
		}),
		Leaving: row(Leaving, map[Input]Step{
			Left:         endStep(contract.ReasonMigrated),
			Stayed:       {Next: Running},
			Stop:         {Next: LeavingStop, Do: Abort},
			StopNow:      {Next: Killing, Do: Destroy},
			GuestOff:     endStep(contract.ReasonShutdown),
			GuestKilled:  endStep(contract.ReasonDestroyed),
			GuestCrashed: endStep(contract.ReasonCrashed),
			GuestGone:    endStep(contract.ReasonCrashed),
		}),
		// libvirt refuses to shut down a guest that it moves.
		LeavingStop: row(LeavingStop, map[Input]Step{
			Again:              {Next: LeavingStop, Do: Abort},
			Left:               endStep(contract.ReasonMigrated),
			Stayed:             {Next: Stopping, Do: Shutdown},
			StopNow:            {Next: Killing, Do: Destroy},
			GracePeriodExpired: {Next: Killing, Do: Destroy},
			GuestOff:           endStep(contract.ReasonShutdown),
			GuestKilled:        endStep(contract.ReasonDestroyed),
			GuestCrashed:       endStep(contract.ReasonCrashed),
			GuestGone:          endStep(contract.ReasonCrashed),
		}),
		Stopping: row(Stopping, map[Input]Step{
			Again:              {Next: Stopping, Do: Shutdown},
			StopNow:            {Next: Killing, Do: Destroy},
			GracePeriodExpired: {Next: Killing, Do: Destroy},
			GuestOff:           endStep(contract.ReasonShutdown),
			GuestKilled:        endStep(contract.ReasonDestroyed),
			GuestCrashed:       endStep(contract.ReasonCrashed),
			GuestGone:          endStep(contract.ReasonShutdown), // as requested
		}),
		Killing: row(Killing, map[Input]Step{
			Again:        {Next: Killing, Do: Destroy},
			Left:         endStep(contract.ReasonMigrated), // it left before it could be killed
			GuestOff:     endStep(contract.ReasonShutdown),
			GuestKilled:  endStep(contract.ReasonDestroyed),
			GuestCrashed: endStep(contract.ReasonDestroyed), // killed harder than libvirt expected
			GuestGone:    endStep(contract.ReasonDestroyed),
		}),
		Ended: row(Ended, nil),
	}
}

// Inputs returns all inputs.
func Inputs() []Input {
	return []Input{
		StartAsked, StartDone, StartRefused, StartRetryable, Stop, StopNow, GracePeriodExpired, Again, GuestOff,
		GuestKilled, GuestCrashed, GuestGone, ReceiveAsked, ReceiveFailed, Arrived, Granted, Withdraw, LeaveAsked, Left,
		Stayed,
	}
}

// endStep returns the step that ends the launcher for this reason.
func endStep(reason string) Step { return Step{Next: Ended, Do: End, Reason: reason} }

// row fills a state's row with entries that change nothing for inputs that are not listed.
func row(s State, listed map[Input]Step) map[Input]Step {
	out := make(map[Input]Step, len(Inputs()))
	for _, in := range Inputs() {
		out[in] = Step{Next: s}
	}
	return with(out, listed)
}

// with returns the row with the listed entries replaced.
func with(row, listed map[Input]Step) map[Input]Step {
	for in, step := range listed {
		row[in] = step
	}
	return row
}
