package vmi

import (
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Launcher is a launcher pod of the VMI: what is known of it, and what was done about it.
type Launcher struct {
	// Pod and Domain are the newest observations of each (nil: none yet).
	Pod    *contract.PodObservation    `json:"pod,omitempty"`
	Domain *contract.DomainObservation `json:"domain,omitempty"`

	// Node is how the pod's node is (nil: ready, as far as anybody said), NodeGoneAt since when it is known to exist no
	// more, and Fenced why the guest on it is known to be off.
	Node       *contract.NodeState `json:"node,omitempty"`
	NodeGoneAt time.Time           `json:"nodeGoneAt,omitzero"`
	Fenced     *Fencing            `json:"fenced,omitempty"`
	// Taint is what was seen of that node's taint out-of-service.
	Taint TaintSeen `json:"taint,omitzero"`

	PodDeleted bool `json:"podDeleted,omitempty"` // a delete was sent for Pod
	// PodForceDeleted: a delete without any grace was sent for Pod, as its node is fenced, and a kubelet that is there
	// after all would have ended it. ForceDeletedAt is when it was sent, where such a kubelet is to be expected.
	PodForceDeleted  bool      `json:"podForceDeleted,omitempty"`
	ForceDeletedAt   time.Time `json:"forceDeletedAt,omitzero"`
	FinalizerRemoved bool      `json:"podReleased,omitempty"` // the finalizer of Pod was removed
	PodMarked        bool      `json:"podMarked,omitempty"`   // the readiness gate was set
	// PodPaused is what the readiness gate was set to.
	PodPaused bool `json:"podPaused,omitempty"`
	// PodDeletedEarly says that a delete was sent for Pod before its containers were seen to run, and EndSent that its
	// launcher was told to end since.
	PodDeletedEarly bool `json:"podDeletedEarly,omitempty"`
	EndSent         bool `json:"endSent,omitempty"`
	// MarkUnknown says that setting it failed, and may have been done all the same.
	MarkUnknown bool `json:"markUnknown,omitempty"`
	// OrphanedSince is since when Pod is one whose migration is not heard of.
	OrphanedSince time.Time `json:"orphanedSince,omitzero"`
	// PodGrace is the grace period that Pod was last deleted with, in seconds, where it was not the pod's own.
	PodGrace *int64 `json:"podGrace,omitempty"`
}

// see takes a newer observation of the pod. A readiness gate that has become another than it was set to was set by
// somebody else, or by what an older copy of Temporal's database does not remember: what is observed counts then.
func (l *Launcher) see(o *contract.PodObservation) {
	if o.Unpaused != l.Pod.Unpaused && o.Unpaused != gate(l.PodPaused) {
		l.PodMarked = false
	}
	l.Pod = o
}

// observeDomain folds what the node's worker saw. Only what is newer counts.
func (l *Launcher) observeDomain(o contract.DomainObservation) {
	if l.Domain != nil && l.Domain.PodUID == o.PodUID && l.Domain.Sequence >= o.Sequence {
		return
	}
	l.Domain = &o
}

// absent takes in that the API server knows no such pod any more, if it does not.
func (l *Launcher) absent(gone bool) {
	if gone {
		l.Pod = entity.Gone(l.Pod)
	}
}

func (l *Launcher) podEnded() bool {
	if l.Pod == nil {
		return false
	}
	return l.Pod.Gone || l.Pod.Ended() || l.off()
}

func (l *Launcher) podHeld() bool { return l.Pod != nil && !l.Pod.Gone }

func (l *Launcher) domainIn(states ...contract.DomainState) bool {
	if l.Domain == nil || l.Pod == nil || l.Domain.PodUID != l.Pod.UID {
		return false
	}
	for _, x := range states {
		if l.Domain.State == x {
			return true
		}
	}
	return false
}

// unmarked says that the pod's readiness gate is not what it should be.
func (l *Launcher) unmarked(paused bool) bool {
	if l.MarkUnknown {
		return true
	}
	if l.PodMarked {
		return l.PodPaused != paused
	}
	return l.Pod.Unpaused != gate(paused)
}

// gate is the status of a readiness gate.
func gate(paused bool) string {
	if paused {
		return "False"
	}
	return "True"
}

// termination reads the launcher's last words. They come from inside the VM's own pod, so they decide about that VM
// only.
func (l *Launcher) termination() contract.TerminationMessage {
	var t contract.TerminationMessage
	if l.Pod != nil && l.Pod.TerminationMessage != "" {
		if err := entity.Unmarshal([]byte(l.Pod.TerminationMessage), &t); err != nil {
			return contract.TerminationMessage{Message: "the launcher left no readable reason"}
		}
	}
	return t
}

// decision is one about this pod.
func (l *Launcher) decision(a action, why string) (decision, bool) {
	return decision{Action: a, Object: l.Pod.UID, Why: why}, true
}

// decideEnded is about a pod that has ended, or whose node counts as off.
func (l *Launcher) decideEnded() (decision, bool) {
	switch {
	case !l.podHeld():
	case l.fenced() && !l.PodForceDeleted && l.ForceDeletedAt.IsZero():
		// First deleted, then released: if the node is not off after all, its kubelet ends the guest when it comes
		// back.
		return l.decision(actForceDeletePod, l.Fenced.Why)
	case l.podEnded() && !l.FinalizerRemoved && len(l.Pod.Finalizers) > 0:
		why := "the kubelet reports that it ended"
		if l.fenced() {
			why = l.Fenced.Why
		}
		return l.decision(actRemovePodFinalizer, why)
	}
	return decision{}, false
}

// decideDelete is about a pod that is to go with its VMI.
func (l *Launcher) decideDelete(vmi *contract.VMIObservation) (decision, bool) {
	switch {
	case !l.podHeld():
	case !l.PodDeleted && l.Pod.DeletionTimestamp == nil:
		return l.decision(actDeletePod, "the VirtualMachineInstance is being deleted")
	case l.hurry(vmi):
		return l.decision(actDeletePod, "its guest is given less time than when its deletion began")
	case l.missedSignal():
		return l.decision(actEndLauncher, "it may have missed the kubelet's signal, which came as it began")
	}
	return decision{}, false
}
