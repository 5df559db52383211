package world

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/lifecycle"
)

// errDied marks an attempt whose worker has died: nothing reports its result.
var errDied = errors.New("the worker has died")

// migration runs an activity of a migration on a node; ok is false for other activities.
func (r *attempts) migration(h *host) (out any, ok bool, err error) {
	ctx := context.Background()
	m := mover{attempts: r, host: h}
	a := &node.Activities{Mover: m}
	switch in := r.input.Interface().(type) {
	case contract.OfferMigrationInput:
		out, err = a.OfferMigration(ctx, in)
	case contract.PrepareTargetInput:
		out, err = a.PrepareTarget(ctx, in)
	case contract.MigrateDomainInput: // the real one also returns when its worker stops
		out, err = m.Migrate(ctx, in, nil)
	case contract.AbortMigrationInput:
		out, err = a.AbortMigration(ctx, in)
	case contract.AdjustMigrationInput:
		out, err = struct{}{}, a.AdjustMigration(ctx, in)
	case contract.FinishTargetInput:
		out, err = a.FinishTarget(ctx, in)
	case contract.WithdrawTargetInput:
		out, err = a.WithdrawTarget(ctx, in)
	case contract.InspectMigrationInput:
		out, err = a.InspectMigration(ctx, in)
	default:
		return nil, false, nil
	}
	if err != nil && !errors.Is(err, errDied) {
		fc := temporal.GetDefaultFailureConverter()
		err = fc.FailureToError(fc.ErrorToFailure(err))
	}
	return out, true, err
}

// mover is the node.Mover of one attempt.
type mover struct {
	*attempts
	host *host
}

var _ node.Mover = mover{}

func refused(why string) error { return &node.RefusedError{Message: why} }

// launcher returns the launcher of a pod on this node, or nil.
func (m mover) launcher(pod string) *launcher {
	if l := m.world.launcherOf(pod); l != nil && !l.dead {
		return l
	}
	return nil
}

// Offer implements node.Mover.
func (m mover) Offer(_ context.Context, in contract.OfferMigrationInput) (out contract.MigrationOffer, err error) {
	l, uid := m.launcher(in.Pod.UID), in.Migration.UID
	switch {
	case l == nil:
		return out, errNoLauncher
	case l.guest.Unmovable != "":
		return out, refused(l.guest.Unmovable)
	case !l.running:
		return out, refused("there is no guest yet")
	}
	if m.host.own.offers[uid] == "" {
		m.host.own.offers[uid] = m.host.asSource(uid)
	}
	return contract.MigrationOffer{
		Fingerprint: m.host.own.offers[uid], Memory: l.domain.GuestMemory, MachineType: l.domain.MachineType,
		Disks: []contract.MigrationDisk{{Name: "root", Target: "vda", Size: 1 << 30, Copied: true}},
	}, nil
}

// PrepareTarget implements node.Mover.
func (m mover) PrepareTarget(
	_ context.Context, in contract.PrepareTargetInput,
) (out contract.PreparedTarget, err error) {
	l, uid := m.launcher(in.Pod.UID), in.Migration.UID
	switch {
	case l == nil:
		return out, errNoLauncher
	case m.host.unsuitable != "":
		return out, refused(m.host.unsuitable)
	case l.receives != uid && (l.receives != "" || l.machine.State() != lifecycle.Idle):
		return out, refused("the launcher of the target has a guest, or waits for another one")
	}
	l.followed = true
	m.host.own.targets[uid] = &target{source: in.Offer.Fingerprint, pod: in.Pod.UID}
	return contract.PreparedTarget{Address: m.host.name + ":8188", Fingerprint: m.host.asTarget(uid), Network: "Pod"}, nil
}

// Migrate begins a session, or finds the existing one, and waits for its end. If a session was lost with its node
// worker, the launcher has the outcome.
func (m mover) Migrate(
	_ context.Context, in contract.MigrateDomainInput, _ func(contract.MigrationProgress),
) (out contract.MigrationOutcome, err error) {
	died := m.world.process(m.queue).hasDied
	uid := in.Migration.UID
	s := m.host.own.sessions[uid]
	if s == nil && m.known(in) == nil && m.host.own.offers[uid] != "" {
		s = &session{world: m.world, host: m.host, in: in, fingerprint: m.host.own.offers[uid], begun: m.now()}
		delete(m.host.own.offers, uid)
		m.host.own.sessions[uid] = s
		s.begin()
	}
	for wait := 75 * time.Millisecond; ; wait = min(wait*9/8, 5*time.Second) {
		switch l := m.launcher(in.Pod.UID); {
		case s != nil && s.outcome != nil:
			return *s.outcome, nil
		case s != nil:
			if s.migrating || m.now().Sub(s.begun) > time.Second {
				m.world.strike(m.name, m.ordinal) // in the middle of the attempt
			}
		case l == nil:
			return contract.MigrationOutcome{Result: contract.ResultLost, Reason: errNoLauncher.Error()}, nil
		default:
			known := m.known(in)
			if known == nil {
				return contract.MigrationOutcome{Result: contract.ResultStayed,
					Reason: "the source's node worker was restarted before the guest was moved"}, nil
			}
			if o := known.outcome(); o != nil {
				return *o, nil
			}
			known.abort("the node's worker that carried it was restarted", true)
		}
		m.pause(wait)
		if died() || !m.now().Before(m.limit) {
			return out, errDied
		}
	}
}

