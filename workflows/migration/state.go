package migration

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/entity"
)

// State is everything that a migration's entity knows. Continue-As-New carries it.
type State struct {
	Object contract.Object                `json:"object"`
	VMIM   *contract.MigrationObservation `json:"vmim,omitempty"`
	// Next is a newer incarnation of the name, adopted when this one is cleaned up.
	Next *contract.MigrationObservation `json:"next,omitempty"`
	// Missed is set when the object was gone before it was observed. Over is set when the object, at its adoption or
	// when it was read, had ended with nothing left to clean up.
	Missed bool `json:"missed,omitempty"`
	Over   bool `json:"over,omitempty"`
	// LookAt is when the object is read of which only a pod is known.
	LookAt time.Time `json:"lookAt,omitzero"`
	// Reads counts the reads in a row, each soon after the last, which was at ReadAt.
	Reads  int       `json:"reads,omitempty"`
	ReadAt time.Time `json:"readAt,omitzero"`

	Phase      Phase                `json:"phase,omitempty"`
	PhaseTimes []contract.PhaseTime `json:"phaseTimes,omitempty"`

	// VMI is the instance; its UID is "" until it is known. VMIGone is set when the API server has no such instance.
	VMI     contract.Object `json:"vmi"`
	VMIGone bool            `json:"vmiGone,omitempty"`
	// GuestMemory is in bytes.
	GuestMemory int64     `json:"guestMemory,omitempty"`
	Claim       Claim     `json:"claim,omitzero"`
	Admission   Admission `json:"admission,omitzero"`

	Source End `json:"source,omitzero"`
	Target End `json:"target,omitzero"`

	// Offer is the source's, made at OfferedAt.
	Offer     *contract.MigrationOffer `json:"offer,omitempty"`
	OfferedAt time.Time                `json:"offeredAt,omitzero"`
	// Settings are those of the copy.
	Settings *contract.ConfigureMigrationResult `json:"settings,omitempty"`
	// HandOffAt is when the hand-off was requested first.
	HandOffAt time.Time `json:"handOffAt,omitzero"`
	// Prepared has the target's address for the source. PrepareSent is set once the target was asked to prepare.
	Prepared    *contract.PreparedTarget `json:"prepared,omitempty"`
	PrepareSent bool                     `json:"prepareSent,omitempty"`

	// Begun is set once the source was asked to move the guest, at Start; it may take until CopyBy.
	Begun   bool                       `json:"begun,omitempty"`
	Start   time.Time                  `json:"start,omitzero"`
	CopyBy  time.Time                  `json:"copyBy,omitzero"`
	Outcome *contract.MigrationOutcome `json:"outcome,omitempty"`
	// Progress is the copy's, as the instance reported it last.
	Progress contract.MigrationProgress `json:"progress,omitzero"`
	// AbortSent is set once the source has accepted the abort, and Withdrawn once the target was withdrawn.
	AbortSent bool `json:"abortSent,omitempty"`
	Withdrawn bool `json:"withdrawn,omitempty"`
	// Proof is the source's that the guest cannot run there again: the target is to resume it.
	Proof *contract.MigrationProof `json:"proof,omitempty"`
	// LeftBy is when the termination message of the source's pod counts as that proof, if none came by then.
	LeftBy time.Time `json:"leftBy,omitzero"`
	// Domain is the target's, when the guest resumed there.
	Domain *contract.DomainObservation `json:"domain,omitempty"`

	// MoveUnknown is why the outcome of the move is unknown, so that both ends are inspected before any decision ("":
	// it is known), and Inspection is what was seen last.
	MoveUnknown string     `json:"moveUnknown,omitempty"`
	Inspection  Inspection `json:"look,omitzero"`
	// UnknownCount is how often the outcome was unknown.
	UnknownCount int `json:"unknownCount,omitempty"`

	// Cause is why the guest is not to be moved ("": it is), and Result is how the migration has ended ("": it has
	// not).
	Cause  string `json:"cause,omitempty"`
	Result Result `json:"result,omitempty"`
	// Reason is why it failed, for the instance's status.
	Reason string    `json:"reason,omitempty"`
	End    time.Time `json:"end,omitzero"`

	// NotBefore is the end of the back-off after earlier migrations of the instance.
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Quota is why a resource quota refused the pod, QuotaCount how often in a row, and QuotaUntil the end of the
	// back-off after that.
	Quota      string    `json:"quota,omitempty"`
	QuotaCount int       `json:"quotaCount,omitempty"`
	QuotaUntil time.Time `json:"quotaUntil,omitzero"`
	// Cancelled names who has cancelled it ("": it is not cancelled), Prefer is the node that a person prefers, Pause
	// is set when the guest is to be paused, and Paused once it is.
	Cancelled string `json:"cancelled,omitempty"`
	Prefer    string `json:"prefer,omitempty"`
	Pause     bool   `json:"pause,omitempty"`
	Paused    bool   `json:"paused,omitempty"`

	// Open are the steps that run on nodes.
	Open []action `json:"open,omitempty"`
	// Failure is the last step that failed; the planner does not repeat it before RetryAt.
	Failure *entity.Failure `json:"failure,omitempty"`
	// Deleted is set once the object was deleted because its instance is gone.
	Deleted bool `json:"deleted,omitempty"`

	entity.Logic
	entity.Manual
	entity.Memory

	Conditions []contract.Condition `json:"conditions,omitempty"`
	entity.StatusWrites[contract.MigrationStatus]
	// SettleBy is until when a status that differs is not written yet, and Announced are the recorded events.
	SettleBy     time.Time        `json:"settleBy,omitzero"`
	StatsWritten bool             `json:"statsWritten,omitempty"`
	Announced    entity.Announced `json:"announced,omitempty"`
}

