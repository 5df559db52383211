package vmi

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

const (
	// askAgain is how long nothing is heard from the migration that has claimed the instance before it is asked whether
	// it is still there.
	askAgain = 5 * time.Minute
	// missingAsk is how often one that has not come to the hand-off is asked while nobody answers for it: after
	// orphanTime it counts as gone.
	missingAsk = orphanTime / 2
	// migrationEndTime is how long a migration may take to end when its instance is to go.
	migrationEndTime = time.Minute
)

// Claim is a migration that has claimed the instance: no other begins before it has ended.
type Claim struct {
	Migration contract.Object `json:"migration"`
	// Stage is how far it is, as it said last, and State the status.migrationState that goes with it; nil before
	// StageHandOff.
	Stage contract.MigrationStage  `json:"stage"`
	State *contract.MigrationState `json:"state,omitempty"`
	// Domain is the target's, at StageMoved.
	Domain *contract.DomainObservation `json:"domain,omitempty"`
	// Written is the last stage that the status has.
	Written contract.MigrationStage `json:"written"`
	// Events are yet to be recorded, and Recorded are the messages of those that were.
	Events   []contract.Event `json:"events,omitempty"`
	Recorded []string         `json:"recorded,omitempty"`
	// Source is the pod that the guest ran in when the instance was claimed.
	Source     contract.Object `json:"source,omitzero"`
	SourceNode string          `json:"sourceNode,omitempty"`
	// Told is the last answer; Asked says that another is due although nothing has changed.
	Told  contract.ClaimObservation `json:"told,omitzero"`
	Asked bool                      `json:"asked,omitempty"`
	// HeardAt is when it was there for certain, AskAt when it is asked whether it still is, and MissingSince when there
	// was first nobody to answer.
	HeardAt      time.Time `json:"heardAt,omitzero"`
	AskAt        time.Time `json:"askAt,omitzero"`
	MissingSince time.Time `json:"missingSince,omitzero"`
	// CopyingBy is until when it is not written yet that the guest is being copied.
	CopyingBy time.Time `json:"copyingBy,omitzero"`
	// Progress is how far the copy is, as it is shown, ProgressFrom since when it is, and ProgressAt when that changed
	// last.
	Progress     contract.MigrationProgress `json:"progress,omitzero"`
	ProgressFrom time.Time                  `json:"progressFrom,omitzero"`
	ProgressAt   time.Time                  `json:"progressAt,omitzero"`
	// SoughtTarget says that the pods were read because that of the target was not known.
	SoughtTarget bool `json:"soughtTarget,omitempty"`
}

// Answer is one to a migration that has not claimed the instance.
type Answer struct {
	Migration   contract.Object           `json:"migration"`
	Observation contract.ClaimObservation `json:"observation"`
}

// Ended is how a migration has ended.
type Ended struct {
	UID   string                  `json:"uid"`
	Stage contract.MigrationStage `json:"stage"`
}

// mostEnded is how many of those are remembered.
const mostEnded = 8

// Moves are the instance's migrations.
type Moves struct {
	// Migration is the one that has claimed it; nil: none has.
	Migration *Claim `json:"claim,omitempty"`
	// MigrationState is the status.migrationState of the last one that has ended.
	MigrationState *contract.MigrationState `json:"migrationState,omitempty"`
	// Ended are the last that have ended: what is still said of them changes nothing.
	Ended []Ended `json:"ended,omitempty"`
	// Answers are due to others.
	Answers []Answer `json:"answers,omitempty"`
	// Sequence is of the last answer.
	Sequence int64 `json:"claimSequence,omitempty"`
	// Migratable says whether the guest can be moved; nil: nobody has said yet.
	Migratable *contract.Migratable `json:"migratable,omitempty"`
	// LeftSince is since when the guest has left its pod for another, while no migration says that it has arrived,
	// SoughtGuest says that the pods were read therefore, and NeverArrived that it runs in none.
	LeftSince    time.Time `json:"leftSince,omitzero"`
	SoughtGuest  bool      `json:"soughtGuest,omitempty"`
	NeverArrived bool      `json:"neverArrived,omitempty"`
	// Arriving says that the guest has just been moved, and not everything about it has caught up.
	Arriving bool `json:"arriving,omitempty"`
}

// askNow has the migration asked at once whether it is still there.
func (c *Claim) askNow() {
	if c != nil {
		c.HeardAt, c.AskAt = time.Time{}, time.Time{}
	}
}

// unconfirmed says that nobody knows whether the migration is still there.
func (c *Claim) unconfirmed() bool { return c.HeardAt.IsZero() || !c.MissingSince.IsZero() }

