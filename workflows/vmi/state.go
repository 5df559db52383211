package vmi

import (
	"errors"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// State is everything that a VMI entity knows. It is carried across Continue-As-New.
type State struct {
	// Object is the incarnation that this entity takes care of.
	Object contract.Object `json:"object"`
	// VMI is the newest observation of it (nil: none yet).
	VMI *contract.VMIObservation `json:"vmi,omitempty"`
	// Launcher is the pod in hand: that which the guest runs in, or is to run in. Others are launcher pods of this VMI
	// beside it. Nothing is started in them; the VMI stays until they, too, have ended.
	Launcher
	Others []Launcher `json:"others,omitempty"`
	// Next is a newer incarnation of the name, adopted when this one's business has ended.
	Next *contract.VMIObservation `json:"next,omitempty"`
	// Missed says that the VMI was gone before it was seen: something old and late has started this entity.
	Missed bool `json:"missed,omitempty"`

	Phase      Phase                `json:"phase,omitempty"`
	PhaseTimes []contract.PhaseTime `json:"phaseTimes,omitempty"`
	// Reason is status.reason, and Explanation says in words why the VMI failed or ended.
	Reason      string `json:"reason,omitempty"`
	Explanation string `json:"explanation,omitempty"`

	// EndingSince is when the deletion of the VMI was first seen.
	EndingSince time.Time `json:"endingSince,omitzero"`

	// HoldOffFrom and HoldOffUntil are the status hold-off: the answer to an operation does not wait for a write.
	HoldOffFrom  time.Time `json:"holdOffFrom,omitzero"`
	HoldOffUntil time.Time `json:"holdOffUntil,omitzero"`

	// LookAt is when the pod is looked for again while its end is waited for: the observation of it may have been
	// missed.
	LookAt time.Time `json:"lookAt,omitzero"`

	// Starting says that the node's worker is at work on StartDomain.
	Starting bool `json:"starting,omitempty"`
	// StartCancelled says that this was cancelled.
	StartCancelled bool `json:"startCancelled,omitempty"`
	// StartRefused: libvirt or the launcher refused for good.
	StartRefused bool `json:"startRefused,omitempty"`

	// Failure is the last step that failed; the planner does not repeat it before RetryAt.
	Failure *entity.Failure `json:"failure,omitempty"`

	// SettleBy is until when a status that is still changing by itself is not written yet.
	SettleBy time.Time `json:"settleBy,omitzero"`
	// PodsBy is the same where nothing differs but which pods there are: what brings and takes a second one has more to
	// say in a moment.
	PodsBy time.Time `json:"podsBy,omitzero"`

	Moves
	Volumes
	entity.Manual
	entity.Memory

	Conditions []contract.Condition `json:"conditions,omitempty"`
	entity.StatusWrites[contract.VMIStatus]
	// Announced are the events that were recorded.
	Announced entity.Announced `json:"announced,omitempty"`
}

// observeVMI folds what crdwatch saw of the VMI object.
func (s *State) observeVMI(o contract.VMIObservation) {
	again := s.HeardObject(o.Epoch)
	if s.Object.UID == "" && !s.podOfAnother(o.UID) {
		if s.Missed = o.Gone; !o.Gone {
			s.adopt(o)
			s.chooseAgain(false)
		}
		return
	}
	if again || o.Again {
		s.Migration.askNow()
	}
	s.observeClaims(o, again)
	was := s.VMI
	s.VMI, s.Next = entity.Track(was, s.Next, o, again)
	s.Stale = s.Stale || s.VMI != was && s.VMI.Again && !s.VMI.Gone
}

// podOfAnother says that a pod is held which belongs to another incarnation: its business is ended first.
func (s *State) podOfAnother(uid string) bool {
	owner := s.owner().UID
	return s.anyHeld() && owner != "" && owner != uid
}

// adopt begins with an incarnation. What its status says already is believed, so that history lost is not time lost.
func (s *State) adopt(o contract.VMIObservation) {
	if s.Pod != nil && s.Pod.VMIUID != "" && s.Pod.VMIUID != o.UID {
		// An old observation of another incarnation's pod, which is gone: this one has not had any yet.
		s.Pod, s.Domain, s.Others = nil, nil, nil
	}
	s.Object.UID = o.UID
	s.observeClaims(o, false)
	s.VMI = &o
	s.Phase = Phase(o.Phase)
	if !s.Phase.known() {
		// Somebody wrote what is no phase. Whether the guest was up decides what a missing pod means.
		s.Phase = PhaseUnset
		if o.EverRan {
			s.Phase = PhaseRunning
		}
	}
	s.PhaseTimes = o.PhaseTimes
	s.Conditions = o.Conditions
	s.adoptClaim(o.Migration)
}

// observePod folds what crdwatch saw of a launcher pod of this VMI.
func (s *State) observePod(o contract.PodObservation) {
	s.Heard(o.Epoch)
	if s.Discarded != "" && o.UID == s.Discarded {
		return
	}
	if owner := s.owner().UID; o.VMIUID != "" && owner != "" && o.VMIUID != owner {
		if s.Object.UID != "" || s.anyHeld() {
			return
		}
		s.Pod, s.Domain, s.Others = nil, nil, nil // of an earlier incarnation that nobody has seen
	}
	if l := s.launcher(o.UID); l != nil {
		l.see(entity.Newest(l.Pod, o))
		s.forgetGone()
	} else if !o.Gone {
		s.meet(o)
		s.choose(false)
	}
}

// found folds what launcher pods the API server says there are when it is asked.
func (s *State) found(pods []contract.PodObservation) {
	s.LookAt = time.Time{}
	s.Stale = s.Stale && (s.VMI == nil || !s.VMI.Gone)
	if s.match(pods); s.Pod == nil {
		s.Pod = &contract.PodObservation{Gone: true}
	}
}

// correct takes in the VMI as an activity read it when it refused to do what it was asked for: that is true, whatever
// was remembered. An error, with the reason, says that there was nothing new in it: the same would be refused again.
func (s *State) correct(now *contract.VMIObservation, why string) error {
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

// correctPod does the same for a pod.
func (s *State) correctPod(now *contract.PodObservation, why string) error {
	known := now == nil
	if now != nil {
		l := s.launcher(now.UID)
		if l == nil {
			s.meet(*now)
			s.choose(false)
			return nil
		}
		known = !l.Pod.Gone && now.ResourceVersion == l.Pod.ResourceVersion
		*l = s.anew(*now)
	}
	if known {
		return errors.New(why)
	}
	return nil
}

// read takes in what is true now, whatever was remembered. What the launcher and the node are like is asked, or told
// again, and the status is written anew: what was written may have been lost.
func (s *State) read(r contract.ReadVMIResult) {
	s.Stale, s.OutcomeUnknown = false, true
	s.Next = entity.StillNext(s.Next, r.VMI)
	s.judge(r.Migratable)
	if r.VMI == nil {
		s.VMI = entity.Gone(s.VMI)
	} else {
		// A migration that the status knows nothing of has not ended: etcd may be an older copy.
		s.Ended, s.MigrationState = nil, nil
		s.adopt(*r.VMI)
	}
	pods, before := r.Pods(), s.Pod
	for _, o := range pods {
		if l := s.launcher(o.UID); l != nil {
			*l = s.anew(o)
			l.Fenced = nil
		}
	}
	s.match(pods)
	s.chooseAgain(true)
	if before != nil && s.podHeld() {
		s.Domain = nil // it is asked for; what was heard of the others' stays
	}
	if r.VMI != nil && s.Pod != nil && !s.anyHeld() && !s.FinalizerRemoved &&
		contains([]Phase{PhaseUnset, PhasePending}, s.Phase) {
		// Etcd was put back to when there was none yet. What is heard of it late does not bring it back.
		s.Others, s.Launcher = append(s.Others, s.Launcher), Launcher{}
	}
}

// observeDomain folds what the node's worker saw. Only the domains of pods that are known count.
func (s *State) observeDomain(o contract.DomainObservation) {
	if l := s.launcher(o.PodUID); l != nil {
		l.observeDomain(o)
	}
}

// observeNode folds what crdwatch saw of the node that a pod is on. It may be told before the pod itself is.
func (s *State) observeNode(o contract.NodeState) {
	l := s.launcher(o.PodUID)
	if l == nil {
		l = &s.Launcher
	}
	l.observeNode(o)
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

// judge takes in whether the guest can be moved, where that was asked.
func (s *State) judge(m *contract.Migratable) {
	if m != nil {
		s.Migratable = m
	}
}

func (s *State) deleting() bool {
	return s.VMI != nil && (s.VMI.Gone || s.VMI.DeletionTimestamp != nil)
}
