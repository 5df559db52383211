package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/lifecycle"
)

func TestTableHasNoHoles(t *testing.T) {
	table := lifecycle.Table()
	for state, row := range table {
		for _, in := range lifecycle.Inputs() {
			step, ok := row[in]
			require.True(t, ok, "%s × %s", state, in)
			require.Contains(t, table, step.Next, "%s × %s", state, in)
			require.Equal(t, step.Next == lifecycle.Ended && state != lifecycle.Ended, step.Do == lifecycle.End,
				"%s × %s", state, in)
			require.Equal(t, step.Do == lifecycle.End, step.Reason != "", "%s × %s", state, in)
		}
		require.Len(t, row, len(lifecycle.Inputs()), "%s", state)
	}
}

// A terminating pod always ends: from every state, with a guest that never reacts until it is killed.
func TestEveryStateEndsAfterStopAndKill(t *testing.T) {
	table := lifecycle.Table()
	for state := range table {
		for _, stop := range []lifecycle.Input{lifecycle.Stop, lifecycle.StopNow} {
			s := state
			for _, in := range []lifecycle.Input{stop, lifecycle.StartDone, lifecycle.Again,
				lifecycle.GracePeriodExpired, lifecycle.Again, lifecycle.GuestKilled} {
				s = table[s][in].Next
			}
			require.Equal(t, lifecycle.Ended, s, "from %s after %s", state, stop)
		}
	}
}

// A guest that was received runs only after the grant: no other input resumes it.
func TestOnlyGrantResumes(t *testing.T) {
	for state, row := range lifecycle.Table() {
		for in, step := range row {
			if step.Do == lifecycle.Resume {
				require.Equal(t, lifecycle.Held, state)
				require.Equal(t, lifecycle.Granted, in)
			}
		}
	}
	for _, state := range []lifecycle.State{lifecycle.Receiving, lifecycle.Held} {
		for in, step := range lifecycle.Table()[state] {
			if in != lifecycle.Granted && step.Next == lifecycle.Running {
				require.Fail(t, "the guest runs", "%s × %s", state, in)
			}
		}
	}
}