// over says that the migration has ended.
func (c *Claim) over() bool { return final(c.Stage) }

func final(stage contract.MigrationStage) bool {
	return stage == contract.StageMoved || stage == contract.StageStayed
}

// rank orders stages. Nothing comes after the end.
func rank(stage contract.MigrationStage) int {
	return slices.Index([]contract.MigrationStage{contract.StageClaim, contract.StageHandOff, contract.StageCopying},
		stage)
}

// moving says that the guest may be moved at any moment: the target's pod was handed to the nodes.
func (s *State) moving() bool {
	m := s.Migration
	return m != nil && (m.Stage == contract.StageHandOff || m.Stage == contract.StageCopying)
}

// refuseClaim says why a migration may not begin, in KubeVirt's words where it has some, and whether it is worth asking
// again. "" is: it may.
func (s *State) refuseClaim(c contract.MigrationClaim) (why string, again bool) {
	another := slices.ContainsFunc(s.Others, func(l Launcher) bool {
		return l.podHeld() && !l.podEnded() && l.Pod.Migration != c.Migration.UID
	})
	switch {
	case s.VMI == nil || s.Stale && s.VMI.UID == c.VMIUID:
		return "the VirtualMachineInstance has not been read yet", true
	case c.VMIUID != s.Object.UID:
		return "another VirtualMachineInstance of that name is there, or is still being dealt with",
			s.Next != nil && s.Next.UID == c.VMIUID || s.deleting()
	case s.Phase.Final():
		return "Cannot migrate VMI in finalized state.", false
	case s.deleting():
		return "VMI is being deleted.", false
	case s.Migration != nil:
		return "VMI is not eligible for migration because another migration job is in progress.",
			s.Migration.unconfirmed()
	case s.Phase != PhaseRunning || !s.domainIn(contract.DomainRunning, contract.DomainPaused) || s.podEnded():
		return "VMI is not running.", true
	case s.Pod.DeletionTimestamp != nil:
		return "the pod of the VMI is being deleted.", true
	case another:
		return "VMI has another pod that has not ended.", true
	case s.away():
		return "node " + s.nodeName() + " is not ready.", true
	case s.Migratable == nil:
		return "whether VMI is migratable is not known yet.", true
	case s.Migratable.Reason != "":
		return fmt.Sprintf("Cannot migrate VMI, Reason: %s, Message: %s", s.Migratable.Reason, s.Migratable.Message),
			false
	}
	return "", false
}

// observeClaim folds what a migration says.
func (s *State) observeClaim(c contract.MigrationClaim, now time.Time) {
	if c.Migration.UID == "" || rank(c.Stage) < 0 && !final(c.Stage) ||
		c.State == nil && !final(c.Stage) && c.Stage != contract.StageClaim {
		return
	}
	if c.VMIUID == "" && s.Next == nil { // whichever there is of its name
		c.VMIUID = s.Object.UID
	}
	m := s.Migration
	if m != nil && m.Stage == contract.StageClaim && m.Migration.Name == c.Migration.Name &&
		m.Migration.UID != c.Migration.UID {
		// The workflow of a name goes on to the next object only when it is done with the one before.
		m, s.Migration = nil, nil
	}
	switch stage := s.ended(c.Migration.UID); {
	case m != nil && m.Migration.UID == c.Migration.UID && c.VMIUID == s.Object.UID:
		m.hear(c, now)
		return
	case stage != "":
		s.reply(c, contract.ClaimObservation{State: contract.ClaimReleased, Stage: stage})
		return
	case c.Stage == contract.StageStayed || c.Stage == contract.StageMoved && s.VMI != nil && s.Phase.Final():
		s.reply(c, contract.ClaimObservation{State: contract.ClaimReleased, Stage: contract.StageStayed})
		return
	case c.Stage == contract.StageMoved && s.VMI != nil && c.VMIUID == s.Object.UID && s.lives(c.Migration.UID):
		// It was begun with a claim that this memory does not have. Where the guest is counts.
	case c.Stage == contract.StageMoved:
		s.reply(c, contract.ClaimObservation{State: contract.ClaimRefused, Again: true,
			Why: "the pod that VMI was moved to is not known"})
		s.Stale = s.Stale || s.VMI != nil
		return
	default:
		why, again := s.refuseClaim(c)
		if why != "" {
			if c.VMIUID == s.Object.UID && m != nil && !m.unconfirmed() {
				m.askNow()
			}
			s.reply(c, contract.ClaimObservation{State: contract.ClaimRefused, Why: why, Again: again})
			s.Stale = s.Stale || again && s.VMI != nil && c.VMIUID == s.Object.UID && s.Migratable == nil
			return
		}
	}
	s.Migration = &Claim{Migration: c.Migration, Stage: contract.StageClaim, Written: contract.StageClaim}
	if s.Pod != nil {
		s.Migration.Source = contract.Object{Namespace: s.Object.Namespace, Name: s.Pod.Name, UID: s.Pod.UID}
		s.Migration.SourceNode = s.Pod.NodeName
	}
	s.Migration.hear(c, now)
}

