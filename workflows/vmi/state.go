package vmi

import (
	"errors"
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// State is the state of a VMI entity. It is carried across Continue-As-New.
type State struct {
	VMIObject
	Launchers
	// Next is a newer object of the same name. The entity continues with it when this one is done.
	Next *contract.VMIObservation `json:"next,omitempty"`
	// NeverSeen means that the VMI was gone before it was observed: a late signal has started this entity.
	NeverSeen bool `json:"missed,omitempty"`

	Phase      Phase                `json:"phase,omitempty"`
	PhaseTimes []contract.PhaseTime `json:"phaseTimes,omitempty"`
	// Reason is status.reason. Explanation is why the VMI failed or ended, for people.
	Reason      string `json:"reason,omitempty"`
	Explanation string `json:"explanation,omitempty"`

	// EndingSince is when the deletion of the VMI was first observed.
	EndingSince time.Time `json:"endingSince,omitzero"`

	WriteDelay

	// FindPodAt is when the pods are read if their end, or their VMI, is not observed before: the observation may have
	// been lost.
	FindPodAt time.Time `json:"lookAt,omitzero"`

	// Starting means that the activity StartDomain runs.
	Starting bool `json:"starting,omitempty"`
	// StartCancelled means that this activity was cancelled.
	StartCancelled bool `json:"startCancelled,omitempty"`
	// StartRefused means that libvirt or the launcher refused to start the domain, and a retry would not help.
	StartRefused bool `json:"startRefused,omitempty"`

	// Warning has the pod's event on why its containers do not start (nil: the events were not read).
	Warning *Warning `json:"warning,omitempty"`

	// Failure is the last step that failed; the planner does not repeat it before RetryAt.
	Failure *entity.Failure `json:"failure,omitempty"`

	StatusGate
	Migrations
	Volumes
	entity.Logic
	entity.Manual
	entity.Memory

	Conditions []contract.Condition `json:"conditions,omitempty"`
	entity.StatusWrites[contract.VMIStatus]
	// Announced has the events that were recorded.
	Announced entity.Announced `json:"announced,omitempty"`
}

// VMIObject is the VMI object that the entity owns.
type VMIObject struct {
	// Object has an empty UID until the VMI is observed.
	Object contract.Object `json:"object"`
	// VMI is the newest observation of it (nil: none yet).
	VMI *contract.VMIObservation `json:"vmi,omitempty"`
}

func (o *VMIObject) isDeleting() bool { return isDeleting(o.VMI) }

func isDeleting(vmi *contract.VMIObservation) bool {
	return vmi != nil && (vmi.Gone || vmi.DeletionTimestamp != nil)
}

// statusNode returns the node that the VMI's status names, or "".
func (o *VMIObject) statusNode() string {
	if o.VMI == nil {
		return ""
	}
	return o.VMI.NodeName
}

// ownFinalizers returns the VMI's finalizers that this entity removes. The VM's own is among them: KubeVirt's
// controller uses it to see how its VMI ended, while a VM entity gets that by a signal.
func (o *VMIObject) ownFinalizers() []string {
	return entity.Without(o.VMI.Finalizers, o.otherFinalizers()...)
}

func (o *VMIObject) otherFinalizers() []string {
	return entity.Without(o.VMI.Finalizers, contract.FinalizerVMI, contract.FinalizerVM)
}

// isEvacuated reports whether the guest, which is on that node, has left the one that it was asked to leave.
func (o *VMIObject) isEvacuated(node string) bool {
	from := o.VMI.EvacuationNode
	return from != "" && node != "" && from != node
}

// observeVMI folds in an observation of the VMI object.
func (s *State) observeVMI(o contract.VMIObservation) {
	newEpoch := s.AdvanceObjectEpoch(o.Epoch)
	if s.Object.UID == "" && !s.hasForeignPod(o.UID) {
		if s.NeverSeen = o.Gone; !o.Gone {
			s.adopt(o)
			s.rechooseCurrent(s.statusNode(), false)
		}
		return
	}
	if newEpoch || o.Again {
		s.Migration.askNow()
	}
	s.observePVCs(o, &s.VMIObject, newEpoch)
	was := s.VMI
	s.VMI, s.Next = entity.Track(was, s.Next, o, newEpoch)
	s.ReadAgainIf(s.VMI != was && s.VMI.Again && !s.VMI.Gone)
}

// hasForeignPod reports whether a pod of another VMI object of this name exists: that pod is dealt with first.
func (s *State) hasForeignPod(uid string) bool {
	owner := s.owner().UID
	return s.hasAnyPod() && owner != "" && owner != uid
}

// adopt begins with a VMI object. It takes phase, conditions and migration from the object's status, since this entity
// may have lost its history.
func (s *State) adopt(o contract.VMIObservation) {
	if s.Pod != nil && s.Pod.VMIUID != "" && s.Pod.VMIUID != o.UID {
		// A late observation of another VMI's pod, which is gone: this VMI has had no pod yet.
		s.Pod, s.Domain, s.Others = nil, nil, nil
	}
	s.Object.UID = o.UID
	s.observePVCs(o, &s.VMIObject, false)
	s.VMI = &o
	s.Phase = Phase(o.Phase)
	if !s.Phase.isKnown() {
		// The status has an unknown phase. Whether the guest ever ran decides what a missing pod means.
		s.Phase = PhaseUnset
		if o.EverRan {
			s.Phase = PhaseRunning
		}
	}
	s.PhaseTimes = o.PhaseTimes
	s.Conditions = o.Conditions
	s.adoptMigration(s.Object.Namespace, o.Migration)
}

// observePod folds in an observation of a launcher pod of this VMI.
func (s *State) observePod(o contract.PodObservation) {
	s.AdvanceEpoch(o.Epoch)
	if s.Discarded != "" && o.UID == s.Discarded {
		return
	}
	if owner := s.owner().UID; o.VMIUID != "" && owner != "" && o.VMIUID != owner {
		if s.Object.UID != "" || s.hasAnyPod() {
			return
		}
		s.Pod, s.Domain, s.Others = nil, nil, nil // of an earlier VMI that was never observed
	}
	if l := s.launcher(o.UID); l != nil {
		l.setPod(entity.Newest(l.Pod, o))
		s.forgetGone()
	} else if !o.Gone {
		s.addLauncher(o)
		s.chooseCurrent(s.statusNode(), false)
	}
}

// observeReservation folds in the signal of a migration.
func (s *State) observeReservation(c contract.MigrationClaim, now time.Time) {
	s.observeClaim(c, s.scope(), now)
}

// applyFoundPods folds in the launcher pods that the API server has.
func (s *State) applyFoundPods(pods []contract.PodObservation) {
	s.FindPodAt = time.Time{}
	if s.VMI != nil && s.VMI.Gone {
		s.NoteRead()
	}
	if s.matchPods(pods, s.statusNode()); s.Pod == nil {
		s.Pod = &contract.PodObservation{Gone: true}
	}
}

// adoptRead folds in the VMI as an activity has read it when it refused a step. It returns an error with the reason if
// the VMI was as known: a repetition would be refused again.
func (s *State) adoptRead(now *contract.VMIObservation, why string) error {
	if now == nil || now.UID != s.Object.UID {
		return errors.New(why)
	}
	known := now.ResourceVersion == s.VMI.ResourceVersion && Phase(now.Phase) == s.Phase &&
		(now.DeletionTimestamp == nil) == (s.VMI.DeletionTimestamp == nil)
	s.adopt(*now)
	if known {
		return errors.New(why)
	}
	return nil
}

// adoptReadPod does the same for a pod.
func (s *State) adoptReadPod(now *contract.PodObservation, why string) error {
	known := now == nil
	if now != nil {
		l := s.launcher(now.UID)
		if l == nil {
			s.addLauncher(*now)
			s.chooseCurrent(s.statusNode(), false)
			return nil
		}
		known = !l.Pod.Gone && now.ResourceVersion == l.Pod.ResourceVersion
		*l = s.newLauncher(*now)
	}
	if known {
		return errors.New(why)
	}
	return nil
}

// applyRead replaces what is known by what the API server has. The launcher and the node report again, and the status
// is written again, since the last write may have been lost.
func (s *State) applyRead(r contract.ReadVMIResult) {
	s.NoteRead()
	s.OutcomeUnknown = true
	s.Next = entity.StillNext(s.Next, r.VMI)
	s.setMigratable(r.Migratable)
	if r.VMI == nil {
		s.VMI = entity.AsGone(s.VMI)
	} else {
		// A migration that the status does not know has not ended: etcd may be an older copy.
		s.Ended, s.MigrationState = nil, nil
		s.adopt(*r.VMI)
	}
	pods, before := r.Pods(), s.Pod
	for _, o := range pods {
		if l := s.launcher(o.UID); l != nil {
			*l = s.newLauncher(o)
			l.Fenced = nil
		}
	}
	s.matchPods(pods, s.statusNode())
	s.rechooseCurrent(s.statusNode(), true)
	if before != nil && s.hasPod() {
		s.Domain = nil // its node worker reports it again; the domains of other pods stay
	}
	if r.VMI != nil && s.Pod != nil && !s.hasAnyPod() && !s.FinalizerRemoved &&
		slices.Contains([]Phase{PhaseUnset, PhasePending}, s.Phase) {
		// etcd was restored to a time before the pod existed. A late observation must not bring the pod back.
		s.Others, s.Launcher = append(s.Others, s.Launcher), Launcher{}
	}
}

// successor returns the state with which the entity continues for the newer object.
func (s *State) successor() State {
	n := State{Memory: s.Memory.Next(), Logic: s.Logic}
	n.Object = contract.Object{Namespace: s.Object.Namespace, Name: s.Object.Name}
	if s.Next != nil {
		n.adopt(*s.Next)
	}
	return n
}
