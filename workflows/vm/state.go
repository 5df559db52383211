package vm

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/entity"
)

// State is the state of a VM entity. It is carried across Continue-As-New.
type State struct {
	Object contract.Object          `json:"object"`
	VM     *contract.VMObservation  `json:"vm,omitempty"`
	VMI    *contract.VMIObservation `json:"vmi,omitempty"`
	// Next is a newer object of the same name. The entity continues with it when this one is gone.
	Next *contract.VMObservation `json:"next,omitempty"`
	// NeverSeen means that the VM was gone before it was observed: a late signal has started this entity.
	NeverSeen bool `json:"missed,omitempty"`

	// Open is the open transition, and Count the number of transitions so far.
	Open  *Transition `json:"open,omitempty"`
	Count int         `json:"count,omitempty"`
	// Ending is the end of the instance that the VM's deletion asks for (nil: none).
	Ending *Ending `json:"ending,omitempty"`
	// Last is the outcome of the last transition or ending.
	Last *entity.Outcome `json:"last,omitempty"`

	entity.Logic
	entity.Manual
	entity.Memory

	DataVolumes

	StartFailure *contract.StartFailure `json:"startFailure,omitempty"`
	// RunStrategy is the desired status.runStrategy: "" until there was an instance.
	RunStrategy string `json:"runStrategy,omitempty"`
	// Revision is the ControllerRevision of the last instance.
	Revision string `json:"revision,omitempty"`
	// Ended is when an instance was first observed to have ended.
	Ended End `json:"ended,omitzero"`
	// Ends are the last ends of instances that were replaced, at most maxEnds, the oldest first. EndedOften is set
	// while StartFailure is due to them.
	Ends       []End `json:"ends,omitempty"`
	EndedOften bool  `json:"endedOften,omitempty"`
	// Checked is the last comparison of an instance with its VM (nil: none).
	Checked *Check `json:"checked,omitempty"`
	// Terminating means that the written status shows the VM's deletion.
	Terminating bool            `json:"terminating,omitempty"`
	Failure     *entity.Failure `json:"failure,omitempty"`

	Conditions []contract.Condition `json:"conditions,omitempty"`
	entity.StatusWrites[contract.VMStatus]

	// undecided means that the planner has not run since the last observation of the VMI. It lasts for one workflow
	// task.
	undecided bool
}

// End is when the instance of that UID was observed to have ended.
type End struct {
	VMI string    `json:"vmi"`
	At  time.Time `json:"at"`
}

// Check is the result of a comparison of the instance of that UID with its VM at that generation.
type Check struct {
	VMI        string `json:"vmi"`
	Generation int64  `json:"generation"`
	// RestartRequired is the message of that condition ("": no restart is needed).
	RestartRequired string `json:"restartRequired,omitempty"`
}

// Transition is an open child workflow.
type Transition struct {
	entity.Transition
	// VMI is the UID of the instance to delete, for stop and restart.
	VMI string `json:"vmi,omitempty"`
	// Reported is the progress that was last signalled to the child, or that it had when it was opened.
	Reported contract.InstanceProgress `json:"reported,omitzero"`
	// Undone means that etcd was restored, and that the transition waits for what will not happen any more.
	Undone bool `json:"undone,omitempty"`
}

// isUndone reports whether an instance as read (nil: there is none) shows that the transition's effect is undone or has
// not happened yet. A stopped instance is not being deleted, a started one does not exist, or an earlier one is back.
// Known is the instance as known before. The transition may be cancelled in any case: the desired action is then
// decided again.
func (t *Transition) isUndone(known, read *contract.VMIObservation) bool {
	switch {
	case read == nil:
		return t.Operation != contract.OperationStop
	case t.Operation != contract.OperationStart:
		return read.UID == t.VMI && read.DeletionTimestamp == nil
	default:
		return known != nil && known.Gone == (known.UID == read.UID)
	}
}

// openTransition returns the open transition, or nil.
func (s *State) openTransition() *entity.Transition {
	if s.Open == nil {
		return nil
	}
	return &s.Open.Transition
}

// observeEpoch records the epoch of an observation, and reports whether it is a new one.
func (s *State) observeEpoch(epoch int64) bool {
	return s.enterEpoch(s.AdvanceEpoch(epoch))
}

// enterEpoch handles the first observation in a new epoch, and reports whether this is one. Observations of DataVolumes
// then count whatever their version, and the open transition is asked whether it is still open.
func (s *State) enterEpoch(newEpoch bool) bool {
	if newEpoch {
		s.TemplatesVersion = ""
		s.openTransition().AskNow()
	}
	return newEpoch
}

