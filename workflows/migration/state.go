package migration

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// State is everything that a migration's entity knows. It is carried across Continue-As-New.
type State struct {
	Object contract.Object                `json:"object"`
	VMIM   *contract.MigrationObservation `json:"vmim,omitempty"`
	// Next is a newer incarnation of the name, adopted when this one's business has ended.
	Next *contract.MigrationObservation `json:"next,omitempty"`
	// Missed says that the object was gone before it was seen, and Over that it had ended, and nothing of it was left,
	// when what it says was believed: at first, or once it was read.
	Missed bool `json:"missed,omitempty"`
	Over   bool `json:"over,omitempty"`
	// LookAt is when the object is looked for of which only a pod is known.
	LookAt time.Time `json:"lookAt,omitzero"`
	// Reads counts how often what is true was read, each time soon after the last, which was at ReadAt.
	Reads  int       `json:"reads,omitempty"`
	ReadAt time.Time `json:"readAt,omitzero"`

	Phase      Phase                `json:"phase,omitempty"`
	PhaseTimes []contract.PhaseTime `json:"phaseTimes,omitempty"`

	// VMI is the instance; its UID is "" until somebody has said it. VMIGone: the API server knows no such instance.
	VMI     contract.Object `json:"vmi"`
	VMIGone bool            `json:"vmiGone,omitempty"`
	// GuestMemory in bytes.
	GuestMemory int64     `json:"guestMemory,omitempty"`
	Claim       Claim     `json:"claim,omitzero"`
	Admission   Admission `json:"admission,omitzero"`

	Source End `json:"source,omitzero"`
	Target End `json:"target,omitzero"`

	// Offer is the source's, and OfferedAt when it was made.
	Offer     *contract.MigrationOffer `json:"offer,omitempty"`
	OfferedAt time.Time                `json:"offeredAt,omitzero"`
	// Settings are how the guest is to be moved.
	Settings *contract.ConfigureMigrationResult `json:"settings,omitempty"`
	// HandOffAt is when the hand-off was claimed first.
	HandOffAt time.Time `json:"handOffAt,omitzero"`
	// Prepared is where the source finds the target, and PrepareSent says that the target was asked to be ready.
	Prepared    *contract.PreparedTarget `json:"prepared,omitempty"`
	PrepareSent bool                     `json:"prepareSent,omitempty"`

	// Begun says that the source was asked to move the guest, Start since when, and CopyBy until when it may.
	Begun   bool                       `json:"begun,omitempty"`
	Start   time.Time                  `json:"start,omitzero"`
	CopyBy  time.Time                  `json:"copyBy,omitzero"`
	Outcome *contract.MigrationOutcome `json:"outcome,omitempty"`
	// Progress of the copy, as the instance said last.
	Progress contract.MigrationProgress `json:"progress,omitzero"`
	// AbortSent says that the source was asked to abort, and Withdrawn that the target was told that nobody comes.
	AbortSent bool `json:"abortSent,omitempty"`
	Withdrawn bool `json:"withdrawn,omitempty"`
	// Proof is the source's that the guest cannot run there any more: the target is to go on with it.
	Proof *contract.MigrationProof `json:"proof,omitempty"`
	// LeftBy is when the last words of the source's pod are that proof, if nobody has given it by then.
	LeftBy time.Time `json:"leftBy,omitzero"`
	// Domain is the target's, when the guest went on there.
	Domain *contract.DomainObservation `json:"domain,omitempty"`

	// MoveUnknown is why the outcome of the move is unknown, so that both ends have to be looked at before anything is
	// decided ("": it is not), and Look is what was seen last.
	MoveUnknown string `json:"moveUnknown,omitempty"`
	Look        Look   `json:"look,omitzero"`
	// UnknownCount is how often the outcome was unknown.
	UnknownCount int `json:"unknownCount,omitempty"`

	// Cause is why the guest is not to be moved ("": it is), and Result how the migration has ended ("": it has not).
	Cause  string `json:"cause,omitempty"`
	Result Result `json:"result,omitempty"`
	// Reason says in words why it failed, for the instance's status.
	Reason string    `json:"reason,omitempty"`
	End    time.Time `json:"end,omitzero"`

	// NotBefore is the end of the back-off after others of the instance.
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Quota is why no pod could be made, where a resource quota refused it, QuotaCount how often in a row, and
	// QuotaUntil the end of the back-off after that.
	Quota      string    `json:"quota,omitempty"`
	QuotaCount int       `json:"quotaCount,omitempty"`
	QuotaUntil time.Time `json:"quotaUntil,omitzero"`
	// Cancelled says by whom ("": nobody has), Prefer is the node that a person would have, and Pause says that the
	// guest is to be paused, Paused that it was.
	Cancelled string `json:"cancelled,omitempty"`
	Prefer    string `json:"prefer,omitempty"`
	Pause     bool   `json:"pause,omitempty"`
	Paused    bool   `json:"paused,omitempty"`

	// Open are the steps that are under way on nodes.
	Open []action `json:"open,omitempty"`
	// Failure is the last step that failed; the planner does not repeat it before RetryAt.
	Failure *entity.Failure `json:"failure,omitempty"`
	// Deleted says that the object was deleted because its instance is gone.
	Deleted bool `json:"deleted,omitempty"`

	entity.Manual
	entity.Memory

	Conditions []contract.Condition `json:"conditions,omitempty"`
	entity.StatusWrites[contract.MigrationStatus]
	// SettleBy is until when a status that differs is not written yet, and Announced are the events that were recorded.
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
	ResultStayed Result = "stayed" // or there is no guest any more
)