func TestStories(t *testing.T) {
	const (
		ask, done, refused, retryable = lifecycle.StartAsked, lifecycle.StartDone, lifecycle.StartRefused,
			lifecycle.StartRetryable
		stop, now, over, again     = lifecycle.Stop, lifecycle.StopNow, lifecycle.GracePeriodExpired, lifecycle.Again
		off, killed, crashed, gone = lifecycle.GuestOff, lifecycle.GuestKilled, lifecycle.GuestCrashed,
			lifecycle.GuestGone
		receive, unfit, arrived, granted, withdraw = lifecycle.ReceiveAsked, lifecycle.ReceiveFailed, lifecycle.Arrived,
			lifecycle.Granted, lifecycle.Withdraw
		leave, left, stayed = lifecycle.LeaveAsked, lifecycle.Left, lifecycle.Stayed
	)
	for name, c := range map[string]struct {
		in     []lifecycle.Input
		do     []lifecycle.Action
		reason string
		ran    bool
		exit   int
	}{
		"guest powers off by itself": {in: []lifecycle.Input{ask, done, off}, reason: contract.ReasonShutdown,
			ran: true},
		"asked to stop, guest obeys": {in: []lifecycle.Input{ask, done, stop, again, off},
			do: []lifecycle.Action{lifecycle.Shutdown, lifecycle.Shutdown}, reason: contract.ReasonShutdown, ran: true},
		"guest ignores the power button": {in: []lifecycle.Input{ask, done, stop, over, killed},
			do: []lifecycle.Action{lifecycle.Shutdown, lifecycle.Destroy}, reason: contract.ReasonDestroyed, ran: true},
		"no grace at all": {in: []lifecycle.Input{ask, done, now, killed},
			do: []lifecycle.Action{lifecycle.Destroy}, reason: contract.ReasonDestroyed, ran: true},
		"killed behind libvirt's back": {in: []lifecycle.Input{ask, done, stop, over, again, crashed},
			do:     []lifecycle.Action{lifecycle.Shutdown, lifecycle.Destroy, lifecycle.Destroy},
			reason: contract.ReasonDestroyed, ran: true},
		"QEMU dies": {in: []lifecycle.Input{ask, done, crashed}, reason: contract.ReasonCrashed,
			ran: true, exit: 1},
		"ended unobserved": {in: []lifecycle.Input{ask, done, gone}, reason: contract.ReasonCrashed,
			ran: true, exit: 1},
		"gone while it was shutting down": {in: []lifecycle.Input{ask, done, stop, gone},
			do: []lifecycle.Action{lifecycle.Shutdown}, reason: contract.ReasonShutdown, ran: true},
		"stopped before anything was asked": {in: []lifecycle.Input{stop}, reason: contract.ReasonNeverRan},
		"stopped while starting": {in: []lifecycle.Input{ask, stop, done, off},
			do: []lifecycle.Action{lifecycle.Shutdown}, reason: contract.ReasonShutdown, ran: true},
		"stopped while a start fails": {in: []lifecycle.Input{ask, stop, refused},
			reason: contract.ReasonNeverRan},
		"cannot be started": {in: []lifecycle.Input{ask, refused}, reason: contract.ReasonFailed,
			exit: 1},
		"started at the second attempt": {in: []lifecycle.Input{ask, retryable, ask, done, off},
			do: []lifecycle.Action{lifecycle.Start}, reason: contract.ReasonShutdown, ran: true},
		"asked twice": {in: []lifecycle.Input{ask, ask, done, ask, off},
			reason: contract.ReasonShutdown, ran: true},
		"over before the start answered": {in: []lifecycle.Input{ask, off, done}, reason: contract.ReasonShutdown,
			ran: true},
		"received and granted": {in: []lifecycle.Input{receive, arrived, granted, granted, off},
			do: []lifecycle.Action{lifecycle.Receive, lifecycle.Resume}, reason: contract.ReasonShutdown, ran: true},
		"received and withdrawn": {in: []lifecycle.Input{receive, arrived, withdraw},
			do: []lifecycle.Action{lifecycle.Receive}, reason: contract.ReasonNotReceived},
		"a grant is nothing before the guest is here": {in: []lifecycle.Input{receive, granted, stop},
			do: []lifecycle.Action{lifecycle.Receive}, reason: contract.ReasonNotReceived},
		"the incoming guest dies": {in: []lifecycle.Input{receive, gone},
			do: []lifecycle.Action{lifecycle.Receive}, reason: contract.ReasonNotReceived},
		"unfit to receive": {in: []lifecycle.Input{receive, unfit, stop},
			do: []lifecycle.Action{lifecycle.Receive}, reason: contract.ReasonNeverRan},
		"moved on after it was received": {in: []lifecycle.Input{receive, arrived, granted, leave, left},
			do:     []lifecycle.Action{lifecycle.Receive, lifecycle.Resume, lifecycle.Leave},
			reason: contract.ReasonMigrated, ran: true},
		"moved": {in: []lifecycle.Input{ask, done, leave, left},
			do: []lifecycle.Action{lifecycle.Leave}, reason: contract.ReasonMigrated, ran: true},
		"not moved": {in: []lifecycle.Input{ask, done, leave, stayed, off},
			do: []lifecycle.Action{lifecycle.Leave}, reason: contract.ReasonShutdown, ran: true},
		"powers off while it is moved": {in: []lifecycle.Input{ask, done, leave, off},
			do: []lifecycle.Action{lifecycle.Leave}, reason: contract.ReasonShutdown, ran: true},
		"stopped while it is moved": {in: []lifecycle.Input{ask, done, leave, stop, again, stayed, off},
			do:     []lifecycle.Action{lifecycle.Leave, lifecycle.Abort, lifecycle.Abort, lifecycle.Shutdown},
			reason: contract.ReasonShutdown, ran: true},
		"moved before it could be stopped": {in: []lifecycle.Input{ask, done, leave, stop, left},
			do: []lifecycle.Action{lifecycle.Leave, lifecycle.Abort}, reason: contract.ReasonMigrated, ran: true},
		"moved before it could be killed": {in: []lifecycle.Input{ask, done, leave, now, left},
			do: []lifecycle.Action{lifecycle.Leave, lifecycle.Destroy}, reason: contract.ReasonMigrated, ran: true},
		"second stop": {in: []lifecycle.Input{ask, done, stop, stop, off},
			do: []lifecycle.Action{lifecycle.Shutdown}, reason: contract.ReasonShutdown, ran: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := lifecycle.New()
			var did []lifecycle.Action
			for _, in := range c.in {
				if a := m.Apply(in); a != "" {
					did = append(did, a)
				}
			}
			want := c.do
			if c.in[0] == ask {
				want = append([]lifecycle.Action{lifecycle.Start}, want...)
			}
			require.Equal(t, append(want, lifecycle.End), did)
			require.Equal(t, lifecycle.Ended, m.State())
			require.Equal(t, c.reason, m.Reason())
			require.Equal(t, c.ran, m.Ran())
			require.Equal(t, c.exit, lifecycle.ExitCode(m.Reason()))
		})
	}
}
