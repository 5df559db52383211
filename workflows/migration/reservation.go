package migration

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Claim is this migration's reservation of its instance: what was requested last, and the instance's answer.
type Claim struct {
	// Stage is the one that was requested last ("": none), and Tries how often.
	Stage contract.MigrationStage `json:"stage,omitempty"`
	Tries int                     `json:"tries,omitempty"`
	// AskAt is when the request is sent again without an answer.
	AskAt time.Time `json:"askAt,omitzero"`
	// Missing is set when the instance has no workflow.
	Missing bool `json:"missing,omitempty"`

	// Sequence is the newest answer's, and all below are its contents.
	Sequence    int64                   `json:"sequence,omitempty"`
	State       contract.ClaimState     `json:"state,omitempty"`
	Why         string                  `json:"why,omitempty"`
	MayAskAgain bool                    `json:"again,omitempty"`
	Reached     contract.MigrationStage `json:"reached,omitempty"`
	// Seen is the furthest stage that the instance's status has shown, whichever run requested it.
	Seen contract.MigrationStage `json:"seen,omitempty"`
	// Phase is the instance's; Deleting is set when the instance is being deleted.
	Phase    string `json:"phase,omitempty"`
	Deleting bool   `json:"deleting,omitempty"`
}

// A signal without an answer is sent again after claimPause, doubled each time.
const (
	claimPause = 5 * time.Second
	// pauseLongest bounds the pauses that are doubled each time.
	pauseLongest = time.Minute
	// missingEach: each fourth time that the instance has no workflow, the API server is read.
	missingEach = 4
)

// backoff returns the time before the next try, which doubles with each.
func backoff(tries int, first time.Duration) time.Duration {
	return entity.Backoff(tries, first, pauseLongest)
}

// stageRank returns the place of a stage in their order.
func stageRank(stage contract.MigrationStage) int {
	return slices.Index([]contract.MigrationStage{"", contract.StageClaim, contract.StageHandOff, contract.StageCopying,
		contract.StageMoved, contract.StageStayed}, stage)
}

// observeClaim folds in the instance's answer.
func (s *State) observeClaim(o contract.ClaimObservation) {
	if o.Migration == "" || o.Migration != s.Object.UID || o.Sequence <= s.Claim.Sequence {
		return
	}
	c := &s.Claim
	c.Sequence, c.State, c.Why, c.MayAskAgain = o.Sequence, o.State, o.Why, o.Again
	c.Reached, c.Phase, c.Deleting, c.Missing = o.Stage, o.Phase, o.Deleting, false
	s.Inspection.News = true
	if o.State == contract.ClaimRefused {
		return // it may be another one of that name
	}
	if s.VMI.UID == "" {
		s.VMI.UID = o.VMIUID
	}
	if s.Begun && o.Progress.UID == s.Object.UID {
		s.Progress = o.Progress
	}
	if o.GuestMemory > 0 {
		s.GuestMemory = o.GuestMemory
	}
	if s.Source.Pod == nil && o.SourcePod.UID != "" {
		s.Source = End{Node: o.SourceNode, Pod: &contract.PodObservation{UID: o.SourcePod.UID, Name: o.SourcePod.Name,
			VMIUID: o.VMIUID, NodeName: o.SourceNode}}
	}
	// It is further than was ever requested: this workflow's memory is that of an older copy, or gone.
	if stageRank(o.Stage) > max(stageRank(c.Stage), stageRank(c.Seen), stageRank(contract.StageClaim)) {
		c.Seen = o.Stage
		s.ReadAgain()
	}
}

// stageToRequest returns the stage to request.
func (s *State) stageToRequest() contract.MigrationStage {
	switch {
	case s.Over: // the request of this run was needless
		return contract.StageStayed
	case s.Result == ResultMoved:
		return contract.StageMoved
	case s.Result == ResultStayed && s.Claim.Stage == "":
		return "" // the instance was not asked
	case s.Result == ResultStayed:
		return contract.StageStayed
	case s.Begun:
		return contract.StageCopying
	case s.isHandedOff():
		return contract.StageHandOff
	default:
		return contract.StageClaim
	}
}

// isAnswered reports whether the instance has confirmed what was requested last.
func (s *State) isAnswered() bool {
	c := &s.Claim
	switch stage := s.stageToRequest(); {
	case stage == "" || s.VMIGone:
		return true
	case c.Stage != stage:
		return false
	case stage == contract.StageStayed:
		return c.State == contract.ClaimReleased || c.State == contract.ClaimRefused && !c.MayAskAgain
	case stage == contract.StageMoved:
		return c.State == contract.ClaimReleased
	case stage == contract.StageClaim:
		return c.State == contract.ClaimGiven
	default:
		return c.State == contract.ClaimGiven && stageRank(c.Reached) >= stageRank(stage)
	}
}

// isGranted reports whether the instance is reserved for this migration.
func (s *State) isGranted() bool { return s.Claim.State == contract.ClaimGiven }

// vmiEnded reports whether the instance has ended, is being deleted, or is gone.
func (s *State) vmiEnded() bool {
	return s.VMIGone || s.Claim.Deleting || contract.VMIObservation{Phase: s.Claim.Phase}.Ended()
}

// claimRequest returns the request for the instance.
func (s *State) claimRequest(now time.Time) contract.MigrationClaim {
	c := contract.MigrationClaim{
		Migration: s.Object, VMIUID: s.VMI.UID, Stage: s.stageToRequest(), Events: s.instanceEvents(now),
	}
	if s.isHandedOff() {
		c.State = s.migrationState()
	}
	if s.Result == ResultMoved {
		c.Domain = s.Domain
	}
	return c
}
