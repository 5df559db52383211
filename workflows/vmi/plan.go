package vmi

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/workflows/entity"
)

// settleTime is how long, from the pod's creation, a status that is about to change again by itself is not written: a
// boot goes through Scheduling and Scheduled within a second or two, and is Running for a moment before the kubelet
// calls the pod Ready. One write instead of four; status.phaseTransitionTimestamps has each step. What takes longer, or
// goes wrong, shows.
const settleTime = 5 * time.Second

// An operation on the guest changes the status before its answer has gone: the workflow task that answers would first
// do the writes. So writes are held off for answerTime from when an operation begins, and again when it ends later.
// Where one operation follows the other the hold-off lasts for holdOffLongest at most, and the next begins after
// holdOffPause.
const (
	answerTime     = 200 * time.Millisecond
	holdOffLongest = time.Second
	holdOffPause   = 200 * time.Millisecond
)

// lookAgain is how long the end of a pod is waited for before it is looked for.
const lookAgain = 5 * time.Minute

type (
	action   = entity.Action
	decision = entity.Decision
)

// Steps.
const (
	actFindPod            = action("look for the launcher pod")
	actCreatePod          = action("create the launcher pod")
	actStartDomain        = action("start the domain")
	actCancelStart        = action("cancel the start of the domain")
	actMarkPod            = action("open the readiness gate")
	actDeletePod          = action("delete the launcher pod")
	actDeleteOrphan       = action("delete a launcher pod whose migration is gone")
	actEndLauncher        = action("tell the launcher to end")
	actForceDeletePod     = action("force-delete the pod on its fenced node")
	actRemovePodFinalizer = action("remove the finalizer of the launcher pod")
	actRemoveFinalizers   = action("remove the finalizers of the VMI")
	actAnswerMigration    = action("answer the migration")
	actResize             = action("let the guest see that its disks have grown")
)

// decide is the planner: pure and total.
func (s *State) decide(now time.Time) decision {
	d := s.urgent(now)
	if (d.Action == entity.ActWrite || d.Action == actMarkPod) && now.Before(s.HoldOffUntil) {
		d = decision{WakeAt: s.HoldOffUntil, Waiting: "an operation on the guest to be answered"}
	}
	return d.By(s.alarm(now))
}

// holdOff makes room for the answer to an operation that begins now.
func (s *State) holdOff(now time.Time) {
	if now.Sub(s.HoldOffUntil) >= holdOffPause {
		s.HoldOffFrom = now
	}
	s.HoldOffUntil = entity.Sooner(now.Add(answerTime), s.HoldOffFrom.Add(holdOffLongest))
}

// urgent is the planner in order of urgency.
func (s *State) urgent(now time.Time) decision {
	if s.VMI == nil {
		return s.held(s.decideOrphan(now), now)
	}
	if s.Stale && !s.VMI.Gone {
		return s.held(decision{Action: entity.ActRead, Why: "it may know less than there is, or something older"}, now)
	}
	if s.Stale && s.anyHeld() {
		// Of a pod that was never in what etcd has now, or that an older copy of this workflow remembers, nobody hears.
		return s.held(decision{Action: actFindPod, Why: "its pods may be gone as well"}, now)
	}
	claim, ok := s.decideClaim(now)
	late := ok && s.deleting() && s.Failure.Holds(claim.Step(), now) // it keeps nothing from its end
	if ok && !late {
		return s.held(claim, now)
	}
	if s.Pod == nil && (s.deleting() || !contains([]Phase{PhaseUnset, PhasePending}, s.Phase)) {
		// Adopted without its history: whether it has a pod must be known before anything is decided.
		return s.held(decision{Action: actFindPod, Why: "the VirtualMachineInstance is older than this workflow"}, now)
	}
	if d, ok := s.decideEnding(now); ok {
		if late && d.Action == entity.ActNone {
			d = claim
		}
		return s.held(d, now)
	}
	if d, ok := s.decideBoot(now); ok {
		return s.held(d, now)
	}
	if d, ok := s.decideOrphans(now); ok {
		return s.held(d, now)
	}
	if d, ok := s.decideGrown(); ok {
		return s.held(d, now)
	}
	return s.held(s.decideStatus(now), now)
}

