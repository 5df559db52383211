package vm

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// State is everything that a VM entity knows. It is carried across Continue-As-New.
type State struct {
	Object contract.Object          `json:"object"`
	VM     *contract.VMObservation  `json:"vm,omitempty"`
	VMI    *contract.VMIObservation `json:"vmi,omitempty"`
	// Next is a newer incarnation of the name, adopted when this one is gone.
	Next *contract.VMObservation `json:"next,omitempty"`
	// Missed says that the VM was gone before it was seen: something old and late has started this entity.
	Missed bool `json:"missed,omitempty"`

	// Open is the transition in flight, and Count numbers them.
	Open  *Transition `json:"open,omitempty"`
	Count int         `json:"count,omitempty"`
	// Ending is the end of the instance that the VM's deletion asks for (nil: none).
	Ending *Ending `json:"ending,omitempty"`
	// Last is how the last transition, or that end, went.
	Last *entity.Outcome `json:"last,omitempty"`

	entity.Manual
	entity.Memory

	DataVolumes

	StartFailure *contract.StartFailure `json:"startFailure,omitempty"`
	// RunStrategy is what status.runStrategy is to say: "" until there was an instance.
	RunStrategy string `json:"runStrategy,omitempty"`
	// ObservedGeneration is the VM's generation that the last instance is known to follow.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Revision is the ControllerRevision of the last instance.
	Revision string `json:"revision,omitempty"`
	// Ended is when an instance was first seen to have ended.
	Ended End `json:"ended,omitzero"`
	// Checked is how an instance was last compared with its VM (nil: it was not).
	Checked *Check `json:"checked,omitempty"`
	// Terminating says that the status tells of the VM's deletion.
	Terminating bool            `json:"terminating,omitempty"`
	Failure     *entity.Failure `json:"failure,omitempty"`

	Conditions []contract.Condition `json:"conditions,omitempty"`
	entity.StatusWrites[contract.VMStatus]

	// undecided says that there has been no decision since the last observation of the VMI. It lasts for one task.
	undecided bool
}

// End is the end of the instance of that UID.
type End struct {
	VMI string    `json:"vmi"`
	At  time.Time `json:"at"`
}

// Check is the outcome of a comparison of the instance of that UID with its VM at that generation.
type Check struct {
	VMI        string `json:"vmi"`
	Generation int64  `json:"generation"`
	// RestartRequired is the message of that condition ("": no restart is needed).
	RestartRequired string `json:"restartRequired,omitempty"`
}

// Transition is an open child workflow.
type Transition struct {
	entity.Transition
	// VMI is the UID of the instance that is to go, for stop and restart.
	VMI string `json:"vmi,omitempty"`
	// Reported is the progress that was last signalled to the child, or that held when it was opened.
	Reported contract.InstanceProgress `json:"reported,omitzero"`
	// Undone says that it waits for what comes of something that is not so any more: etcd was put back.
	Undone bool `json:"undone,omitempty"`
}

// undone says whether an instance that was read (nil: there is none) shows that what the transition did is undone, or
// not done yet: the instance that is to go does not, the one that it makes is not there, or one from before is back.
// Known is what was known of the instance until then. The transition may be cancelled in any case; what is wanted is
// then decided again.
func (t *Transition) undone(known, read *contract.VMIObservation) bool {
	switch {
	case read == nil:
		return t.Operation != contract.OperationStop
	case t.Operation != contract.OperationStart:
		return read.UID == t.VMI && read.DeletionTimestamp == nil
	default:
		return known != nil && known.Gone == (known.UID == read.UID)
	}
}

// open is the transition in flight, or nil.
func (s *State) open() *entity.Transition {
	if s.Open == nil {
		return nil
	}
	return &s.Open.Transition
}

// heard notes the epoch of an observation.
func (s *State) heard(epoch int64) bool {
	return s.inEpoch(s.Heard(epoch))
}

// inEpoch is done at the first observation in a new epoch: what is said of the DataVolumes counts, whatever its
// version, and the open transition is asked whether it is.
func (s *State) inEpoch(fresh bool) bool {
	if fresh {
		s.TemplatesVersion = ""
		s.open().AskNow()
	}
	return fresh
}

// observeVM folds what crdwatch saw of the VM object.
func (s *State) observeVM(o contract.VMObservation) {
	again := s.inEpoch(s.HeardObject(o.Epoch))
	if o.Again {
		s.open().AskNow()
	}
	if s.Object.UID == "" {
		if s.Missed = o.Gone; !o.Gone {
			s.adopt(o)
		}
		return
	}
	was := s.VM
	now, next := entity.Track(was, s.Next, o, again)
	s.Next = next
	s.believe(now)
	s.observeDataVolumes(was, o)
}

// believe takes what is the newest of the VM.
func (s *State) believe(o *contract.VMObservation) {
	if s.Failure != nil && (o.Generation != s.VM.Generation || s.Failure.Conflicting() != nil &&
		o.ResourceVersion != s.VM.ResourceVersion) {
		// Somebody changed the specification, or what a write met again and again: what failed before may go well now.
		s.Failure = s.Failure.RetryAfter(time.Time{})
	}
	if o != s.VM && !o.Gone && (o.Again || s.Forgot(o.Held) || s.namesUnknown(o)) {
		s.Stale = true
	}
	s.VM = o
}