// hear takes in what the migration in hand says. What is older than what it has said changes nothing.
func (c *Claim) hear(said contract.MigrationClaim, now time.Time) {
	c.Migration, c.Asked, c.HeardAt, c.MissingSince = said.Migration, true, now, time.Time{}
	if c.AskAt.IsZero() {
		c.AskAt = now.Add(askAgain)
	}
	if c.over() || !final(said.Stage) && rank(said.Stage) < rank(c.Stage) || said.Stage == contract.StageClaim {
		return
	}
	c.Stage, c.State = said.Stage, cmp.Or(said.State, c.State)
	if c.State == nil && c.Stage == contract.StageMoved {
		c.State = &contract.MigrationState{MigrationUID: c.Migration.UID}
	}
	if said.Domain != nil {
		c.Domain = said.Domain
	}
	for _, e := range said.Events {
		same := func(known contract.Event) bool { return known.Message == e.Message }
		if !slices.Contains(c.Recorded, e.Message) && !slices.ContainsFunc(c.Events, same) {
			c.Events = append(slices.Clone(c.Events), e)
		}
	}
	if c.over() {
		c.end(now, "")
	}
	if c.State == nil { // nothing is to be said of it
		c.Written = c.Stage
	}
}

// end completes the state of a migration that has ended.
func (c *Claim) end(now time.Time, why string) {
	if c.State == nil {
		return
	}
	state := *c.State
	state.Completed, state.Failed = true, c.Stage == contract.StageStayed
	if state.End.IsZero() {
		state.End = now.Truncate(time.Second)
	}
	if state.Failed {
		state.FailureReason = cmp.Or(state.FailureReason, why)
	}
	c.State = &state
}

// stay ends the migration in hand: the guest is where it was, or there is none any more.
func (s *State) stay(now time.Time, why string) {
	m := s.Migration
	m.Stage = contract.StageStayed
	if m.end(now, why); m.State == nil {
		m.Written = m.Stage
	}
}

// reply answers a migration that has not claimed the instance. The newest answer to each counts.
func (s *State) reply(c contract.MigrationClaim, o contract.ClaimObservation) {
	o.Migration, o.VMIUID, o.Phase, o.Deleting = c.Migration.UID, s.Object.UID, string(s.Phase), s.deleting()
	s.Answers = slices.DeleteFunc(slices.Clone(s.Answers), func(a Answer) bool {
		return a.Migration.UID == c.Migration.UID
	})
	s.Answers = append(s.Answers, Answer{Migration: c.Migration, Observation: o})
}

// endStage is the stage in which a migration has ended.
func endStage(state *contract.MigrationState) contract.MigrationStage {
	if state.Failed {
		return contract.StageStayed
	}
	return contract.StageMoved
}

// answer is what the migration in hand is to know.
func (s *State) answer() contract.ClaimObservation {
	m := s.Migration
	o := contract.ClaimObservation{
		Migration: m.Migration.UID, VMIUID: s.Object.UID, State: contract.ClaimGiven, Stage: m.Written,
		SourcePod: m.Source, SourceNode: m.SourceNode, GuestMemory: m.Told.GuestMemory, Phase: string(s.Phase),
		Deleting: s.deleting(),
	}
	if s.Domain != nil && s.Domain.GuestMemory > 0 {
		o.GuestMemory = s.Domain.GuestMemory
	}
	if !m.over() {
		o.Progress = m.Progress
	}
	if m.over() && m.Written == m.Stage {
		o.State = contract.ClaimReleased
	}
	return o
}

// nextAnswer is what is to be told to a migration now.
func (s *State) nextAnswer(now time.Time) (to contract.Object, o contract.ClaimObservation, due bool) {
	if len(s.Answers) > 0 {
		a := s.Answers[0]
		return a.Migration, a.Observation, true
	}
	m := s.Migration
	if m == nil || m.Migration.Name == "" {
		return to, o, false
	}
	o = s.answer()
	news := o
	news.Sequence = m.Told.Sequence
	asked := m.Asked && m.Written == m.Stage
	return m.Migration, o, asked || news != m.Told || !m.over() && !now.Before(m.AskAt)
}

