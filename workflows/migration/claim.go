package migration

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Claim is what was said to the instance last, and what it has answered.
type Claim struct {
	// Stage is the last that was claimed ("": none), and Tries how often.
	Stage contract.MigrationStage `json:"stage,omitempty"`
	Tries int                     `json:"tries,omitempty"`
	// AskAt is when it is claimed again while no answer comes.
	AskAt time.Time `json:"askAt,omitzero"`
	// Missing says that the instance has no workflow.
	Missing bool `json:"missing,omitempty"`

	// Sequence is of the newest answer, and all below are what it says.
	Sequence int64                   `json:"sequence,omitempty"`
	State    contract.ClaimState     `json:"state,omitempty"`
	Why      string                  `json:"why,omitempty"`
	Again    bool                    `json:"again,omitempty"`
	Reached  contract.MigrationStage `json:"reached,omitempty"`
	// Seen is the furthest stage that is known of the instance's status, whoever has claimed it.
	Seen contract.MigrationStage `json:"seen,omitempty"`
	// Phase of the instance; Deleting says that it is to go.
	Phase    string `json:"phase,omitempty"`
	Deleting bool   `json:"deleting,omitempty"`
}

// How often something is said again while no answer comes: first after claimPause, doubled each time. The cluster's
// limits, once they have answered, are asked again after placePause.
const (
	claimPause = 5 * time.Second
	placePause = 5 * time.Minute
	// pauseLongest is the longest of pauses that are doubled each time.
	pauseLongest = time.Minute
	// missingEach of the times that an instance has no workflow it is looked whether there is one.
	missingEach = 4
)

// pause is doubled with each try.
func pause(tries int, first time.Duration) time.Duration {
	return entity.Backoff(tries, first, pauseLongest)
}

// rank orders stages.
func rank(stage contract.MigrationStage) int {
	return slices.Index([]contract.MigrationStage{"", contract.StageClaim, contract.StageHandOff, contract.StageCopying,
		contract.StageMoved, contract.StageStayed}, stage)
}

// observeClaim folds what the instance says.
func (s *State) observeClaim(o contract.ClaimObservation) {
	if o.Migration == "" || o.Migration != s.Object.UID || o.Sequence <= s.Claim.Sequence {
		return
	}
	c := &s.Claim
	c.Sequence, c.State, c.Why, c.Again = o.Sequence, o.State, o.Why, o.Again
	c.Reached, c.Phase, c.Deleting, c.Missing = o.Stage, o.Phase, o.Deleting, false
	s.Look.News = true
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
	// It is further than was ever claimed: this entity's memory is that of an older copy, or gone.
	if rank(o.Stage) > max(rank(c.Stage), rank(c.Seen), rank(contract.StageClaim)) {
		c.Seen, s.Stale = o.Stage, true
	}
}

// stage is the one to be claimed.
func (s *State) stage() contract.MigrationStage {
	switch {
	case s.Over: // what this run claimed was for nothing
		return contract.StageStayed
	case s.Result == ResultMoved:
		return contract.StageMoved
	case s.Result == ResultStayed && s.Claim.Stage == "":
		return "" // nobody was asked
	case s.Result == ResultStayed:
		return contract.StageStayed
	case s.Begun:
		return contract.StageCopying
	case s.handedOff():
		return contract.StageHandOff
	default:
		return contract.StageClaim
	}
}

// answered says that the instance has what was claimed last.
func (s *State) answered() bool {
	c := &s.Claim
	switch stage := s.stage(); {
	case stage == "" || s.VMIGone:
		return true
	case c.Stage != stage:
		return false
	case stage == contract.StageStayed:
		return c.State == contract.ClaimReleased || c.State == contract.ClaimRefused && !c.Again
	case stage == contract.StageMoved:
		return c.State == contract.ClaimReleased
	case stage == contract.StageClaim:
		return c.State == contract.ClaimGiven
	default:
		return c.State == contract.ClaimGiven && rank(c.Reached) >= rank(stage)
	}
}

// given says that the guest may be moved.
func (s *State) given() bool { return s.Claim.State == contract.ClaimGiven }

// vmiEnded says that the instance has ended, is to go, or is gone.
func (s *State) vmiEnded() bool {
	return s.VMIGone || s.Claim.Deleting || contract.VMIObservation{Phase: s.Claim.Phase}.Ended()
}

// claim is what is said to the instance.
func (s *State) claim(now time.Time) contract.MigrationClaim {
	c := contract.MigrationClaim{
		Migration: s.Object, VMIUID: s.VMI.UID, Stage: s.stage(), Events: s.instanceEvents(now),
	}
	if s.handedOff() {
		c.State = s.migrationState()
	}
	if s.Result == ResultMoved {
		c.Domain = s.Domain
	}
	return c
}

// Admission is what was said to the cluster's limits, and what they have answered.
type Admission struct {
	// Asked says that it was asked for, Tries how often, AskAt when it is next, and Done that it was given back.
	Asked bool      `json:"asked,omitempty"`
	Tries int       `json:"tries,omitempty"`
	AskAt time.Time `json:"askAt,omitzero"`
	Done  bool      `json:"done,omitempty"`
	// Returns says that the position is to be given back, and another one asked for.
	Returns bool `json:"returns,omitempty"`

	Sequence int64  `json:"sequence,omitempty"`
	Admitted bool   `json:"admitted,omitempty"`
	Position int    `json:"position,omitempty"`
	Waiting  int    `json:"waiting,omitempty"`
	Why      string `json:"why,omitempty"`
	// At is since when it has been admitted.
	At time.Time `json:"at,omitzero"`
}

// observeAdmission folds what the cluster's limits say. Who was admitted stays so.
func (s *State) observeAdmission(o contract.AdmissionObservation) {
	p := &s.Admission
	if o.Migration == "" || o.Migration != s.Object.UID || o.Sequence <= p.Sequence || p.Admitted && !o.Admitted {
		return
	}
	if !o.Admitted {
		p.At = time.Time{}
	}
	p.Sequence = o.Sequence
	p.Admitted, p.Position, p.Waiting, p.Why = o.Admitted, o.Position, o.Waiting, o.Why
}

// request is what is said to the cluster's limits.
func (s *State) request() contract.AdmissionRequest {
	r := contract.AdmissionRequest{
		Migration: s.Object, Done: s.Over || s.Result != ResultNone, VMIUID: s.VMI.UID, Node: s.Source.node(),
		Priority: s.VMIM.Priority, Since: s.VMIM.CreatedAt, NotBefore: s.NotBefore, Begun: s.Admission.Admitted,
		Returned: s.Admission.Returns,
	}
	if r.NotBefore.Before(s.QuotaUntil) {
		r.NotBefore = s.QuotaUntil
	}
	return r
}
