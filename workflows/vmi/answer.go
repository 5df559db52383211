package vmi

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Answer is an answer to a migration that does not hold the reservation.
type Answer struct {
	Migration   contract.Object           `json:"migration"`
	Observation contract.ClaimObservation `json:"observation"`
}

// queueAnswer queues an answer to a migration that does not hold the reservation. It replaces an earlier answer to the
// same one.
func (m *Migrations) queueAnswer(c contract.MigrationClaim, o contract.ClaimObservation, in scope) {
	o.Migration, o.VMIUID, o.Phase, o.Deleting = c.Migration.UID, in.Object.UID, string(in.phase), in.isDeleting()
	m.Answers = slices.DeleteFunc(slices.Clone(m.Answers), func(a Answer) bool {
		return a.Migration.UID == c.Migration.UID
	})
	m.Answers = append(m.Answers, Answer{Migration: c.Migration, Observation: o})
}

// migrationAnswer returns the current answer to the migration that holds the reservation.
func (m *Migrations) migrationAnswer(in scope) contract.ClaimObservation {
	r := m.Migration
	o := contract.ClaimObservation{
		Migration: r.Migration.UID, VMIUID: in.Object.UID, State: contract.ClaimGiven, Stage: r.Written,
		SourcePod: r.Source, SourceNode: r.SourceNode, GuestMemory: r.LastAnswer.GuestMemory, Phase: string(in.phase),
		Deleting: in.isDeleting(),
	}
	if in.Domain != nil && in.Domain.GuestMemory > 0 {
		o.GuestMemory = in.Domain.GuestMemory
	}
	if !r.hasEnded() {
		o.Progress = r.Progress
	}
	if r.hasEnded() && r.Written == r.Stage {
		o.State = contract.ClaimReleased
	}
	return o
}

// nextAnswer returns the next answer, the migration that it is for, and whether it is due.
func (m *Migrations) nextAnswer(in scope, now time.Time) (
	to contract.Object, o contract.ClaimObservation, due bool,
) {
	if len(m.Answers) > 0 {
		a := m.Answers[0]
		return a.Migration, a.Observation, true
	}
	r := m.Migration
	if r == nil || r.Migration.Name == "" {
		return to, o, false
	}
	o = m.migrationAnswer(in)
	news := o
	news.Sequence = r.LastAnswer.Sequence
	asked := r.AnswerDue && r.Written == r.Stage
	return r.Migration, o, asked || news != r.LastAnswer || !r.hasEnded() && !now.Before(r.AskAt)
}

// nextSequence returns the sequence of the next answer. It derives from the clock, so that it grows even where the
// state was lost.
func (m *Migrations) nextSequence(now time.Time) int64 {
	m.Sequence = max(m.Sequence+1, now.UnixMilli())
	return m.Sequence
}

// noteAnswer records that an answer was sent. Found is false if the migration's workflow does not exist. Sequences grow
// even where the state was lost between two answers.
func (m *Migrations) noteAnswer(
	to contract.Object, o contract.ClaimObservation, found bool, in scope, now time.Time,
) {
	if len(m.Answers) > 0 && m.Answers[0].Migration.UID == to.UID {
		m.Answers = slices.Clone(m.Answers[1:])
		return
	}
	r := m.Migration
	if r == nil || r.Migration.UID != to.UID {
		return
	}
	r.LastAnswer, r.AnswerDue = o, false
	switch {
	case o.State == contract.ClaimReleased:
		m.releaseMigration()
	case found:
		r.ConfirmedAt, r.MissingSince = now, time.Time{}
	default:
		m.noteMissing(in, now)
	}
}

// answerMigration sends a migration the instance's answer. An answer that is lost is sent again when the migration
// repeats its request, or when this entity asks whether the migration still exists.
func (e *instance) answerMigration(ctx workflow.Context) {
	s := &e.state
	now := workflow.Now(ctx)
	to, o, due := s.nextAnswer(s.scope(), now)
	if !due {
		return
	}
	o.Sequence = s.nextSequence(now)
	found, err := entity.SignalOther(ctx, contract.MigrationID(to.Namespace, to.Name), contract.SignalObserveClaim, o)
	if err != nil {
		workflow.GetLogger(ctx).Warn("failed to answer migration", "migration", to.Name, "error", err)
	}
	s.noteAnswer(to, o, found || err != nil, s.scope(), now)
}