// End is one end of a migration: a launcher pod on a node.
type End struct {
	// Pod is the newest observation of it (nil: none is known).
	Pod *contract.PodObservation `json:"pod,omitempty"`
	// Node is where it is, and NodeState how that is (nil: ready, as far as anybody said).
	Node      string              `json:"node,omitempty"`
	NodeState *contract.NodeState `json:"nodeState,omitempty"`
	// Deleted says that a delete was sent for it, and Released that its finalizer was removed.
	Deleted  bool `json:"deleted,omitempty"`
	Released bool `json:"released,omitempty"`
	// LookAt is when its end is looked for, and Looks how often it was.
	LookAt time.Time `json:"lookAt,omitzero"`
	Looks  int       `json:"looks,omitempty"`
}

// held says that there is such a pod.
func (e *End) held() bool { return e.Pod != nil && !e.Pod.Gone }

// ended says that nothing runs in it.
func (e *End) ended() bool { return e.Pod != nil && (e.Pod.Gone || e.Pod.Ended()) }

// runs says that a launcher is there to be spoken to.
func (e *End) runs() bool {
	return e.held() && !e.ended() && e.Pod.ComputeRunning && e.node() != "" && e.Pod.DeletionTimestamp == nil
}

// reachable says that a launcher may be there to be spoken to.
func (e *End) reachable() bool { return e.held() && !e.ended() && e.Pod.UID != "" && e.node() != "" }

func (e *End) node() string {
	if e.Pod != nil && e.Pod.NodeName != "" {
		return e.Pod.NodeName
	}
	return e.Node
}

func (e *End) name() string {
	if e.Pod == nil {
		return ""
	}
	return e.Pod.Name
}

// see takes in an observation of the pod, and says whether there is something new in it.
func (e *End) see(o contract.PodObservation) bool {
	was := e.Pod
	e.Pod = entity.Newest(e.Pod, o)
	return !entity.Same(was, e.Pod)
}

// lateAfter is how old an object without a status is whose first observation may come from before its end: what is true
// is read then.
const lateAfter = 10 * time.Second

// observeMigration folds what crdwatch saw of the object.
func (s *State) observeMigration(o contract.MigrationObservation, now time.Time) {
	again := s.HeardObject(o.Epoch)
	if s.Object.UID == "" {
		if s.Missed = o.Gone; !o.Gone {
			s.adopt(o)
			s.Stale = s.Stale || !s.Over && now.Sub(o.CreatedAt) > lateAfter
		}
		return
	}
	s.VMIM, s.Next = entity.Track(s.VMIM, s.Next, o, again)
	s.Stale = s.Stale || s.behind(s.VMIM)
}

// observePod folds what crdwatch saw of a pod that a migration was made for.
func (s *State) observePod(o contract.PodObservation) {
	s.Heard(o.Epoch)
	switch {
	case s.Source.Pod != nil && s.Source.Pod.UID == o.UID:
		s.Look.News = s.Source.see(o) || s.Look.News
	case s.Target.Pod != nil && s.Target.Pod.UID == o.UID:
		s.Look.News = s.Target.see(o) || s.Look.News
	case o.Gone:
	case s.VMIM == nil && s.Target.Pod == nil:
		s.Target.see(o)
	case s.VMIM != nil && o.Migration == s.Object.UID && !s.Target.held():
		// Made by an earlier run of which nothing is remembered, or its observation comes before the answer of the call
		// that makes it.
		s.Target = End{Pod: &o, NodeState: s.nodeOf(o.UID)}
		s.Stale = s.Stale || !s.Admission.Admitted
	}
}

// nodeOf is what was told of a pod's node before the pod itself was.
func (s *State) nodeOf(pod string) *contract.NodeState {
	if n := s.Target.NodeState; n != nil && n.PodUID == pod {
		return n
	}
	return nil
}

// observeNode folds what crdwatch saw of the node of one of the pods. It may be told before the pod itself is.
func (s *State) observeNode(o contract.NodeState) {
	s.Heard(o.Epoch)
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
	end.NodeState, s.Look.News = &o, true
}

// open says that a step is under way on a node.
func (s *State) open(a action) bool { return slices.Contains(s.Open, a) }

func (s *State) opened(a action) { s.Open = append(slices.Clone(s.Open), a) }

func (s *State) closed(a action) {
	s.Open = slices.DeleteFunc(slices.Clone(s.Open), func(x action) bool { return x == a })
}

// deleting says that the object is to go.
func (s *State) deleting() bool { return s.VMIM.Gone || s.VMIM.DeletionTimestamp != nil }

// handedOff says that the instance was asked to write that its guest is being moved.
func (s *State) handedOff() bool { return !s.HandOffAt.IsZero() }

// next moves on to the newer incarnation.
func (s *State) next() State {
	n := State{
		Object: contract.Object{Namespace: s.Object.Namespace, Name: s.Object.Name},
		Memory: s.Memory.Next(),
	}
	if s.Next != nil {
		n.adopt(*s.Next)
	}
	return n
}

// shown is a condition of the object's status, or nil.
func shown(list []contract.Condition, kind string) *contract.Condition {
	if c, ok := conditions.Get(list, kind); ok {
		return &c
	}
	return nil
}
