package lifecycle

import "github.com/virtflow/virtflow/workflows/contract"

// State of the launcher towards its guest.
type State string

// States.
const (
	Idle          State = "Idle"          // no domain was asked for yet
	Starting      State = "Starting"      // disks are prepared, the domain is defined and started
	Abandoning    State = "Abandoning"    // as Starting, and the pod is to end with a grace period
	AbandoningNow State = "AbandoningNow" // as Starting, and the pod is to end without one
	Running       State = "Running"       // the guest has the machine
	Receiving     State = "Receiving"     // a guest is to come from another launcher
	Held          State = "Held"          // it is here, whole and paused; it may still run where it came from
	Leaving       State = "Leaving"       // the guest is being moved to another launcher
	LeavingStop   State = "LeavingStop"   // as Leaving, and the pod is to end: the migration is being aborted
	Stopping      State = "Stopping"      // the guest was asked to shut down and has its grace period
	Killing       State = "Killing"       // the domain is being destroyed
	Ended         State = "Ended"         // the launcher is done and exits
)

// Input is what has happened.
type Input string

// Inputs.
const (
	StartAsked         Input = "StartAsked"     // the node's worker wants the domain
	StartDone          Input = "StartDone"      // it runs
	StartRefused       Input = "StartRefused"   // it cannot be built or libvirt refuses it: trying again does not help
	StartRetryable     Input = "StartRetryable" // starting failed for a reason that may pass
	Stop               Input = "Stop"           // the pod is to end; the guest has a grace period
	StopNow            Input = "StopNow"        // the pod is to end at once
	GracePeriodExpired Input = "GracePeriodExpired"
	Again              Input = "Again" // the guest has not reacted for a while
	GuestOff           Input = "GuestOff"
	GuestKilled        Input = "GuestKilled"
	GuestCrashed       Input = "GuestCrashed"
	GuestGone          Input = "GuestGone" // the domain ended while libvirt looked away; nobody knows why

	ReceiveAsked  Input = "ReceiveAsked"  // the node's worker wants this launcher to receive a guest
	ReceiveFailed Input = "ReceiveFailed" // it cannot: this place does not suit the guest
	Arrived       Input = "Arrived"       // the whole guest is here
	Granted       Input = "Granted"       // it can never run again where it came from
	Withdraw      Input = "Withdraw"      // nothing is to be received, or what was received is of no use
	LeaveAsked    Input = "LeaveAsked"    // the node's worker wants the guest to be moved
	Left          Input = "Left"          // it can never run here again
	Stayed        Input = "Stayed"        // the migration failed, and the guest is as it was
)

// Action is something for the launcher to do.
type Action string

// Actions.
const (
	Start    Action = "Start"    // start the domain, then say StartDone, StartRefused or StartRetryable
	Shutdown Action = "Shutdown" // press the guest's power button; say Again after a while
	Destroy  Action = "Destroy"  // end the domain; say Again after a while
	Receive  Action = "Receive"  // prepare for the guest, then say ReceiveFailed if that fails
	Resume   Action = "Resume"   // let the guest that was received go on, unless its user had paused it
	Leave    Action = "Leave"    // move the guest, then say Left, Stayed or how it ended
	Abort    Action = "Abort"    // abort moving it; say Again after a while
	End      Action = "End"      // write the termination message with Reason, and exit
)

// Step is one entry of the table.
type Step struct {
	Next   State
	Do     Action // "": nothing
	Reason string // of End
}