// observeVM folds in an observation of the VM object.
func (s *State) observeVM(o contract.VMObservation) {
	newEpoch := s.enterEpoch(s.AdvanceObjectEpoch(o.Epoch))
	if o.Again {
		s.openTransition().AskNow()
	}
	if s.Object.UID == "" {
		if s.NeverSeen = o.Gone; !o.Gone {
			s.adopt(o)
		}
		return
	}
	was := s.VM
	now, next := entity.Track(was, s.Next, o, newEpoch)
	s.Next = next
	s.setVM(now)
	s.observeDataVolumes(was, o)
}

// setVM replaces the VM by a newer observation.
func (s *State) setVM(o *contract.VMObservation) {
	if s.Failure != nil && (o.Generation != s.VM.Generation || s.Failure.OfConflict() != nil &&
		o.ResourceVersion != s.VM.ResourceVersion) {
		// The specification has changed, or the object on which every write conflicted: the failed step may succeed
		// now.
		s.Failure = s.Failure.RetryAfter(time.Time{})
	}
	s.ReadAgainIf(o != s.VM && !o.Gone && (o.Again || s.HasLostHold(o.Held) || s.isUnknownInstanceRequested(o)))
	s.VM = o
}

// isUnknownInstanceRequested reports whether the first request names an instance that the entity does not know: one
// that was just made.
func (s *State) isUnknownInstanceRequested(o *contract.VMObservation) bool {
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
	s.restoreFromStatus(o)
	// A status exists, so an earlier run may have made an instance: it is read first.
	s.ReadAgainIf(o.Reported)
	if s.VMI != nil && s.VMI.OwnerUID != "" && s.VMI.OwnerUID != o.UID {
		s.VMI = nil
	}
}

// restoreFromStatus takes from a VM's status what has to outlive Temporal's history.
func (s *State) restoreFromStatus(o contract.VMObservation) {
	s.StartFailure, s.RunStrategy = o.StartFailure, o.StatusRunStrategy
	s.Hold = entity.HoldShown(o.Held)
}

// applyRead replaces what is known by what the API server has. The status is written again, since the last write may
// have been lost.
func (s *State) applyRead(r contract.ReadVMResult) {
	switch {
	case r.VM == nil:
		s.VM, s.NeverSeen = entity.AsGone(s.VM), s.VM == nil
	case s.VM == nil:
		s.adopt(*r.VM)
	default:
		s.VM = r.VM
		s.restoreFromStatus(*r.VM)
	}
	s.NoteRead()
	s.OutcomeUnknown = true
	if s.Checked != nil { // its result may have been lost
		s.Checked = &Check{VMI: s.Checked.VMI, RestartRequired: s.Checked.RestartRequired}
	}
	s.Next = entity.StillNext(s.Next, r.VM)
	if s.Open != nil && s.Open.isUndone(s.VMI, r.VMI) {
		s.Open.Undone = true
	}
	if s.Ending != nil {
		// The end is requested again.
		s.Ending.OutcomeUnknown = r.VMI == nil && s.VMI == nil || r.VMI != nil && r.VMI.DeletionTimestamp == nil
	}
	if r.VM == nil {
		return
	}
	if r.VMI == nil {
		s.VMI = entity.AsAbsent(s.VMI)
		return
	}
	s.setReadVMI(r.VMI)
}

// setReadVMI sets the instance as an activity has read it, without its PVCs.
func (s *State) setReadVMI(o *contract.VMIObservation) {
	was := s.VMI
	s.VMI = o
	s.keepPVCs(was, *o, false)
}

// observeVMI folds in an observation of the VMI of this name. One that another VM controls is ignored.
func (s *State) observeVMI(o contract.VMIObservation) {
	fresh := s.observeEpoch(o.Epoch)
	if o.OwnerUID != "" && s.Object.UID != "" && o.OwnerUID != s.Object.UID {
		return
	}
	was := s.VMI
	stops := s.Ending != nil || s.Open != nil && s.Open.Operation == contract.OperationStop
	s.VMI = entity.Newest(was, o)
	unheard := was == nil || !stops && was.Gone && was.UID != o.UID
	if o.Gone && unheard && (stops || s.Open != nil) {
		// It is the first observation of the instance that the open stop deletes without knowing its UID. Were it
		// another one, the VM would keep its finalizer, and request the deletion again. Or it is the instance that the
		// open start has made; the start knows whether it is that one.
		s.VMI = &contract.VMIObservation{UID: o.UID, Gone: true}
		if was != nil {
			s.VMI.ResourceVersion = was.ResourceVersion // what was observed before is older
		}
	}
	news := s.VMI != was
	s.keepPVCs(was, o, fresh)
	if !news {
		return
	}
	s.OutcomeUnknown = s.OutcomeUnknown || s.undecided && s.hasUnwrittenReport(was)
	s.undecided = true
}