// known returns the migration that the source's launcher was asked for, by this session or an earlier one; nil: none.
func (m mover) known(in contract.MigrateDomainInput) *move {
	if l := m.launcher(in.Pod.UID); l != nil && l.move != nil && l.move.uid == in.Migration.UID {
		return l.move
	}
	return nil
}

// Abort implements node.Mover.
func (m mover) Abort(_ context.Context, in contract.AbortMigrationInput) (found bool, err error) {
	delete(m.host.own.offers, in.Migration.UID)
	if s := m.host.own.sessions[in.Migration.UID]; s != nil {
		found = s.abort(in.Why)
		for until := m.now().Add(20 * time.Second); s.outcome == nil && m.now().Before(until); {
			m.pause(50 * time.Millisecond)
		}
		return found, nil
	}
	l := m.launcher(in.Pod.UID)
	if l == nil || l.move == nil || l.move.uid != in.Migration.UID || l.move.isOver() {
		return false, nil
	}
	l.move.abort(in.Why, true)
	return true, nil
}

// Adjust implements node.Mover.
func (m mover) Adjust(_ context.Context, in contract.AdjustMigrationInput) error {
	l := m.launcher(in.Pod.UID)
	if l == nil {
		return errNoLauncher
	}
	if l.move == nil || l.move.uid != in.Migration.UID || l.move.isOver() {
		return refused("no such migration is under way")
	}
	if in.Pause {
		l.move.disrupt()
	}
	return nil
}

// FinishTarget implements node.Mover.
func (m mover) FinishTarget(
	_ context.Context, in contract.FinishTargetInput,
) (out contract.DomainObservation, err error) {
	l := m.launcher(in.Pod.UID)
	switch {
	case l == nil:
		return out, errNoLauncher
	case in.Proof.By != contract.ProofProcess && in.Proof.By != contract.ProofLibvirt:
		return out, refused("nothing proves that the guest has stopped at its source")
	case !l.grant(in.Migration.UID, in.Proof.Paused):
		return out, refused("no guest of that migration is here")
	}
	for until := m.now().Add(10 * time.Second); !l.resumed; {
		if l.dead || !m.now().Before(until) {
			return out, errNoLauncher
		}
		m.pause(20 * time.Millisecond)
	}
	delete(m.host.own.targets, in.Migration.UID)
	return l.domain, nil
}

// WithdrawTarget implements node.Mover. An absent launcher has no guest, and will not receive one.
func (m mover) WithdrawTarget(_ context.Context, in contract.WithdrawTargetInput) error {
	if l := m.launcher(in.Pod.UID); l != nil {
		if why := l.withdraw(in.Migration.UID); why != "" {
			return refused(why)
		}
	}
	delete(m.host.own.targets, in.Migration.UID)
	return nil
}

// Inspect implements node.Mover.
func (m mover) Inspect(_ context.Context, in contract.InspectMigrationInput) (contract.MigrationTruth, error) {
	uid, s := in.Migration.UID, m.host.own.sessions[in.Migration.UID]
	out := contract.MigrationTruth{Session: s != nil && s.outcome == nil}
	l := m.launcher(in.Pod.UID)
	if l == nil {
		out.Why = errNoLauncher.Error()
		return out, nil
	}
	out.Reached, out.Domain = true, l.domain
	switch {
	case l.move != nil && l.move.uid == uid:
		out.Known, out.Outcome = true, l.move.outcome()
		out.UnderWay = out.Outcome == nil
		if s != nil && s.outcome != nil {
			out.Outcome = s.outcome
		}
	case l.receives == uid:
		held := l.machine.State() == lifecycle.Held
		out.Known, out.Held, out.Granted, out.Resumed = true, held && !l.granted, l.granted, l.resumed
		out.UnderWay = !held && !l.granted
	}
	return out, nil
}

// outcome returns the launcher's outcome; nil: the migration is under way.
func (m *move) outcome() *contract.MigrationOutcome {
	switch m.stage {
	case departed:
		return &contract.MigrationOutcome{Result: contract.ResultSourceOff, Proof: m.proof(), Mode: m.mode()}
	case remained:
		return &contract.MigrationOutcome{Result: contract.ResultStayed, Reason: m.reason, Aborted: m.aborted}
	case endedOff:
		return &contract.MigrationOutcome{Result: contract.ResultGuestEnded, Reason: "the guest has ended"}
	case vanished:
		return &contract.MigrationOutcome{Result: contract.ResultLost, Reason: "the launcher has gone"}
	case copying, switching, arrived:
	}
	return nil
}
