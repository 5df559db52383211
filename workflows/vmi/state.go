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
	// VMI, Pod and Domain are the newest observations of each (nil: none yet).
	VMI    *contract.VMIObservation    `json:"vmi,omitempty"`
	Pod    *contract.PodObservation    `json:"pod,omitempty"`
	Domain *contract.DomainObservation `json:"domain,omitempty"`
	// Next is a newer incarnation of the name, adopted when this one's business has ended.
	Next *contract.VMIObservation `json:"next,omitempty"`
	// Missed says that the VMI was gone before it was seen: something old and late has started this entity.
	Missed bool `json:"missed,omitempty"`

	// Node is how the pod's node is (nil: ready, as far as anybody said), NodeGoneAt since when it is known to exist no
	// more, and Fenced why the guest on it is known to be off.
	Node       *contract.NodeState `json:"node,omitempty"`
	NodeGoneAt time.Time           `json:"nodeGoneAt,omitzero"`
	Fenced     *Fencing            `json:"fenced,omitempty"`
	// Taint is what was seen of that node's taint out-of-service.
	Taint TaintSeen `json:"taint,omitzero"`

	Phase      Phase                `json:"phase,omitempty"`
	PhaseTimes []contract.PhaseTime `json:"phaseTimes,omitempty"`
	// Reason is status.reason, and Explanation says in words why the VMI failed or ended.
	Reason      string `json:"reason,omitempty"`
	Explanation string `json:"explanation,omitempty"`

	PodDeleted      bool `json:"podDeleted,omitempty"`      // a delete was sent for Pod
	PodForceDeleted bool `json:"podForceDeleted,omitempty"` // a delete without any grace was sent for Pod: its node is fenced
	PodReleased     bool `json:"podReleased,omitempty"`     // the finalizer of Pod was removed
	PodMarked       bool `json:"podMarked,omitempty"`       // the readiness gate was set
	// PodPaused is what the readiness gate was set to.
	PodPaused bool `json:"podPaused,omitempty"`
	// PodDeletedEarly says that a delete was sent for Pod before its containers were seen to run, and EndSent that its
	// launcher was told to end since.
	PodDeletedEarly bool `json:"podDeletedEarly,omitempty"`
	EndSent         bool `json:"endSent,omitempty"`
	// MarkUnknown says that setting it failed, and may have been done all the same.
	MarkUnknown bool `json:"markUnknown,omitempty"`
	// PodGrace is the grace period that Pod was last deleted with, in seconds, where it was not the pod's own.
	PodGrace *int64 `json:"podGrace,omitempty"`
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

	entity.Manual
	entity.Memory

	Conditions []contract.Condition `json:"conditions,omitempty"`
	// Conflicts counts writes in a row that met another version of the VMI in which there was nothing new.
	Conflicts entity.Conflicts `json:"conflicts,omitempty"`
	// Written is the status as last written, and Announced the events that were recorded.
	Written   *contract.VMIStatus `json:"written,omitempty"`
	Announced entity.Announced    `json:"announced,omitempty"`
	// OutcomeUnknown says that a later write failed or met another version, and may have been done all the same.
	OutcomeUnknown bool `json:"outcomeUnknown,omitempty"`
}

// observeVMI folds what crdwatch saw of the VMI object.
func (s *State) observeVMI(o contract.VMIObservation) {
	s.Heard(o.Epoch)
	if s.Object.UID == "" && !s.podOfAnother(o.UID) {
		if s.Missed = o.Gone; !o.Gone {
			s.adopt(o)
		}
		return
	}
	s.VMI, s.Next = entity.Track(s.VMI, s.Next, o)
}

// podOfAnother says that a pod is held which belongs to another incarnation: its business is ended first.
func (s *State) podOfAnother(uid string) bool {
	return s.podHeld() && s.Pod.VMIUID != "" && s.Pod.VMIUID != uid
}

// adopt begins with an incarnation. What its status says already is believed, so that history lost is not time lost.
func (s *State) adopt(o contract.VMIObservation) {
	if s.Pod != nil && s.Pod.VMIUID != "" && s.Pod.VMIUID != o.UID {
		// An old observation of another incarnation's pod, which is gone: this one has not had any yet.
		s.Pod, s.Domain = nil, nil
	}
	s.Object.UID = o.UID
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
}