// Table is the whole decision: every state has an entry for every input. Entries that keep the state and do nothing say
// that the input means nothing there.
func Table() map[State]map[Input]Step {
	starting := row(Starting, map[Input]Step{
		StartDone:      {Next: Running},
		StartRefused:   end(contract.ReasonFailed),
		StartRetryable: {Next: Idle},
		Stop:           {Next: Abandoning},
		StopNow:        {Next: AbandoningNow},
		GuestOff:       end(contract.ReasonShutdown), // it ended before the call that started it came back
		GuestKilled:    end(contract.ReasonDestroyed),
		GuestCrashed:   end(contract.ReasonCrashed),
		GuestGone:      end(contract.ReasonCrashed),
	})
	abandoning := row(Abandoning, map[Input]Step{
		StartDone:          {Next: Stopping, Do: Shutdown},
		StartRefused:       end(contract.ReasonNeverRan),
		StartRetryable:     end(contract.ReasonNeverRan),
		StopNow:            {Next: AbandoningNow},
		GracePeriodExpired: {Next: AbandoningNow},
		GuestOff:           end(contract.ReasonShutdown),
		GuestKilled:        end(contract.ReasonDestroyed),
		GuestCrashed:       end(contract.ReasonCrashed),
		GuestGone:          end(contract.ReasonCrashed),
	})
	// A target's guest has not run here. Its QEMU ends with the launcher, and the source goes on by itself.
	notReceived := map[Input]Step{
		Withdraw:     end(contract.ReasonNotReceived),
		Stop:         end(contract.ReasonNotReceived),
		StopNow:      end(contract.ReasonNotReceived),
		GuestOff:     end(contract.ReasonNotReceived),
		GuestKilled:  end(contract.ReasonNotReceived),
		GuestCrashed: end(contract.ReasonNotReceived),
		GuestGone:    end(contract.ReasonNotReceived),
	}
	return map[State]map[Input]Step{
		Idle: row(Idle, map[Input]Step{
			StartAsked:   {Next: Starting, Do: Start},
			ReceiveAsked: {Next: Receiving, Do: Receive},
			Stop:         end(contract.ReasonNeverRan),
			StopNow:      end(contract.ReasonNeverRan),
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
			StartRefused:   end(contract.ReasonNeverRan),
			StartRetryable: end(contract.ReasonNeverRan),
			GuestOff:       end(contract.ReasonShutdown),
			GuestKilled:    end(contract.ReasonDestroyed),
			GuestCrashed:   end(contract.ReasonDestroyed),
			GuestGone:      end(contract.ReasonDestroyed),
		}),
		Running: row(Running, map[Input]Step{
			LeaveAsked:   {Next: Leaving, Do: Leave},
			Left:         end(contract.ReasonMigrated),
			Stop:         {Next: Stopping, Do: Shutdown},
			StopNow:      {Next: Killing, Do: Destroy},
			GuestOff:     end(contract.ReasonShutdown),
			GuestKilled:  end(contract.ReasonDestroyed),
			GuestCrashed: end(contract.ReasonCrashed),
			GuestGone:    end(contract.ReasonCrashed),
		}),
		Leaving: row(Leaving, map[Input]Step{
			Left:         end(contract.ReasonMigrated),
			Stayed:       {Next: Running},
			Stop:         {Next: LeavingStop, Do: Abort},
			StopNow:      {Next: Killing, Do: Destroy},
			GuestOff:     end(contract.ReasonShutdown),
			GuestKilled:  end(contract.ReasonDestroyed),
			GuestCrashed: end(contract.ReasonCrashed),
			GuestGone:    end(contract.ReasonCrashed),
		}),
		// libvirt lets nobody shut a guest down that it moves.
		LeavingStop: row(LeavingStop, map[Input]Step{
			Again:              {Next: LeavingStop, Do: Abort},
			Left:               end(contract.ReasonMigrated),
			Stayed:             {Next: Stopping, Do: Shutdown},
			StopNow:            {Next: Killing, Do: Destroy},
			GracePeriodExpired: {Next: Killing, Do: Destroy},
			GuestOff:           end(contract.ReasonShutdown),
			GuestKilled:        end(contract.ReasonDestroyed),
			GuestCrashed:       end(contract.ReasonCrashed),
			GuestGone:          end(contract.ReasonCrashed),
		}),
		Stopping: row(Stopping, map[Input]Step{
			Again:              {Next: Stopping, Do: Shutdown},
			StopNow:            {Next: Killing, Do: Destroy},
			GracePeriodExpired: {Next: Killing, Do: Destroy},
			GuestOff:           end(contract.ReasonShutdown),
			GuestKilled:        end(contract.ReasonDestroyed),
			GuestCrashed:       end(contract.ReasonCrashed),
			GuestGone:          end(contract.ReasonShutdown), // it was asked to, and did
		}),
		Killing: row(Killing, map[Input]Step{
			Again:        {Next: Killing, Do: Destroy},
			Left:         end(contract.ReasonMigrated), // it was gone before it could be killed
			GuestOff:     end(contract.ReasonShutdown),
			GuestKilled:  end(contract.ReasonDestroyed),
			GuestCrashed: end(contract.ReasonDestroyed), // killed harder than libvirt expected
			GuestGone:    end(contract.ReasonDestroyed),
		}),
		Ended: row(Ended, nil),
	}
}

// Inputs lists all inputs.
func Inputs() []Input {
	return []Input{
		StartAsked, StartDone, StartRefused, StartRetryable, Stop, StopNow, GracePeriodExpired, Again, GuestOff,
		GuestKilled, GuestCrashed, GuestGone, ReceiveAsked, ReceiveFailed, Arrived, Granted, Withdraw, LeaveAsked, Left,
		Stayed,
	}
}

func end(reason string) Step { return Step{Next: Ended, Do: End, Reason: reason} }

// row fills what is not listed with entries that change nothing.
func row(s State, listed map[Input]Step) map[Input]Step {
	out := make(map[Input]Step, len(Inputs()))
	for _, in := range Inputs() {
		out[in] = Step{Next: s}
	}
	return with(out, listed)
}

// with replaces what is listed.
func with(row, listed map[Input]Step) map[Input]Step {
	for in, step := range listed {
		row[in] = step
	}
	return row
}
