package vmi

import (
	"cmp"
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
)

const (
	// askAfter is how long the migration that holds the reservation may be silent before the entity asks whether it
	// still exists.
	askAfter = 5 * time.Minute
	// askMissingAfter is how often a migration before the hand-off is asked while its workflow does not exist. After
	// orphanTime it counts as gone.
	askMissingAfter = orphanTime / 2
)

// Reservation is the instance's consent to one migration: no other begins before that has ended.
type Reservation struct {
	Migration contract.Object `json:"migration"`
	// Stage is the last stage that the migration has reported, and State its status.migrationState (nil before
	// StageHandOff).
	Stage contract.MigrationStage  `json:"stage"`
	State *contract.MigrationState `json:"state,omitempty"`
	// Domain is the target's, at StageMoved.
	Domain *contract.DomainObservation `json:"domain,omitempty"`
	// Written is the last stage that the status shows.
	Written contract.MigrationStage `json:"written"`
	// Events are yet to be recorded. Recorded has the messages of those that were.
	Events   []contract.Event `json:"events,omitempty"`
	Recorded []string         `json:"recorded,omitempty"`
	// Source is the pod that the guest ran in when the reservation was made.
	Source     contract.Object `json:"source,omitzero"`
	SourceNode string          `json:"sourceNode,omitempty"`
	// LastAnswer is the last answer. AnswerDue means that another is due although nothing has changed.
	LastAnswer contract.ClaimObservation `json:"told,omitzero"`
	AnswerDue  bool                      `json:"asked,omitempty"`
	// ConfirmedAt is when the migration was last known to exist, AskAt when it is asked next, and MissingSince when a
	// signal first found no workflow of it.
	ConfirmedAt  time.Time `json:"heardAt,omitzero"`
	AskAt        time.Time `json:"askAt,omitzero"`
	MissingSince time.Time `json:"missingSince,omitzero"`
	// CopyingBy is until when the status does not show yet that the guest is being copied.
	CopyingBy time.Time `json:"copyingBy,omitzero"`
	// Progress is the progress of the copy that the status shows, ProgressFrom when it was first shown, and ProgressAt
	// when it last changed.
	Progress     contract.MigrationProgress `json:"progress,omitzero"`
	ProgressFrom time.Time                  `json:"progressFrom,omitzero"`
	ProgressAt   time.Time                  `json:"progressAt,omitzero"`
	// TargetSearched means that the pods were read because the target's pod was unknown.
	TargetSearched bool `json:"soughtTarget,omitempty"`
}

// askNow makes the question whether the migration still exists due at once.
func (r *Reservation) askNow() {
	if r != nil {
		r.ConfirmedAt, r.AskAt = time.Time{}, time.Time{}
	}
}

// scheduleQuestion sets when the migration is asked next whether it still exists.
func (r *Reservation) scheduleQuestion(now time.Time) {
	switch due := r.ConfirmedAt.Add(askAfter); {
	case r.AskAt.IsZero():
		r.AskAt = now // adopted from the status: the migration has to know that it holds the reservation
	case !now.Before(r.AskAt) && now.Before(due):
		r.AskAt = due
	}
}

// noteMissing records that no workflow exists for the migration.
func (r *Reservation) noteMissing(now time.Time) {
	r.AskAt = now.Add(askAfter)
	if r.Stage == contract.StageClaim {
		r.AskAt = now.Add(askMissingAfter)
	}
	if r.MissingSince.IsZero() {
		r.MissingSince = now
	}
}

// isUnconfirmed reports whether it is unknown that the migration still exists.
func (r *Reservation) isUnconfirmed() bool { return r.ConfirmedAt.IsZero() || !r.MissingSince.IsZero() }

// isReplacedBy reports whether the request comes from the next migration of the same name. The workflow of a name
// continues to the next object only after it is done with the one before.
func (r *Reservation) isReplacedBy(c contract.MigrationClaim) bool {
	return r.Stage == contract.StageClaim && r.Migration.Name == c.Migration.Name && r.Migration.UID != c.Migration.UID
}

