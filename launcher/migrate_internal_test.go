package launcher

import (
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/lifecycle"
	"github.com/virtflow/virtflow/launcher/migration"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// moving returns a launcher whose guest is being moved.
func moving(t *testing.T) *Launcher {
	t.Helper()
	l := New(Config{}, nil, Tools{}, zerolog.Nop())
	for _, in := range []lifecycle.Input{lifecycle.StartAsked, lifecycle.StartDone, lifecycle.LeaveAsked} {
		l.machine.Apply(in)
	}
	l.outgoing.session.Store(migration.NewSession("uid", nil, guest.Move{}, nil, false, zerolog.Nop()))
	return l
}

func TestEndOfMovingGuestWaitsForSession(t *testing.T) {
	left := &rpc.MigrationEvent{Event: &rpc.MigrationEvent_Left{Left: &rpc.MigrationLeft{}}}
	crashed := &rpc.MigrationEvent{Event: &rpc.MigrationEvent_Ended{
		Ended: &rpc.MigrationGuestEnded{Reason: string(guest.Gone)}}}
	stayed := &rpc.MigrationEvent{Event: &rpc.MigrationEvent_Stayed{Stayed: &rpc.MigrationStayed{}}}
	for name, c := range map[string]struct {
		outcome *rpc.MigrationEvent
		want    lifecycle.Input
	}{
		"it had stayed, and ended then": {outcome: stayed, want: lifecycle.GuestCrashed},
		"it had left":                   {outcome: left, want: lifecycle.Left},
		"it had not left":               {outcome: crashed, want: lifecycle.GuestCrashed},
	} {
		t.Run(name, func(t *testing.T) {
			o := &moving(t).outgoing
			require.Empty(t, o.deferEnd(lifecycle.GuestCrashed))
			require.NotNil(t, o.endDue)
			require.Equal(t, c.want, o.settle(c.outcome))
			require.Nil(t, o.endDue)
		})
	}
	require.Equal(t, lifecycle.Left, moving(t).outgoing.deferEnd(lifecycle.Left), "libvirt's word is proof")
	require.Empty(t, moving(t).outgoing.deferEnd(""))
	require.Equal(t, lifecycle.Stayed, moving(t).outgoing.settle(stayed))
	require.Equal(t, lifecycle.GuestGone, moving(t).outgoing.settle(crashed), "the outcome is unknown")
}

// TestTerminationMessageHasPausedByUser: after a move the target resumes the guest, or not, by this message alone.
func TestTerminationMessageHasPausedByUser(t *testing.T) {
	l := moving(t)
	require.False(t, l.terminationMessage(contract.ReasonMigrated).Paused)
	l.outgoing.session.Store(migration.NewSession("uid", nil, guest.Move{}, nil, true, zerolog.Nop()))
	require.True(t, l.terminationMessage(contract.ReasonMigrated).Paused)
	require.False(t, l.terminationMessage(contract.ReasonShutdown).Paused)
	l.outgoing.session.Store(nil)
	require.Equal(t, contract.TerminationMessage{Reason: contract.ReasonMigrated, Ran: true},
		l.terminationMessage(contract.ReasonMigrated))
}

// TestRefusesOperationsOnMovingGuest: operations are refused on a guest that is moving, and on one that has not been
// received yet.
func TestRefusesOperationsOnMovingGuest(t *testing.T) {
	require.ErrorContains(t, moving(t).checkNotMoving(), "is being migrated")
	l := New(Config{}, nil, Tools{}, zerolog.Nop())
	require.NoError(t, l.checkNotMoving())
	l.incoming.update(func(r *receiving) { r.migration = "uid" })
	require.ErrorContains(t, l.checkNotMoving(), "is being received")
	l.incoming.update(func(r *receiving) { r.granted, r.resumed = true, true })
	require.NoError(t, l.checkNotMoving())
}

func TestTargetResumesOnlyWithItsOwnGrant(t *testing.T) {
	target := func(states ...lifecycle.Input) *Launcher {
		l := New(Config{}, nil, Tools{}, zerolog.Nop())
		for _, in := range append([]lifecycle.Input{lifecycle.ReceiveAsked}, states...) {
			l.machine.Apply(in)
		}
		l.incoming.update(func(r *receiving) { r.migration = "uid" })
		return l
	}
	grant := func(l *Launcher, uid string) (lifecycle.Input, error) {
		c := call[*rpc.FinishMigrationRequest]{&rpc.FinishMigrationRequest{Migration: uid}, make(chan error, 1)}
		in := l.grant(c)
		return in, <-c.answer
	}
	in, err := grant(target(lifecycle.Arrived), "other")
	require.Empty(t, in)
	require.ErrorContains(t, err, "this launcher has no guest of that migration")
	in, err = grant(target(lifecycle.Arrived), "uid")
	require.Equal(t, lifecycle.Granted, in)
	require.NoError(t, err)
	early := target()
	in, err = grant(early, "uid")
	require.Empty(t, in, "it waits for the guest")
	require.NoError(t, err)
	require.True(t, early.incoming.get().granted)

	// A guest that may already run is not withdrawn.
	w := call[*rpc.WithdrawTargetRequest]{&rpc.WithdrawTargetRequest{Migration: "uid"}, make(chan error, 1)}
	require.Empty(t, early.withdraw(w))
	require.ErrorContains(t, <-w.answer, "may already run here")
	require.Equal(t, lifecycle.Withdraw, target().withdraw(w))
	require.NoError(t, <-w.answer)
}

func TestTargetShowsItsState(t *testing.T) {
	const target = rpc.MigrationRole_MIGRATION_ROLE_TARGET
	for name, c := range map[string]struct {
		state receiving
		want  *rpc.MigrationStatusResponse
	}{
		"none":          {receiving{}, &rpc.MigrationStatusResponse{}},
		"failed":        {receiving{asked: true}, &rpc.MigrationStatusResponse{}},
		"expected":      {receiving{}, &rpc.MigrationStatusResponse{UnderWay: true}},
		"held":          {receiving{held: true}, &rpc.MigrationStatusResponse{Held: true}},
		"granted early": {receiving{granted: true}, &rpc.MigrationStatusResponse{Granted: true}},
		"granted":       {receiving{held: true, granted: true}, &rpc.MigrationStatusResponse{Granted: true}},
		"resumed": {receiving{held: true, granted: true, resumed: true},
			&rpc.MigrationStatusResponse{Granted: true, Resumed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "none" && name != "failed" {
				c.state.migration, c.want.Migration, c.want.Role = "uid", "uid", target
			}
			require.Truef(t, proto.Equal(c.want, c.state.status()), "%v", c.state.status())
			require.Equal(t, c.state.migration != "" && !c.state.resumed, c.state.isArriving())
		})
	}
}