// answered notes that a migration was told. Found says that there was somebody to hear it. Sequences grow over a loss
// of memory, too.
func (s *State) answered(to contract.Object, o contract.ClaimObservation, found bool, now time.Time) {
	if len(s.Answers) > 0 && s.Answers[0].Migration.UID == to.UID {
		s.Answers = slices.Clone(s.Answers[1:])
		return
	}
	m := s.Migration
	if m == nil || m.Migration.UID != to.UID {
		return
	}
	m.Told, m.Asked = o, false
	switch {
	case o.State == contract.ClaimReleased:
		s.release()
	case found:
		m.HeardAt, m.MissingSince = now, time.Time{}
	default:
		s.missed(now)
	}
}

// missed notes that nobody answers for the migration in hand: what is true is read.
func (s *State) missed(now time.Time) {
	s.Stale = true
	m := s.Migration
	m.AskAt = now.Add(askAgain)
	if m.Stage == contract.StageClaim {
		m.AskAt = now.Add(missingAsk)
	}
	if m.MissingSince.IsZero() {
		m.MissingSince = now
	}
}

// release lets the next migration begin.
func (s *State) release() {
	m := s.Migration
	if m.State != nil {
		s.MigrationState = m.State
	}
	ended := append(slices.Clone(s.Ended), Ended{UID: m.Migration.UID, Stage: m.Stage})
	s.Migration, s.Ended = nil, ended[max(0, len(ended)-mostEnded):]
}

// ended is the stage in which that migration has ended; "": it is not known to have.
func (s *State) ended(uid string) contract.MigrationStage {
	for _, e := range s.Ended {
		if e.UID == uid {
			return e.Stage
		}
	}
	if last := s.MigrationState; last.Ended() && last.MigrationUID == uid {
		return endStage(last)
	}
	return ""
}

// lives says that the pod of a migration's target does.
func (s *State) lives(uid string) bool {
	return slices.ContainsFunc(s.launchers(), func(l *Launcher) bool {
		return l.Pod.Migration == uid && l.podHeld() && !l.podEnded()
	})
}

// nextSequence is that of an answer. It comes from the clock, so that it grows where memory was lost.
func (s *State) nextSequence(now time.Time) int64 {
	s.Sequence = max(s.Sequence+1, now.UnixMilli())
	return s.Sequence
}

// adoptClaim believes what the status says of migrations: the one that is under way has claimed the instance.
func (s *State) adoptClaim(state *contract.MigrationState) {
	m := s.Migration
	switch mine := m != nil && state != nil && m.Migration.UID == state.MigrationUID; {
	case state == nil || state.MigrationUID == "":
	case mine && state.Ended() && !m.over():
		m.Stage, m.State = endStage(state), state
		m.Written = m.Stage
	case mine && !m.over() && m.State == nil: // it was further than this memory, an older copy, has it
		m.Stage, m.State = openStage(state), state
		m.Written = m.Stage
	case mine:
	case state.Ended() && (m == nil || m.State == nil):
		s.MigrationState = state
	case state.Ended() || m != nil && m.over():
	default:
		stage := openStage(state)
		s.Migration = &Claim{
			Migration: contract.Object{Namespace: s.Object.Namespace, UID: state.MigrationUID}, Stage: stage,
			State: state, Written: stage, SourceNode: state.SourceNode,
			Source: contract.Object{Namespace: s.Object.Namespace, Name: state.SourcePod},
		}
	}
}

// openStage is that of a migration which a status calls under way.
func openStage(state *contract.MigrationState) contract.MigrationStage {
	if state.Start.IsZero() {
		return contract.StageHandOff
	}
	return contract.StageCopying
}

// migrationState is what status.migrationState is to be.
func (s *State) migrationState() *contract.MigrationState {
	if m := s.Migration; m != nil && m.State != nil {
		return m.State
	}
	return s.MigrationState
}

// unwritten says that the status does not have yet what the migration in hand has come to.
func (s *State) unwritten() bool {
	return s.Migration != nil && s.Migration.Written != s.Migration.Stage
}

// decideClaim tells migrations what they are to know, after the status does.
func (s *State) decideClaim(now time.Time) (decision, bool) {
	if s.unwritten() && !s.VMI.Gone {
		if d := s.decideStatus(now); d.Action != "" {
			return d, true
		}
	}
	if to, _, due := s.nextAnswer(now); due {
		return decision{Action: actAnswerMigration, Object: to.UID,
			Why: "migration " + to.Name + " is to know how its instance is"}, true
	}
	return decision{}, false
}