// namesUnknown says that the first request is about an instance that the entity has not heard of: one that has just
// been made.
func (s *State) namesUnknown(o *contract.VMObservation) bool {
	if len(o.StateChangeRequests) == 0 {
		return false
	}
	uid := o.StateChangeRequests[0].UID
	return uid != "" && (s.VMI == nil || s.VMI.UID != uid)
}

func (s *State) adopt(o contract.VMObservation) {
	s.Object.UID = o.UID
	s.VM = &o
	s.observeDataVolumes(nil, o)
	s.recall(o)
	// Somebody has been at work on it: what there is has to be known first.
	s.Stale = s.Stale || o.Reported
	if s.VMI != nil && s.VMI.OwnerUID != "" && s.VMI.OwnerUID != o.UID {
		s.VMI = nil
	}
}

// recall takes back from a VM's status what outlives Temporal's history there.
func (s *State) recall(o contract.VMObservation) {
	s.StartFailure, s.RunStrategy, s.ObservedGeneration = o.StartFailure, o.StatusRunStrategy, o.ObservedGeneration
	s.Hold = entity.HoldShown(o.Held)
}

// read takes in what is true now, whatever was remembered. The status is written anew: what was written may have been
// lost.
func (s *State) read(r contract.ReadVMResult) {
	switch {
	case r.VM == nil:
		s.VM, s.Missed = entity.Gone(s.VM), s.VM == nil
	case s.VM == nil:
		s.adopt(*r.VM)
	default:
		s.VM = r.VM
		s.recall(*r.VM)
	}
	s.Stale, s.OutcomeUnknown = false, true
	if s.Checked != nil { // what followed from it may be lost
		s.Checked = &Check{VMI: s.Checked.VMI, RestartRequired: s.Checked.RestartRequired}
	}
	s.Next = entity.StillNext(s.Next, r.VM)
	if s.Open != nil && s.Open.undone(s.VMI, r.VMI) {
		s.Open.Undone = true
	}
	if s.Ending != nil {
		// It is asked for once more.
		s.Ending.Lost = r.VMI == nil && s.VMI == nil || r.VMI != nil && r.VMI.DeletionTimestamp == nil
	}
	if r.VM == nil {
		return
	}
	if r.VMI == nil {
		s.VMI = entity.Absent(s.VMI)
		return
	}
	s.readVMI(r.VMI)
}

// readVMI takes an instance that an activity has read, which knows nothing of its claims.
func (s *State) readVMI(o *contract.VMIObservation) {
	was := s.VMI
	s.VMI = o
	s.believeClaims(was, *o, false)
}

// observeVMI folds what crdwatch saw of the VMI of this name. One that another VM controls does not count.
func (s *State) observeVMI(o contract.VMIObservation) {
	fresh := s.heard(o.Epoch)
	if o.OwnerUID != "" && s.Object.UID != "" && o.OwnerUID != s.Object.UID {
		return
	}
	was := s.VMI
	stops := s.Ending != nil || s.Open != nil && s.Open.Operation == contract.OperationStop
	s.VMI = entity.Newest(was, o)
	unheard := was == nil || !stops && was.Gone && was.UID != o.UID
	if o.Gone && unheard && (stops || s.Open != nil) {
		// The first that is heard of the instance which the open stop asked the end of, not knowing it: were it another
		// one, the VM would keep its finalizer, and ask once more. Or of the one that the open start has made, which
		// knows whether it was that one.
		s.VMI = &contract.VMIObservation{UID: o.UID, Gone: true}
		if was != nil {
			s.VMI.ResourceVersion = was.ResourceVersion // what was observed before is older
		}
	}
	news := s.VMI != was
	s.believeClaims(was, o, fresh)
	if !news {
		return
	}
	s.OutcomeUnknown = s.OutcomeUnknown || s.undecided && s.passed(was)
	s.undecided = true
}

// believeClaims keeps what crdwatch said last of the claims of the VMI, which is as old as what it had read of those:
// who writes or reads the VMI itself says nothing of them.
func (s *State) believeClaims(was *contract.VMIObservation, o contract.VMIObservation, fresh bool) {
	if s.VMI == nil || s.VMI.Gone || was == nil || was.UID != s.VMI.UID || o.UID != s.VMI.UID {
		return
	}
	last := was
	if o.ClaimsVersion != "" && (fresh || !entity.OlderPart(was.ClaimsVersion, o.ClaimsVersion, was, o)) {
		last = &o
	}
	if now := *s.VMI; !entity.Same(now.Claims, last.Claims) || now.ClaimsVersion != last.ClaimsVersion {
		now.Claims, now.ClaimsVersion = last.Claims, last.ClaimsVersion
		s.VMI = &now
	}
}