// observePod folds what crdwatch saw of a launcher pod of this VMI. Names are derived from the VMI's UID, so there is
// never a second one at the same time: another pod than the one in hand counts when that is gone.
func (s *State) observePod(o contract.PodObservation) {
	s.Heard(o.Epoch)
	if o.VMIUID != "" && s.Object.UID != "" && o.VMIUID != s.Object.UID {
		return
	}
	switch {
	case s.Pod != nil && s.Pod.UID == o.UID:
		s.see(entity.Newest(s.Pod, o))
	case !o.Gone && !s.podHeld():
		s.hold(&o)
	}
}

// see takes a newer observation of the pod in hand. A readiness gate that has become another than it was set to was set
// by somebody else, or by what an older copy of Temporal's database does not remember: what is observed counts then.
func (s *State) see(o *contract.PodObservation) {
	set := "True"
	if s.PodPaused {
		set = "False"
	}
	if o.Unpaused != s.Pod.Unpaused && o.Unpaused != set {
		s.PodMarked = false
	}
	s.Pod = o
}

// hold adopts another pod than the one in hand.
func (s *State) hold(o *contract.PodObservation) {
	s.Pod = o
	s.PodDeleted, s.PodForceDeleted, s.PodReleased, s.PodMarked, s.PodPaused, s.PodGrace = false, false, false, false,
		false, nil
	s.MarkUnknown, s.PodDeletedEarly, s.EndSent = false, false, false
}

// found folds what the API server says of the pod when it is asked; nil: there is none.
func (s *State) found(o *contract.PodObservation) {
	s.LookAt = time.Time{}
	switch {
	case o != nil && s.Pod != nil && s.Pod.UID == o.UID:
		s.see(o)
	case o != nil && s.Pod == nil:
		s.Pod = o
	case o != nil: // another pod of this VMI: it is to be ended as the one in hand was
		s.hold(o)
	case s.Pod == nil:
		s.Pod = &contract.PodObservation{Gone: true}
	default:
		s.Pod = entity.Gone(s.Pod)
	}
}

// correct takes in the VMI as an activity read it when it refused to do what it was asked for: that is true, whatever
// was remembered. An error, with the reason, says that there was nothing new in it: the same would be refused again.
func (s *State) correct(now *contract.VMIObservation, why string) error {
	if now == nil || now.UID != s.Object.UID {
		return errors.New(why)
	}
	known := now.ResourceVersion == s.VMI.ResourceVersion &&
		(now.DeletionTimestamp == nil) == (s.VMI.DeletionTimestamp == nil)
	s.adopt(*now)
	if known {
		return errors.New(why)
	}
	return nil
}

// correctPod does the same for the pod.
func (s *State) correctPod(now *contract.PodObservation, why string) error {
	known := now == nil || !s.Pod.Gone && now.UID == s.Pod.UID && now.ResourceVersion == s.Pod.ResourceVersion
	if now != nil {
		s.hold(now)
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
	if r.VMI == nil {
		s.VMI = entity.Gone(s.VMI)
	} else {
		s.adopt(*r.VMI)
	}
	switch {
	case r.Pod != nil:
		s.hold(r.Pod)
		s.Domain, s.Fenced = nil, nil
	case s.podHeld():
		s.Pod = entity.Gone(s.Pod)
	}
}

// observeDomain folds what the node's worker saw. Only the pod in hand counts, and only what is newer.
func (s *State) observeDomain(o contract.DomainObservation) {
	if s.Pod == nil || s.Pod.UID != o.PodUID {
		return
	}
	if s.Domain != nil && s.Domain.PodUID == o.PodUID && s.Domain.Sequence >= o.Sequence {
		return
	}
	s.Domain = &o
}

// next moves on to the newer incarnation.
func (s *State) next() State {
	n := State{Object: contract.Object{Namespace: s.Object.Namespace, Name: s.Object.Name},
		Memory: entity.Memory{Epoch: s.Epoch}}
	if s.Next != nil {
		n.adopt(*s.Next)
	}
	return n
}

func (s *State) podEnded() bool {
	if s.Pod == nil {
		return false
	}
	return s.Pod.Gone || s.Pod.Ended() || s.off()
}

func (s *State) podHeld() bool { return s.Pod != nil && !s.Pod.Gone }

func (s *State) deleting() bool {
	return s.VMI != nil && (s.VMI.Gone || s.VMI.DeletionTimestamp != nil)
}

func (s *State) domainIn(states ...contract.DomainState) bool {
	if s.Domain == nil || s.Pod == nil || s.Domain.PodUID != s.Pod.UID {
		return false
	}
	for _, x := range states {
		if s.Domain.State == x {
			return true
		}
	}
	return false
}