// Result is how a migration has ended.
type Result string

// The results.
const (
	ResultNone   Result = ""
	ResultMoved  Result = "moved"
	ResultStayed Result = "stayed" // or the guest has ended
)

// End is one end of a migration: a launcher pod on a node.
type End struct {
	// Pod is the newest observation of it (nil: none is known).
	Pod *contract.PodObservation `json:"pod,omitempty"`
	// Node is where it is, and NodeState that node's (nil: ready, as far as is known).
	Node      string              `json:"node,omitempty"`
	NodeState *contract.NodeState `json:"nodeState,omitempty"`
	// Deleted is set once a delete was sent for it, and Released once its finalizer was removed.
	Deleted  bool `json:"deleted,omitempty"`
	Released bool `json:"released,omitempty"`
	// LookAt is when its end is looked for next, and Looks how often it was.
	LookAt time.Time `json:"lookAt,omitzero"`
	Looks  int       `json:"looks,omitempty"`
}

// hasPod reports whether the end has a pod.
func (e *End) hasPod() bool { return e.Pod != nil && !e.Pod.Gone }

// hasEnded reports whether the pod has ended.
func (e *End) hasEnded() bool { return e.Pod != nil && (e.Pod.Gone || e.Pod.Ended()) }

// isRunning reports whether the launcher in the pod can be called.
func (e *End) isRunning() bool {
	return e.hasPod() && !e.hasEnded() && e.Pod.ComputeRunning && e.nodeName() != "" && e.Pod.DeletionTimestamp == nil
}

// isReachable reports whether a launcher may still run in the pod.
func (e *End) isReachable() bool {
	return e.hasPod() && !e.hasEnded() && e.Pod.UID != "" && e.nodeName() != ""
}

func (e *End) nodeName() string {
	if e.Pod != nil && e.Pod.NodeName != "" {
		return e.Pod.NodeName
	}
	return e.Node
}

func (e *End) podName() string {
	if e.Pod == nil {
		return ""
	}
	return e.Pod.Name
}

// observe folds in an observation of the pod, and reports whether it changed anything.
func (e *End) observe(o contract.PodObservation) bool {
	was := e.Pod
	e.Pod = entity.Newest(e.Pod, o)
	return !entity.Same(was, e.Pod)
}

