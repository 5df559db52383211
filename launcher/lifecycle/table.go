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
)

// Action is something for the launcher to do.
type Action string

// Actions.
const (
	Start    Action = "Start"    // start the domain, then say StartDone, StartRefused or StartRetryable
	Shutdown Action = "Shutdown" // press the guest's power button; say Again after a while
	Destroy  Action = "Destroy"  // end the domain; say Again after a while
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
	return map[State]map[Input]Step{
		Idle: row(Idle, map[Input]Step{
			StartAsked: {Next: Starting, Do: Start},
			Stop:       end(contract.ReasonNeverRan),
			StopNow:    end(contract.ReasonNeverRan),
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
			Stop:         {Next: Stopping, Do: Shutdown},
			StopNow:      {Next: Killing, Do: Destroy},
			GuestOff:     end(contract.ReasonShutdown),
			GuestKilled:  end(contract.ReasonDestroyed),
			GuestCrashed: end(contract.ReasonCrashed),
			GuestGone:    end(contract.ReasonCrashed),
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
		GuestKilled, GuestCrashed, GuestGone,
	}
}

func end(reason string) Step { return Step{Next: Ended, Do: End, Reason: reason} }

// row fills what is not listed with entries that change nothing.
func row(s State, listed map[Input]Step) map[Input]Step {
	out := make(map[Input]Step, len(Inputs()))
	for _, in := range Inputs() {
		out[in] = Step{Next: s}
	}
	for in, step := range listed {
		out[in] = step
	}
	return out
}
