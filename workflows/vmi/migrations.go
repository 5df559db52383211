package vmi

import (
	"fmt"
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// migrationEndTime is how long a migration may take to end when its instance is being deleted.
const migrationEndTime = time.Minute

// Migrations has the state of the instance's migrations.
type Migrations struct {
	// Migration is the reservation of the current migration; nil: there is none.
	Migration *Reservation `json:"claim,omitempty"`
	// MigrationState is the status.migrationState of the last migration that has ended.
	MigrationState *contract.MigrationState `json:"migrationState,omitempty"`
	// Ended are the last migrations that have ended: their late signals change nothing.
	Ended []Ended `json:"ended,omitempty"`
	// Answers are due to other migrations.
	Answers []Answer `json:"answers,omitempty"`
	// Sequence numbers the last answer.
	Sequence int64 `json:"claimSequence,omitempty"`
	// Migratable has the reason why the guest cannot be moved, if there is one; nil: not known yet.
	Migratable *contract.Migratable `json:"migratable,omitempty"`
	// LeftSince is since when the guest has left its pod while no migration has reported its arrival. GuestSearched
	// means that the pods were read because of that, and NeverArrived that the guest runs in none of them.
	LeftSince     time.Time `json:"leftSince,omitzero"`
	GuestSearched bool      `json:"soughtGuest,omitempty"`
	NeverArrived  bool      `json:"neverArrived,omitempty"`
	// Arriving means that the guest has just been moved, and that its pod or agent is not ready yet.
	Arriving bool `json:"arriving,omitempty"`
}

// Ended is a migration that has ended, with its final stage.
type Ended struct {
	UID   string                  `json:"uid"`
	Stage contract.MigrationStage `json:"stage"`
}

// maxEnded is how many ended migrations the state keeps.
const maxEnded = 8

// scope has what the rules of migrations use of the instance. They may have the API server read (Stale), and change
// which launcher is the current one. Each call gets another: next and phase are copies.
type scope struct {
	*VMIObject
	*Launchers
	*entity.Memory
	next  *contract.VMIObservation
	phase Phase
}

// scope returns the parts of the state that the rules of migrations use.
func (s *State) scope() scope {
	return scope{VMIObject: &s.VMIObject, Launchers: &s.Launchers, Memory: &s.Memory, next: s.Next, phase: s.Phase}
}

// isMoving reports whether the guest may move at any moment: the nodes know the target's pod.
func (m *Migrations) isMoving() bool {
	r := m.Migration
	return r != nil && (r.Stage == contract.StageHandOff || r.Stage == contract.StageCopying)
}

// observeClaim folds in the signal of a migration.
func (m *Migrations) observeClaim(c contract.MigrationClaim, in scope, now time.Time) {
	if !isWellFormed(c) {
		return
	}
	if c.VMIUID == "" && in.next == nil { // the current instance of that name
		c.VMIUID = in.Object.UID
	}
	if r := m.Migration; r != nil && r.isReplacedBy(c) {
		m.Migration = nil
	}
	if r := m.Migration; r != nil && r.Migration.UID == c.Migration.UID && c.VMIUID == in.Object.UID {
		r.observe(c, now)
		return
	}
	if o := m.rejectMigration(c, in); o.State != "" {
		m.queueAnswer(c, o, in)
		return
	}
	m.Migration = &Reservation{Migration: c.Migration, Stage: contract.StageClaim, Written: contract.StageClaim}
	if in.Pod != nil {
		m.Migration.Source, m.Migration.SourceNode = in.object(in.Object.Namespace), in.Pod.NodeName
	}
	m.Migration.observe(c, now)
}

// rejectMigration returns the answer to a migration that does not get the reservation. It has no state if the migration
// gets it.
func (m *Migrations) rejectMigration(c contract.MigrationClaim, in scope) contract.ClaimObservation {
	ours := in.VMI != nil && c.VMIUID == in.Object.UID
	moved := c.Stage == contract.StageMoved
	switch stage := m.endedStage(c.Migration.UID); {
	case stage != "":
		return contract.ClaimObservation{State: contract.ClaimReleased, Stage: stage}
	case c.Stage == contract.StageStayed, moved && in.VMI != nil && in.phase.Final():
		return contract.ClaimObservation{State: contract.ClaimReleased, Stage: contract.StageStayed}
	case moved && ours && in.hasLivePodOf(c.Migration.UID):
		// The reservation is missing from this state, an older copy. The guest's location decides.
		return contract.ClaimObservation{}
	case moved:
		in.ReadAgainIf(in.VMI != nil)
		return contract.ClaimObservation{State: contract.ClaimRefused, Again: true,
			Why: "the pod that the VMI moved to is unknown"}
	}
	why, again := m.refuseMigration(c, in)
	if why == "" {
		return contract.ClaimObservation{}
	}
	if r := m.Migration; r != nil && c.VMIUID == in.Object.UID && !r.isUnconfirmed() {
		r.askNow()
	}
	in.ReadAgainIf(again && ours && m.Migratable == nil)
	return contract.ClaimObservation{State: contract.ClaimRefused, Why: why, Again: again}
}

// refuseMigration returns why a migration must not begin, in KubeVirt's words where it has some, and whether the
// migration may ask again. An empty reason means that it may begin.
func (m *Migrations) refuseMigration(c contract.MigrationClaim, in scope) (why string, again bool) {
	switch {
	case in.VMI == nil || in.Stale && in.VMI.UID == c.VMIUID:
		return "the VirtualMachineInstance has not been read yet", true
	case c.VMIUID != in.Object.UID:
		return "another VirtualMachineInstance of that name exists, or has not ended yet",
			in.next != nil && in.next.UID == c.VMIUID || in.isDeleting()
	case in.phase.Final():
		return "Cannot migrate VMI in finalized state.", false
	case in.isDeleting():
		return "VMI is being deleted.", false
	case m.Migration != nil:
		return "VMI is not eligible for migration because another migration job is in progress.",
			m.Migration.isUnconfirmed()
	case in.phase != PhaseRunning || !in.isDomainIn(contract.DomainRunning, contract.DomainPaused) || in.hasPodEnded():
		return "VMI is not running.", true
	case in.Pod.DeletionTimestamp != nil:
		return "the pod of the VMI is being deleted.", true
	case in.hasLivePodNotOf(c.Migration.UID):
		return "VMI has another pod that has not ended.", true
	case in.isNodeUnreachable():
		return "node " + in.nodeName() + " is not ready.", true
	case m.Migratable == nil:
		return "whether VMI is migratable is not known yet.", true
	case m.Migratable.Reason != "":
		return fmt.Sprintf("Cannot migrate VMI, Reason: %s, Message: %s", m.Migratable.Reason, m.Migratable.Message),
			false
	}
	return "", false
}

// noteMissing records that no workflow exists for the current migration, and has the entity read the current state.
func (m *Migrations) noteMissing(in scope, now time.Time) {
	in.ReadAgain()
	m.Migration.noteMissing(now)
}

// releaseMigration ends the reservation, so that the next migration may begin.
func (m *Migrations) releaseMigration() {
	r := m.Migration
	if r.State != nil {
		m.MigrationState = r.State
	}
	ended := append(slices.Clone(m.Ended), Ended{UID: r.Migration.UID, Stage: r.Stage})
	m.Migration, m.Ended = nil, ended[max(0, len(ended)-maxEnded):]
}

// endedStage returns the final stage of a migration, or "" if it is not known to have ended.
func (m *Migrations) endedStage(uid string) contract.MigrationStage {
	for _, e := range m.Ended {
		if e.UID == uid {
			return e.Stage
		}
	}
	if last := m.MigrationState; last.Ended() && last.MigrationUID == uid {
		return endStage(last)
	}
	return ""
}

// adoptMigration takes the reservation from the status: a migration that is open there holds it.
func (m *Migrations) adoptMigration(namespace string, state *contract.MigrationState) {
	r := m.Migration
	switch {
	case state == nil || state.MigrationUID == "":
	case r != nil && r.Migration.UID == state.MigrationUID:
		r.adopt(state)
	case state.Ended():
		if r == nil || r.State == nil {
			m.MigrationState = state
		}
	case r == nil || !r.hasEnded():
		stage := openStage(state)
		m.Migration = &Reservation{
			Migration: contract.Object{Namespace: namespace, UID: state.MigrationUID}, Stage: stage, State: state,
			Written: stage, SourceNode: state.SourceNode,
			Source: contract.Object{Namespace: namespace, Name: state.SourcePod},
		}
	}
}

// setMigratable stores whether the guest can be moved, if the activity has found it out.
func (m *Migrations) setMigratable(found *contract.Migratable) {
	if found != nil {
		m.Migratable = found
	}
}

// migrationState returns the desired status.migrationState.
func (m *Migrations) migrationState() *contract.MigrationState {
	if r := m.Migration; r != nil && r.State != nil {
		return r.State
	}
	return m.MigrationState
}

// hasUnwrittenStage reports whether the status does not show the current stage of the migration yet.
func (m *Migrations) hasUnwrittenStage() bool {
	return m.Migration != nil && m.Migration.Written != m.Migration.Stage
}

// migrationEvents returns the current migration's events, which are recorded with the next write.
func (m *Migrations) migrationEvents() []contract.Event {
	if m.Migration == nil {
		return nil
	}
	return m.Migration.Events
}

// markRecorded notes that the migration's stage was written and these events recorded.
func (m *Migrations) markRecorded(events []contract.Event) {
	r := m.Migration
	if r == nil {
		return
	}
	r.Written = r.Stage
	list := slices.Clone(r.Recorded)
	for _, e := range events {
		list = append(list, e.Message)
	}
	r.Recorded, r.Events = list, nil
}

// targetLabel returns the value of the label that names the node which the guest moves to; nil: the label stays as it
// is. Unknown means that the outcome of the last write is.
func (m *Migrations) targetLabel(unknown bool) *string {
	node := ""
	switch {
	case m.isMoving():
		node = m.Migration.State.TargetNode
	case m.migrationState() == nil || m.Migration == nil && !unknown:
		return nil
	}
	return &node
}