// lateAfter is the age from which an object without a status may be observed from before its end: the API server is
// read then.
const lateAfter = 10 * time.Second

// observeMigration folds in crdwatch's observation of the object.
func (s *State) observeMigration(o contract.MigrationObservation, now time.Time) {
	newEpoch := s.AdvanceObjectEpoch(o.Epoch)
	if s.Object.UID == "" {
		if s.Missed = o.Gone; !o.Gone {
			s.adopt(o)
			s.ReadAgainIf(!s.Over && now.Sub(o.CreatedAt) > lateAfter)
		}
		return
	}
	s.VMIM, s.Next = entity.Track(s.VMIM, s.Next, o, newEpoch)
	s.ReadAgainIf(s.isBehind(s.VMIM))
}

// observePod folds in crdwatch's observation of a pod of this migration.
func (s *State) observePod(o contract.PodObservation) {
	s.AdvanceEpoch(o.Epoch)
	switch {
	case s.Source.Pod != nil && s.Source.Pod.UID == o.UID:
		s.Inspection.News = s.Source.observe(o) || s.Inspection.News
	case s.Target.Pod != nil && s.Target.Pod.UID == o.UID:
		s.Inspection.News = s.Target.observe(o) || s.Inspection.News
	case o.Gone:
	case s.VMIM == nil && s.Target.Pod == nil:
		s.Target.observe(o)
	case s.VMIM != nil && o.Migration == s.Object.UID && !s.Target.hasPod():
		// An earlier run, of which there is no memory, made it, or the observation comes before the answer of the call
		// that makes it.
		s.Target = End{Pod: &o, NodeState: s.nodeOf(o.UID)}
		s.ReadAgainIf(!s.Admission.Admitted)
	}
}

// nodeOf returns what is known of a pod's node, where its observation came before the pod's.
func (s *State) nodeOf(pod string) *contract.NodeState {
	if n := s.Target.NodeState; n != nil && n.PodUID == pod {
		return n
	}
	return nil
}

// observeNode folds in crdwatch's observation of the node of one of the pods. It may come before the pod's own.
func (s *State) observeNode(o contract.NodeState) {
	s.AdvanceEpoch(o.Epoch)
	end := &s.Target
	if s.Source.Pod != nil && s.Source.Pod.UID == o.PodUID {
		end = &s.Source
	} else if s.Target.Pod != nil && s.Target.Pod.UID != o.PodUID {
		return
	}
	if n := end.NodeState; n != nil && n.PodUID == o.PodUID && n.UID == o.UID && !o.Gone &&
		!entity.Newer(o.ResourceVersion, n.ResourceVersion) {
		return
	}
	end.NodeState, s.Inspection.News = &o, true
}

// isOpen reports whether step a has been started on a node and has not ended.
func (s *State) isOpen(a action) bool { return slices.Contains(s.Open, a) }

func (s *State) addOpen(a action) { s.Open = append(slices.Clone(s.Open), a) }

func (s *State) removeOpen(a action) {
	s.Open = slices.DeleteFunc(slices.Clone(s.Open), func(x action) bool { return x == a })
}

// isDeleting reports whether the object is being deleted, or gone.
func (s *State) isDeleting() bool { return s.VMIM.Gone || s.VMIM.DeletionTimestamp != nil }

// isHandedOff reports whether the hand-off was requested.
func (s *State) isHandedOff() bool { return !s.HandOffAt.IsZero() }

// next returns the state for the newer incarnation.
func (s *State) next() State {
	n := State{
		Object: contract.Object{Namespace: s.Object.Namespace, Name: s.Object.Name},
		Memory: s.Memory.Next(), Logic: s.Logic,
	}
	if s.Next != nil {
		n.adopt(*s.Next)
	}
	return n
}

// shownCondition returns a condition of the object's status, or nil.
func shownCondition(list []contract.Condition, kind string) *contract.Condition {
	if c, ok := conditions.Get(list, kind); ok {
		return &c
	}
	return nil
}
