package vmi

import (
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Launcher is one launcher pod of the VMI: its observations, and what was done to it.
type Launcher struct {
	// Pod and Domain are the newest observations of each (nil: none yet).
	Pod    *contract.PodObservation    `json:"pod,omitempty"`
	Domain *contract.DomainObservation `json:"domain,omitempty"`

	// Node is the state of the pod's node (nil: none observed, so it counts as ready). NodeGoneAt is when the Node
	// object was first seen to be gone. Fenced is why the guest counts as off.
	Node       *contract.NodeState `json:"node,omitempty"`
	NodeGoneAt time.Time           `json:"nodeGoneAt,omitzero"`
	Fenced     *Fencing            `json:"fenced,omitempty"`
	// Taint has the versions of the Node at which its out-of-service taint was observed.
	Taint TaintSeen `json:"taint,omitzero"`

	PodDeleted bool `json:"podDeleted,omitempty"` // a delete was sent for Pod
	// PodForceDeleted: a delete without grace period was sent for Pod because its node is fenced, and a kubelet that
	// still runs would have ended the pod by now. ForceDeletedAt is when the delete was sent, if such a kubelet has to
	// be expected.
	PodForceDeleted  bool      `json:"podForceDeleted,omitempty"`
	ForceDeletedAt   time.Time `json:"forceDeletedAt,omitzero"`
	FinalizerRemoved bool      `json:"podReleased,omitempty"`    // the finalizer of Pod was removed
	PodMarked        bool      `json:"podMarked,omitempty"`      // the readiness gate was set
	EvictionMarked   bool      `json:"evictionMarked,omitempty"` // the pod may have the annotation of an eviction
	// PodPaused is the value of the readiness gate: true stands for a paused guest.
	PodPaused bool `json:"podPaused,omitempty"`
	// PodDeletedEarly means that Pod was deleted before its containers were seen to run. EndSent means that its
	// launcher was asked to end since.
	PodDeletedEarly bool `json:"podDeletedEarly,omitempty"`
	EndSent         bool `json:"endSent,omitempty"`
	// GraceShortened means that Pod was deleted again with a shorter grace period, which a kubelet that already stops
	// the pod ignores. EndGrace is the grace period that its launcher was sent since, in seconds.
	GraceShortened bool   `json:"hurried,omitempty"`
	EndGrace       *int64 `json:"endGrace,omitempty"`
	// MarkUnknown means that the outcome of setting the readiness gate is unknown.
	MarkUnknown bool `json:"markUnknown,omitempty"`
	// OrphanedSince is since when Pod belongs to a migration that is not known to exist.
	OrphanedSince time.Time `json:"orphanedSince,omitzero"`
	// PodGrace is the grace period that Pod was last deleted with, in seconds, if it was not the pod's own.
	PodGrace *int64 `json:"podGrace,omitempty"`
}

// object returns the pod, in the VMI's namespace.
func (l *Launcher) object(namespace string) contract.Object {
	return contract.Object{Namespace: namespace, Name: l.Pod.Name, UID: l.Pod.UID}
}

// isOn reports whether the pod is on that node; "" is none.
func (l *Launcher) isOn(node string) bool { return node != "" && l.Pod.NodeName == node }

// canBeCurrent reports whether the guest may run in this pod. A wrong answer would boot it a second time. If the VMI's
// status names a node, it is the pod on that node. If no pod is there, and all pods are known, it may be any pod that
// no migration made. A VMI without a node was never migrated.
func (l *Launcher) canBeCurrent(node string, all bool) bool {
	return node == "" || l.isOn(node) || all && l.Pod.Migration == ""
}

// isBooted reports whether the guest was booted in this pod, or has moved there: node is the one that the VMI's status
// names. A start in a migration's pod before the move would boot the guest a second time.
func (l *Launcher) isBooted(node string) bool { return l.Pod.Migration == "" || l.isOn(node) }

// isPodReady reports whether the kubelet reports the pod as ready.
func (l *Launcher) isPodReady() bool {
	return l.Pod != nil && l.Pod.Ready != nil && l.Pod.Ready.Status == "True"
}

// wasDeletedByOthers reports whether the pod is being deleted, and this entity did not do so.
func (l *Launcher) wasDeletedByOthers() bool {
	return l.Pod != nil && l.Pod.DeletionTimestamp != nil && !l.PodDeleted && !l.PodForceDeleted
}

// setPod folds in a newer observation of the pod. A readiness gate that differs from the value set here was set by
// someone else, or before Temporal's database was restored: the observed value counts.
func (l *Launcher) setPod(o *contract.PodObservation) {
	if o.Unpaused != l.Pod.Unpaused && o.Unpaused != gateStatus(l.PodPaused) {
		l.PodMarked = false
	}
	l.Pod = o
}

// observeDomain folds in an observation of the node worker unless a newer one is known.
func (l *Launcher) observeDomain(o contract.DomainObservation) {
	if l.Domain != nil && l.Domain.PodUID == o.PodUID && l.Domain.Sequence >= o.Sequence {
		return
	}
	l.Domain = &o
}

// markGone marks the pod as gone if the API server no longer has it.
func (l *Launcher) markGone(gone bool) {
	if gone {
		l.Pod = entity.AsGone(l.Pod)
	}
}

func (l *Launcher) hasPodEnded() bool {
	if l.Pod == nil {
		return false
	}
	return l.Pod.Gone || l.Pod.Ended() || l.isGuestOff()
}

func (l *Launcher) hasPod() bool { return l.Pod != nil && !l.Pod.Gone }

func (l *Launcher) isDomainIn(states ...contract.DomainState) bool {
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

// needsMark reports whether the pod's readiness gate has the wrong value.
func (l *Launcher) needsMark(paused bool) bool {
	if l.MarkUnknown {
		return true
	}
	if l.PodMarked {
		return l.PodPaused != paused
	}
	return l.Pod.Unpaused != gateStatus(paused)
}

// gateStatus returns the condition status of the readiness gate.
func gateStatus(paused bool) string {
	if paused {
		return "False"
	}
	return "True"
}

// termination returns the launcher's termination message. It comes from the VM's own pod, so it may decide about that
// VM only.
func (l *Launcher) termination() contract.TerminationMessage {
	var t contract.TerminationMessage
	if l.Pod != nil && l.Pod.TerminationMessage != "" {
		if err := entity.Unmarshal([]byte(l.Pod.TerminationMessage), &t); err != nil {
			return contract.TerminationMessage{Message: "the launcher's termination message is unreadable"}
		}
	}
	return t
}

// decision returns a decision about this pod.
func (l *Launcher) decision(a action, why string) (decision, bool) {
	return decision{Action: a, Object: l.Pod.UID, Why: why}, true
}

// decideEnded decides about a pod that has ended, or whose node counts as off.
func (l *Launcher) decideEnded() (decision, bool) {
	switch {
	case !l.hasPod():
	case l.isFenced() && !l.PodForceDeleted && l.ForceDeletedAt.IsZero():
		// The pod is deleted before its finalizer is removed: if the node is not off after all, its kubelet ends the
		// guest when it comes back.
		return l.decision(actForceDeletePod, l.Fenced.Why)
	case l.hasPodEnded() && !l.FinalizerRemoved && len(l.Pod.Finalizers) > 0:
		why := "the kubelet reports that it ended"
		if l.isFenced() {
			why = l.Fenced.Why
		}
		return l.decision(actRemovePodFinalizer, why)
	}
	return decision{}, false
}

// decideDelete decides about the pod of a VMI that is being deleted.
func (l *Launcher) decideDelete(vmi *contract.VMIObservation) (decision, bool) {
	switch {
	case !l.hasPod():
	case !l.PodDeleted && l.Pod.DeletionTimestamp == nil:
		return l.decision(actDeletePod, "the VirtualMachineInstance is being deleted")
	case l.needsShorterGrace(vmi):
		return l.decision(actDeletePod, "the grace period was shortened during the deletion")
	case l.hasMissedSignal():
		return l.decision(actEndLauncher, "it may have missed the kubelet's signal, sent while it started")
	case l.isUnawareOfShorterGrace(vmi):
		return l.decision(actEndLauncher, "the grace period was shortened, which its kubelet ignores")
	}
	return decision{}, false
}