// passed says that a running instance has said something that it says no more, and that is not known to have been
// written. Where both come in one task, the worker may have died in an earlier attempt of it, which knew the first only
// and wrote that.
func (s *State) passed(was *contract.VMIObservation) bool {
	if was == nil || s.Written == nil || was.Phase != "Running" {
		return false
	}
	if was.Migration.UnderWay() && !s.VMI.Migration.UnderWay() && s.Written.PrintableStatus != "Migrating" {
		return true
	}
	return slices.ContainsFunc(was.Conditions, func(c contract.Condition) bool {
		_, now := conditions.Get(s.VMI.Conditions, c.Type)
		_, written := conditions.Get(s.Written.Conditions, c.Type)
		return !now && !written
	})
}

// next moves on to the newer incarnation.
func (s *State) next() State {
	n := State{Object: contract.Object{Namespace: s.Object.Namespace, Name: s.Object.Name},
		Memory: s.Memory.Next()}
	if s.Next != nil {
		n.adopt(*s.Next)
	}
	return n
}

func (s *State) strategy() runstrategy.Strategy { return runstrategy.Strategy(s.VM.RunStrategy) }

func (s *State) situation() runstrategy.Situation { return runstrategy.SituationOf(s.VMI) }

func (s *State) request() runstrategy.Request { return runstrategy.RequestOf(s.VM, s.VMI) }

func (s *State) pendingRequests() []contract.StateChangeRequest {
	return runstrategy.Pending(s.VM, s.VMI)
}

// actor is who is behind what is decided now: whoever sent the request that waits, as the subresources API has written
// it, or else whoever changed the object last, or deletes it.
func (s *State) actor() string {
	if reqs := s.pendingRequests(); !s.deleting() && len(reqs) > 0 &&
		reqs[0].Data[contract.AnnotationRequestedBy] != "" {
		return reqs[0].Data[contract.AnnotationRequestedBy]
	}
	return s.requester()
}

// requester is who is behind what the VM is to be: whoever deletes it, or changed it last.
func (s *State) requester() string {
	return s.Behind(s.deleting(), s.VM.DeletionTimestamp, s.VM.Actor)
}

// startPaused says whether the start that is asked for is to leave the guest paused.
func (s *State) startPaused() bool {
	for _, r := range s.pendingRequests() {
		if r.Action == "Start" {
			return r.Data["paused"] == "true"
		}
	}
	return false
}

// progress is what a transition waits for, read from the VMI.
func (s *State) progress() contract.InstanceProgress {
	if s.deleting() && s.orphaned() && s.startsAnother() {
		return contract.InstanceProgress{State: contract.ProgressOrphaned}
	}
	return progressOf(s.VMI)
}

// progressOf is how far an instance is; nil: nobody knows of one.
func progressOf(vmi *contract.VMIObservation) contract.InstanceProgress {
	switch runstrategy.SituationOf(vmi) {
	case runstrategy.Absent:
		if vmi != nil {
			return contract.InstanceProgress{State: contract.ProgressAbsent, VMIUID: vmi.UID}
		}
	case runstrategy.Succeeded, runstrategy.Failed:
		return contract.InstanceProgress{State: contract.ProgressEnded, VMIUID: vmi.UID, Phase: vmi.Phase}
	case runstrategy.Alive:
		if vmi.Phase == "Running" {
			return contract.InstanceProgress{State: contract.ProgressRunning, VMIUID: vmi.UID, Phase: vmi.Phase}
		}
	case runstrategy.Deleting:
	}
	return contract.InstanceProgress{}
}

func (s *State) deleting() bool { return runstrategy.Deleted(s.VM) }

// orphaned says that the VM is being deleted without its instance.
func (s *State) orphaned() bool { return runstrategy.Orphans(s.VM) }

// startsAnother says that the open transition makes, or has made, another instance than the one that it found.
func (s *State) startsAnother() bool {
	return s.Open != nil && (s.Open.Operation == contract.OperationStart ||
		s.Open.Operation == contract.OperationRestart && s.VMI != nil && s.VMI.UID != s.Open.VMI)
}

// refresh brings what is derived from observations up to date. It runs before each decision and is as deterministic as
// one.
func (s *State) refresh(now time.Time) {
	s.undecided = false
	s.followEnding(now)
	s.noteEnd(now)
	s.forgetFailure()
	s.follow(now)
	s.await()
	s.mirror(now)
}

// follow notes what is to outlive the instance: the run strategy that the VM was last seen to follow, its generation,
// its revision; and when it ended.
func (s *State) follow(now time.Time) {
	there := s.situation() != runstrategy.Absent
	if there {
		s.ObservedGeneration = s.VMI.VMGeneration
		if s.VMI.Revision != "" {
			s.Revision = s.VMI.Revision
		}
		if s.over() && s.Ended.VMI != s.VMI.UID {
			s.Ended = End{VMI: s.VMI.UID, At: now}
		}
	}
	// A start that RerunOnFailure owes, because it is new to the VM, is owed until there is an instance.
	owed := s.strategy() == runstrategy.RerunOnFailure && s.RunStrategy != s.VM.RunStrategy
	if there || s.RunStrategy != "" && !owed {
		s.RunStrategy = s.VM.RunStrategy
	}
}
