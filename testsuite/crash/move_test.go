//go:build crash

package crash

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/contract"
)

// Durations of a guest's copy, and of its pause.
const (
	copyTime   = 300 * time.Millisecond
	switchTime = 20 * time.Millisecond
)

// move is a guest's migration from one pod to another. It does not depend on an activity.
type move struct {
	uid              string
	source, target   string // UIDs of pods
	begun, aborted   bool
	granted, resumed bool
	outcome          *contract.MigrationOutcome
	ended            chan struct{}
}

// mover is the node workers' part in migrations, with simulated launchers, for both nodes.
type mover struct{ machine *machine }

var _ node.Mover = mover{}

// do calls f on the machine's goroutine.
func do[Out any](ctx context.Context, m mover, f func() (Out, error)) (out Out, err error) {
	done := make(chan struct{})
	m.machine.work <- func() {
		out, err = f()
		close(done)
	}
	select {
	case <-done:
		return out, err
	case <-ctx.Done():
		var none Out
		return none, ctx.Err()
	}
}

// alive returns the launcher of a pod, or nil.
func (m mover) alive(pod string) *launcher {
	if l := m.machine.launchers[pod]; l != nil && !l.ended {
		return l
	}
	return nil
}

// of returns the move of a migration.
func (m mover) of(uid string) *move {
	if m.machine.moves[uid] == nil {
		m.machine.moves[uid] = &move{uid: uid, ended: make(chan struct{})}
	}
	return m.machine.moves[uid]
}

// Offer implements node.Mover.
func (m mover) Offer(ctx context.Context, in contract.OfferMigrationInput) (contract.MigrationOffer, error) {
	return do(ctx, m, func() (out contract.MigrationOffer, err error) {
		l := m.alive(in.Pod.UID)
		if l == nil || !l.ran {
			return out, errors.New("no launcher answers")
		}
		return contract.MigrationOffer{Fingerprint: "source-" + in.Migration.UID, Memory: 128 << 20}, nil
	})
}

// PrepareTarget implements node.Mover.
func (m mover) PrepareTarget(ctx context.Context, in contract.PrepareTargetInput) (contract.PreparedTarget, error) {
	return do(ctx, m, func() (out contract.PreparedTarget, err error) {
		l := m.alive(in.Pod.UID)
		switch {
		case l == nil:
			return out, errors.New("no launcher answers")
		case l.ran:
			return out, &node.RefusedError{Message: "the launcher has a guest"}
		}
		m.of(in.Migration.UID).target = in.Pod.UID
		return contract.PreparedTarget{Address: "10.0.0.2:8188", Fingerprint: "target-" + in.Migration.UID,
			Network: "Pod"}, nil
	})
}