// hasEnded reports whether the migration has ended.
func (r *Reservation) hasEnded() bool { return isFinalStage(r.Stage) }

func isFinalStage(stage contract.MigrationStage) bool {
	return stage == contract.StageMoved || stage == contract.StageStayed
}

// stageRank returns the order of an open stage, and -1 for a final one.
func stageRank(stage contract.MigrationStage) int {
	return slices.Index([]contract.MigrationStage{contract.StageClaim, contract.StageHandOff, contract.StageCopying},
		stage)
}

// isWellFormed reports whether a signal names a migration and a stage, with the status that belongs to the stage.
func isWellFormed(c contract.MigrationClaim) bool {
	if c.Migration.UID == "" {
		return false
	}
	return isFinalStage(c.Stage) || c.Stage == contract.StageClaim || stageRank(c.Stage) > 0 && c.State != nil
}

// endStage returns the final stage of a migration that has ended.
func endStage(state *contract.MigrationState) contract.MigrationStage {
	if state.Failed {
		return contract.StageStayed
	}
	return contract.StageMoved
}

// openStage returns the stage of a migration that is open in the status.
func openStage(state *contract.MigrationState) contract.MigrationStage {
	if state.Start.IsZero() {
		return contract.StageHandOff
	}
	return contract.StageCopying
}

// observe folds in a signal of the migration that holds the reservation. Any signal confirms that the migration exists,
// and is answered. An older stage than the known one changes neither stage nor state; nothing changes a final one.
func (r *Reservation) observe(c contract.MigrationClaim, now time.Time) {
	r.Migration, r.AnswerDue, r.ConfirmedAt, r.MissingSince = c.Migration, true, now, time.Time{}
	if r.AskAt.IsZero() {
		r.AskAt = now.Add(askAfter)
	}
	isOlder := !isFinalStage(c.Stage) && stageRank(c.Stage) < stageRank(r.Stage)
	if r.hasEnded() || isOlder || c.Stage == contract.StageClaim {
		return
	}
	r.Stage, r.State = c.Stage, cmp.Or(c.State, r.State)
	if r.State == nil && r.Stage == contract.StageMoved {
		r.State = &contract.MigrationState{MigrationUID: r.Migration.UID}
	}
	if c.Domain != nil {
		r.Domain = c.Domain
	}
	r.addEvents(c.Events)
	if r.hasEnded() {
		r.complete(now, "")
	}
	if r.State == nil { // there is nothing to write
		r.Written = r.Stage
	}
}

// addEvents adds the events that are not known yet.
func (r *Reservation) addEvents(events []contract.Event) {
	for _, e := range events {
		same := func(known contract.Event) bool { return known.Message == e.Message }
		if !slices.Contains(r.Recorded, e.Message) && !slices.ContainsFunc(r.Events, same) {
			r.Events = append(slices.Clone(r.Events), e)
		}
	}
}

// complete fills in the final status.migrationState.
func (r *Reservation) complete(now time.Time, why string) {
	if r.State == nil {
		return
	}
	state := *r.State
	state.Completed, state.Failed = true, r.Stage == contract.StageStayed
	if state.End.IsZero() {
		state.End = now.Truncate(time.Second)
	}
	if state.Failed {
		state.FailureReason = cmp.Or(state.FailureReason, why)
	}
	r.State = &state
}

// endStayed ends the migration without a move: the guest is where it was, or has ended.
func (r *Reservation) endStayed(now time.Time, why string) {
	r.Stage = contract.StageStayed
	if r.complete(now, why); r.State == nil {
		r.Written = r.Stage
	}
}

// adopt takes the stage that the status shows, where this state is an older copy.
func (r *Reservation) adopt(state *contract.MigrationState) {
	switch {
	case r.hasEnded():
	case state.Ended():
		r.Stage, r.State = endStage(state), state
		r.Written = r.Stage
	case r.State == nil:
		r.Stage, r.State = openStage(state), state
		r.Written = r.Stage
	}
}
