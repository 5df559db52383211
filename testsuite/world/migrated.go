package world

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/launcher/lifecycle"
	"github.com/virtflow/virtflow/workflows/contract"
)

// errDied is what nobody hears: the worker that would say so has gone.
var errDied = errors.New("the worker has died")

// registerMigration registers a node worker's activities of migrations, for their inputs: perform does them.
func (a *activities) registerMigration() {
	for name, f := range map[string]any{
		contract.ActivityOfferMigration:   played[contract.OfferMigrationInput, contract.MigrationOffer],
		contract.ActivityPrepareTarget:    played[contract.PrepareTargetInput, contract.PreparedTarget],
		contract.ActivityMigrateDomain:    played[contract.MigrateDomainInput, contract.MigrationOutcome],
		contract.ActivityAbortMigration:   played[contract.AbortMigrationInput, contract.AbortMigrationResult],
		contract.ActivityAdjustMigration:  played[contract.AdjustMigrationInput, struct{}],
		contract.ActivityFinishTarget:     played[contract.FinishTargetInput, contract.FinishTargetResult],
		contract.ActivityWithdrawTarget:   played[contract.WithdrawTargetInput, contract.WithdrawTargetResult],
		contract.ActivityInspectMigration: played[contract.InspectMigrationInput, contract.MigrationTruth],
	} {
		a.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

func played[In, Out any](context.Context, In) (out Out, err error) {
	return out, errors.New("the world plays this")
}

// migration does one of them; false: it is none.
func (r *attempts) migration(h *host) (any, error, bool) {
	var out any
	var err error
	switch in := r.input.Interface().(type) {
	case contract.OfferMigrationInput:
		out, err = r.offer(h, in)
	case contract.PrepareTargetInput:
		out, err = r.prepareTarget(h, in)
	case contract.MigrateDomainInput:
		out, err = r.migrateDomain(h, in)
	case contract.AbortMigrationInput:
		out, err = r.abortMigration(h, in)
	case contract.AdjustMigrationInput:
		out, err = r.adjust(in)
	case contract.FinishTargetInput:
		out, err = r.finishTarget(in)
	case contract.WithdrawTargetInput:
		out, err = r.withdrawTarget(h, in)
	case contract.InspectMigrationInput:
		out, err = r.inspect(h, in), nil
	default:
		return nil, nil, false
	}
	if err != nil && !errors.Is(err, errDied) {
		fc := temporal.GetDefaultFailureConverter()
		err = fc.FailureToError(fc.ErrorToFailure(err))
	}
	return out, err, true
}

func noLauncher() error {
	return temporal.NewApplicationError(errNoLauncher.Error(), contract.ErrorNoLauncher)
}

func unsuitable(why string) error {
	return temporal.NewNonRetryableApplicationError(why, contract.ErrorUnsuitable, nil)
}

func refused(why string) error {
	return temporal.NewNonRetryableApplicationError(why, contract.RefusedFailed, nil)
}

// launcher is the one of a pod on this node.
func (r *attempts) launcher(pod string) *launcher {
	if l := r.world.launcherOf(pod); l != nil && !l.dead {
		return l
	}
	return nil
}

func (r *attempts) offer(h *host, in contract.OfferMigrationInput) (out contract.MigrationOffer, err error) {
	l := r.launcher(in.Pod.UID)
	switch {
	case l == nil:
		return out, noLauncher()
	case l.guest.Unmovable != "":
		return out, unsuitable(l.guest.Unmovable)
	case !l.running:
		return out, unsuitable("there is no guest")
	}
	if h.own.offers[in.Migration.UID] == "" {
		h.own.offers[in.Migration.UID] = h.asSource(in.Migration.UID)
	}
	return contract.MigrationOffer{
		Fingerprint: h.own.offers[in.Migration.UID], Memory: l.domain.GuestMemory, MachineType: l.domain.MachineType,
		Disks: []contract.MigrationDisk{{Name: "root", Target: "vda", Size: 1 << 30, Copied: true}},
	}, nil
}

func (r *attempts) prepareTarget(h *host, in contract.PrepareTargetInput) (out contract.PreparedTarget, err error) {
	l := r.launcher(in.Pod.UID)
	switch {
	case l == nil:
		return out, noLauncher()
	case h.unsuitable != "":
		return out, unsuitable(h.unsuitable)
	case l.running && l.receives != in.Migration.UID:
		return out, unsuitable("the launcher of the target has a guest, or waits for another one")
	}
	l.followed = true
	h.own.targets[in.Migration.UID] = &target{source: in.Offer.Fingerprint, pod: in.Pod.UID}
	return contract.PreparedTarget{Address: h.name + ":8188", Fingerprint: h.asTarget(in.Migration.UID),
		Network: "Pod"}, nil
}

// migrateDomain begins a session, or finds the one that was begun, and waits for its end. Where a session has gone with
// its worker, the launcher knows.
func (r *attempts) migrateDomain(h *host, in contract.MigrateDomainInput) (out contract.MigrationOutcome, err error) {
	died := r.world.process(r.queue).died
	uid := in.Migration.UID
	s := h.own.sessions[uid]
	if s == nil && h.own.offers[uid] != "" {
		s = &session{world: r.world, host: h, in: in, fingerprint: h.own.offers[uid], begun: r.now()}
		delete(h.own.offers, uid)
		h.own.sessions[uid] = s
		s.begin()
	}
	for {
		switch {
		case s != nil && s.outcome != nil:
			return *s.outcome, nil
		case s == nil:
			if o := r.known(in); o != nil {
				return *o, nil
			}
		}
		r.pause(75 * time.Millisecond)
		switch {
		case died():
			return out, errDied
		case !r.now().Before(r.limit):
			return out, errDied
		}
		if s != nil && (s.migrating || r.now().Sub(s.begun) > time.Second) {
			r.world.strike(r.name, r.ordinal) // in the middle of it
		}
	}
}

// known is what the source's launcher knows of a migration that has no session here; nil: it goes on.
func (r *attempts) known(in contract.MigrateDomainInput) *contract.MigrationOutcome {
	l := r.launcher(in.Pod.UID)
	switch {
	case l == nil:
		return &contract.MigrationOutcome{Result: contract.ResultLost, Reason: errNoLauncher.Error()}
	case l.move == nil || l.move.uid != in.Migration.UID:
		return &contract.MigrationOutcome{Result: contract.ResultStayed,
			Reason: "the source's node worker was restarted before the guest was moved"}
	}
	return l.move.outcome()
}

// outcome is the launcher's; nil: it goes on.
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

func (r *attempts) abortMigration(h *host, in contract.AbortMigrationInput) (contract.AbortMigrationResult, error) {
	delete(h.own.offers, in.Migration.UID)
	if s := h.own.sessions[in.Migration.UID]; s != nil {
		found := s.abort(in.Why)
		for until := r.now().Add(20 * time.Second); s.outcome == nil && r.now().Before(until); {
			r.pause(50 * time.Millisecond)
		}
		return contract.AbortMigrationResult{Found: found}, nil
	}
	l := r.launcher(in.Pod.UID)
	if l == nil || l.move == nil || l.move.uid != in.Migration.UID || l.move.over() {
		return contract.AbortMigrationResult{}, nil
	}
	l.move.abort(in.Why, true)
	return contract.AbortMigrationResult{Found: true}, nil
}

func (r *attempts) adjust(in contract.AdjustMigrationInput) (struct{}, error) {
	l := r.launcher(in.Pod.UID)
	if l == nil {
		return struct{}{}, noLauncher()
	}
	if l.move == nil || l.move.uid != in.Migration.UID || l.move.over() {
		return struct{}{}, refused("no such migration is under way")
	}
	if in.Pause {
		l.move.disrupt()
	}
	return struct{}{}, nil
}

func (r *attempts) finishTarget(in contract.FinishTargetInput) (out contract.FinishTargetResult, err error) {
	l := r.launcher(in.Pod.UID)
	switch {
	case l == nil:
		return out, noLauncher()
	case in.Proof.By != contract.ProofProcess && in.Proof.By != contract.ProofLibvirt:
		return out, refused("nothing proves that the guest has stopped at its source")
	case !l.grant(in.Migration.UID, in.Proof.Paused):
		return out, refused("no guest of that migration is here")
	}
	for until := r.now().Add(10 * time.Second); !l.resumed; {
		if l.dead || !r.now().Before(until) {
			return out, noLauncher()
		}
		r.pause(20 * time.Millisecond)
	}
	return contract.FinishTargetResult{Domain: l.domain}, nil
}

func (r *attempts) withdrawTarget(h *host, in contract.WithdrawTargetInput) (contract.WithdrawTargetResult, error) {
	delete(h.own.targets, in.Migration.UID)
	l := r.launcher(in.Pod.UID)
	if l == nil { // it has no guest, and gets none any more
		return contract.WithdrawTargetResult{}, nil
	}
	return contract.WithdrawTargetResult{Refused: l.withdraw(in.Migration.UID)}, nil
}

func (r *attempts) inspect(h *host, in contract.InspectMigrationInput) contract.MigrationTruth {
	uid, s := in.Migration.UID, h.own.sessions[in.Migration.UID]
	out := contract.MigrationTruth{Session: s != nil && s.outcome == nil}
	l := r.launcher(in.Pod.UID)
	if l == nil {
		out.Why = errNoLauncher.Error()
		return out
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
	return out
}