// decideOrphan is about a pod whose VMI nobody has seen: it is being garbage collected and must not be held for ever.
func (s *State) decideOrphan(now time.Time) decision {
	switch {
	case s.Pod == nil && s.Missed:
		return decision{Action: entity.ActFinish, Why: "the VirtualMachineInstance was gone before it was seen"}
	case s.Pod == nil:
		return decision{Waiting: "the first observation of the VirtualMachineInstance"}
	case !s.anyHeld() && s.Next != nil:
		return decision{Action: entity.ActNext, Why: "the pod of an earlier object of the same name is gone"}
	case !s.anyHeld():
		return decision{Action: entity.ActFinish, Why: "the pod is gone, and no VirtualMachineInstance was seen"}
	}
	for _, l := range s.launchers() {
		d, ok := l.decideEnded()
		if ok && (d.Action != actRemovePodFinalizer || l.Pod.DeletionTimestamp != nil) {
			return d
		}
	}
	switch {
	case !now.Before(s.LookAt):
		return decision{Action: entity.ActRead,
			Why: "its pod has started it, and it does not know the VirtualMachineInstance"}
	default:
		return decision{WakeAt: s.LookAt, Waiting: "the VirtualMachineInstance of pod " + s.Pod.Name}
	}
}

// held keeps a step that failed from being repeated before its time.
func (s *State) held(d decision, now time.Time) decision {
	status := s.decideStatus // what went wrong belongs into it
	if s.VMI == nil || s.Stale || d.Action == actRemoveFinalizers {
		status = nil
	}
	return s.Failure.HoldBack(d, now, status)
}

// decideEnding takes the pods away when the VMI is to go, and removes the finalizers when all of them are gone.
func (s *State) decideEnding(now time.Time) (decision, bool) {
	var late decision // what has failed for one pod, and keeps no other from being deleted
	for _, l := range s.launchers() {
		d, ok := l.decideEnded()
		switch {
		case !ok, d.Action == actRemovePodFinalizer && s.tended(l, now):
		case s.deleting() && s.Failure.Holds(d.Step(), now):
			late = d
		default:
			return d, true
		}
	}
	if !s.deleting() {
		return decision{}, false
	}
	if until := s.migrationEndBy(now); !until.IsZero() {
		d := s.decideStatus(now).Or("migration " + s.Migration.Migration.Name + " to end")
		return d.By(until), true
	}
	all := s.launchers()
	if s.Migration != nil {
		slices.Reverse(all) // the target first
	}
	for _, l := range all {
		if d, ok := l.decideDelete(s.VMI); ok {
			return d, true
		}
	}
	if late.Action != entity.ActNone {
		return late, true
	}
	if s.anyHeld() {
		d := s.decideStatus(now)
		switch {
		case d.Action != entity.ActNone:
		case !now.Before(s.LookAt):
			d = decision{Action: actFindPod, Why: "it has been ending for a while"}
		default:
			d = decision{WakeAt: entity.Sooner(d.WakeAt, s.LookAt), Waiting: "the guest to shut down and its pod to end"}
		}
		return d, true
	}
	if s.Starting && !s.StartCancelled {
		return decision{Action: actCancelStart, Why: "the pod that it was for is gone"}, true
	}
	if s.Starting {
		return decision{Waiting: "the attempt to start the domain to be cancelled"}, true
	}
	if s.VMI.Gone {
		if s.Next != nil {
			return decision{Action: entity.ActNext, Why: "an object of the same name and another UID exists"}, true
		}
		return decision{Action: entity.ActFinish, Why: "the VirtualMachineInstance is gone"}, true
	}
	if len(s.ownFinalizers()) > 0 {
		return decision{Action: actRemoveFinalizers, Why: "its pod is gone"}, true
	}
	return decision{Waiting: "other finalizers of the VirtualMachineInstance"}, true
}