// keepPVCs keeps crdwatch's last observation of the VMI's PVCs. It has a version of its own: an activity that reads or
// writes the VMI itself does not read its PVCs.
func (s *State) keepPVCs(was *contract.VMIObservation, o contract.VMIObservation, fresh bool) {
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

// hasUnwrittenReport reports whether a running instance has reported something that no longer holds, and that is not
// known to be written. If both arrive in one workflow task, an earlier attempt of that task may have seen only the
// first and written it, before its worker died.
func (s *State) hasUnwrittenReport(was *contract.VMIObservation) bool {
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

// successor returns the state with which the entity continues for the newer object.
func (s *State) successor() State {
	n := State{Object: contract.Object{Namespace: s.Object.Namespace, Name: s.Object.Name},
		Memory: s.Memory.Next(), Logic: s.Logic}
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

// actor returns the user behind the current decision: the one who sent the pending request, as the subresources API has
// recorded, or else the one who last changed or deleted the object.
func (s *State) actor() string {
	if reqs := s.pendingRequests(); !s.isDeleting() && len(reqs) > 0 &&
		reqs[0].Data[contract.AnnotationRequestedBy] != "" {
		return reqs[0].Data[contract.AnnotationRequestedBy]
	}
	return s.requester()
}

// requester returns the user who last changed the VM, or who deletes it.
func (s *State) requester() string {
	return s.RequestedBy(s.isDeleting(), s.VM.DeletionTimestamp, s.VM.Actor)
}

// isStartPaused reports whether the requested start leaves the guest paused.
func (s *State) isStartPaused() bool {
	for _, r := range s.pendingRequests() {
		if r.Action == "Start" {
			return r.Data["paused"] == "true"
		}
	}
	return false
}

// progress returns what a transition waits for, read from the VMI.
func (s *State) progress() contract.InstanceProgress {
	if s.isDeleting() && s.isOrphaningInstance() && s.isMakingInstance() {
		return contract.InstanceProgress{State: contract.ProgressOrphaned}
	}
	return progressOf(s.VMI)
}

// progressOf returns the progress of an instance; nil: none is known.
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

func (s *State) isDeleting() bool { return runstrategy.Deleted(s.VM) }

// isOrphaningInstance reports whether the VM is being deleted without its instance.
func (s *State) isOrphaningInstance() bool { return runstrategy.Orphans(s.VM) }

// isMakingInstance reports whether the open transition makes, or has made, another instance than the one that it found.
func (s *State) isMakingInstance() bool {
	return s.Open != nil && (s.Open.Operation == contract.OperationStart ||
		s.Open.Operation == contract.OperationRestart && s.VMI != nil && s.VMI.UID != s.Open.VMI)
}

// refresh derives from the observations what the planner reads. It runs before each decision and is deterministic.
func (s *State) refresh(now time.Time) {
	s.undecided = false
	s.followEnding(now)
	s.countFailedStart(now)
	s.dropObsoleteFailure()
	s.recordInstance(now)
	s.showAwaitedApproval()
	s.mirrorConditions(now)
}

// recordInstance records what has to outlive the instance: the run strategy that the VM followed, the instance's
// revision, and when it ended.
func (s *State) recordInstance(now time.Time) {
	there := s.situation() != runstrategy.Absent
	if there {
		if s.VMI.Revision != "" {
			s.Revision = s.VMI.Revision
		}
		if s.hasNoLiveInstance() && s.Ended.VMI != s.VMI.UID {
			s.Ended = End{VMI: s.VMI.UID, At: now}
		}
	}
	// A VM that newly has RerunOnFailure is owed one start, until there is an instance.
	owed := s.strategy() == runstrategy.RerunOnFailure && s.RunStrategy != s.VM.RunStrategy
	if there || s.RunStrategy != "" && !owed {
		s.RunStrategy = s.VM.RunStrategy
	}
}