// Migrate implements node.Mover: it begins a move, or follows an existing one.
func (m mover) Migrate(
	ctx context.Context, in contract.MigrateDomainInput, progress func(contract.MigrationProgress),
) (out contract.MigrationOutcome, err error) {
	v, err := do(ctx, m, func() (*move, error) {
		v := m.of(in.Migration.UID)
		if v.begun {
			return v, nil
		}
		v.begun, v.source = true, in.Pod.UID
		if m.alive(v.source) == nil || m.alive(v.target) == nil {
			m.end(v, contract.MigrationOutcome{Result: contract.ResultStayed, Reason: "an end is missing"})
			return v, nil
		}
		m.machine.after(copyTime, func() { m.leave(v) })
		return v, nil
	})
	if err != nil {
		return out, err
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	progress(contract.MigrationProgress{UID: v.uid})
	for {
		select {
		case <-v.ended:
			return *v.outcome, nil
		case <-tick.C:
			progress(contract.MigrationProgress{UID: v.uid})
		case <-ctx.Done():
			return out, ctx.Err()
		}
	}
}

func (m mover) end(v *move, o contract.MigrationOutcome) {
	if v.outcome == nil {
		v.outcome = &o
		close(v.ended)
	}
}

// leave ends the copy.
func (m mover) leave(v *move) {
	from, to := m.alive(v.source), m.alive(v.target)
	switch {
	case v.outcome != nil:
	case from == nil:
		m.end(v, contract.MigrationOutcome{Result: contract.ResultGuestEnded, Reason: "the guest has ended"})
	case to == nil || v.aborted:
		m.end(v, contract.MigrationOutcome{Result: contract.ResultStayed, Reason: "the target has gone"})
	default:
		m.machine.off(from, contract.DomainShutoff, contract.ReasonMigrated)
		m.machine.after(switchTime, func() {
			if err := m.resume(v); err != nil {
				m.end(v, contract.MigrationOutcome{Result: contract.ResultSourceOff, Reason: err.Error(),
					Proof: &contract.MigrationProof{By: contract.ProofProcess}})
				return
			}
			d := m.machine.launchers[v.target].domain
			m.end(v, contract.MigrationOutcome{Result: contract.ResultMoved, Target: &d, Mode: "PreCopy",
				Proof: &contract.MigrationProof{By: contract.ProofProcess},
				Stats: contract.MigrationStats{TotalMs: 320, DowntimeMs: 20}})
		})
	}
}

// resume resumes the guest at the target, once.
func (m mover) resume(v *move) error {
	l := m.alive(v.target)
	if l == nil {
		return errors.New("no launcher answers")
	}
	if v.resumed {
		return nil
	}
	key := l.namespace + "/" + l.vmi
	m.machine.mu.Lock()
	other := m.machine.running[key]
	m.machine.running[key] = l.podUID
	m.machine.mu.Unlock()
	if other != "" {
		m.machine.breakf("two domains of %s: in pods %s and %s", key, other, l.podUID)
	}
	v.granted, v.resumed, l.ran = true, true, true
	l.domain = contract.DomainObservation{PodUID: l.podUID, Sequence: 3, State: contract.DomainRunning,
		MachineType: "pc-q35-7.2"}
	m.machine.reportDomain(l)
	return nil
}

// Abort implements node.Mover.
func (m mover) Abort(ctx context.Context, in contract.AbortMigrationInput) (bool, error) {
	return do(ctx, m, func() (bool, error) {
		v := m.of(in.Migration.UID)
		found := v.begun && v.outcome == nil
		v.begun, v.aborted = true, true
		if found && m.alive(v.source) != nil {
			m.end(v, contract.MigrationOutcome{Result: contract.ResultStayed, Reason: in.Why, Aborted: true})
		}
		return found, nil
	})
}

// Adjust implements node.Mover.
func (m mover) Adjust(context.Context, contract.AdjustMigrationInput) error { return nil }

// FinishTarget implements node.Mover.
func (m mover) FinishTarget(
	ctx context.Context, in contract.FinishTargetInput,
) (contract.DomainObservation, error) {
	return do(ctx, m, func() (out contract.DomainObservation, err error) {
		v := m.of(in.Migration.UID)
		if v.target != in.Pod.UID {
			return out, &node.RefusedError{Message: "no guest of that migration is here"}
		}
		if err := m.resume(v); err != nil {
			return out, err
		}
		return m.machine.launchers[v.target].domain, nil
	})
}

// WithdrawTarget implements node.Mover.
func (m mover) WithdrawTarget(ctx context.Context, in contract.WithdrawTargetInput) error {
	_, err := do(ctx, m, func() (none struct{}, err error) {
		l := m.alive(in.Pod.UID)
		switch v := m.of(in.Migration.UID); {
		case l == nil:
		case l.ran || v.granted:
			return none, &node.RefusedError{Message: "the guest may run here already"}
		default:
			m.machine.off(l, contract.DomainShutoff, contract.ReasonNotReceived)
		}
		return none, nil
	})
	return err
}

// Inspect implements node.Mover.
func (m mover) Inspect(ctx context.Context, in contract.InspectMigrationInput) (contract.MigrationTruth, error) {
	return do(ctx, m, func() (out contract.MigrationTruth, err error) {
		v, l := m.of(in.Migration.UID), m.alive(in.Pod.UID)
		out.Session = v.begun && v.outcome == nil && v.source == in.Pod.UID
		if l == nil {
			out.Why = fmt.Sprintf("no launcher of pod %s answers", in.Pod.UID)
			return out, nil
		}
		out.Reached, out.Domain = true, l.domain
		switch in.Pod.UID {
		case v.source:
			out.Known, out.UnderWay, out.Outcome = v.begun, v.begun && v.outcome == nil, v.outcome
		case v.target:
			out.Known, out.UnderWay = true, !v.granted
			out.Granted, out.Resumed = v.granted, v.resumed
		}
		return out, nil
	})
}