// decideBoot brings the VMI from nothing to a running guest.
func (s *State) decideBoot(now time.Time) (decision, bool) {
	switch s.Phase {
	case PhaseUnset, PhasePending:
		if s.Pod == nil && !s.awaiting(now) {
			return decision{Action: actCreatePod, Why: "the VirtualMachineInstance has none"}, true
		}
	case PhaseScheduled:
		if !s.Starting && !s.podEnded() && s.Pod.DeletionTimestamp == nil && s.Pod.Migration == "" {
			return decision{Action: actStartDomain, Why: "its pod runs on " + s.Pod.NodeName}, true
		}
	case PhaseRunning:
		if !s.booted() {
			return decision{}, false
		}
		if s.Domain == nil && !s.Starting && !s.podEnded() && s.Pod.ComputeRunning && s.Pod.DeletionTimestamp == nil {
			return decision{Action: actStartDomain,
				Why: "its guest runs on " + s.Pod.NodeName + ", but nothing is known of its domain"}, true
		}
		if s.podHeld() && !s.podEnded() && s.Pod.DeletionTimestamp == nil && s.unmarked(s.halted()) {
			why := "the guest runs"
			if s.halted() {
				why = "the guest is paused"
			}
			return decision{Action: actMarkPod, Why: why}, true
		}
	case PhaseScheduling, PhaseSucceeded, PhaseFailed:
	}
	return decision{}, false
}

// booted says that the guest was booted in the pod in hand, or was moved there. In a pod that a migration has made, and
// has not moved it to, it would be booted once more.
func (s *State) booted() bool { return s.Pod.Migration == "" || s.here(&s.Launcher) }

// decideStatus writes the status when it differs from what was written, unless it is about to change again by itself.
func (s *State) decideStatus(now time.Time) decision {
	unknown := s.Phase == PhaseRunning && s.Domain == nil || s.Pod == nil &&
		!contains([]Phase{PhaseUnset, PhasePending}, s.Phase)
	if s.VMI.Gone || unknown && (s.Pod == nil || !s.urgentNews() && !s.unwritten()) {
		return decision{Waiting: s.waiting()}
	}
	if !s.differs() {
		return decision{Waiting: s.waiting()}
	}
	if s.settling() && now.Before(s.SettleBy) {
		return decision{WakeAt: s.SettleBy, Waiting: s.waiting()}
	}
	if by := s.moveSettles(); now.Before(by) {
		return decision{WakeAt: by, Waiting: s.waiting()}
	}
	if now.Before(s.PodsBy) {
		return decision{WakeAt: s.PodsBy, Waiting: s.waiting()}
	}
	return decision{Action: entity.ActWrite, Why: "it differs from what was written"}
}

// settling: the boot goes on by itself right now.
func (s *State) settling() bool {
	if s.Failure != nil || s.unwritten() {
		return false
	}
	if s.deleting() {
		// Its pods are about to be gone, and then the write that releases the VMI says how it ended.
		return s.anyHeld()
	}
	switch s.Phase {
	case PhaseScheduling:
		return s.Pod.Unschedulable == nil && s.Pod.WaitingReason == ""
	case PhaseScheduled:
		return true
	case PhaseRunning:
		return !s.podReady()
	default:
		return false
	}
}

func (s *State) podReady() bool {
	return s.Pod != nil && s.Pod.Ready != nil && s.Pod.Ready.Status == "True"
}

// waiting says in words what an entity without a next step waits for.
func (s *State) waiting() string {
	switch s.Phase {
	case PhaseScheduling:
		switch {
		case s.Pod == nil:
			return "word of the launcher pod"
		case s.Pod.Unschedulable != nil:
			return "a node for the launcher pod: " + s.Pod.Unschedulable.Message
		case s.Pod.WaitingReason != "":
			return "the launcher pod's images: " + s.Pod.WaitingReason + " " + s.Pod.WaitingMessage
		default:
			return "the launcher pod to run"
		}
	case PhaseScheduled:
		return "the node's worker to start the domain"
	case PhaseRunning:
		if s.departed() {
			return "the migration to say where the guest is"
		}
		if !s.podReady() {
			return "the kubelet to call the pod ready"
		}
		return "nothing: the guest runs"
	case PhaseSucceeded, PhaseFailed:
		return "nothing: " + s.Explanation
	default:
		if w := s.lacking(); w != nil {
			return "its volumes: " + w.Message
		}
		return "the next observation"
	}
}
