package vmi

import (
	"errors"
	"fmt"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/entity"
)

// lostAfter is how long a node is not ready until its VMIs show that. Kubernetes' own wait for a node's heartbeat comes
// before it.
const lostAfter = 30 * time.Second

// goneAfter is how long the entity waits for the end of a pod whose Node object was deleted while the node was ready:
// the kubelet may still run and end the pod within a moment.
const goneAfter = time.Minute

// killTime is how long such a kubelet may take to end a pod that was deleted without grace period. After that the guest
// counts as off.
const killTime = 30 * time.Second

// Fencing is the proof that a pod's node is off although its kubelet did not report the pod's end. It counts once the
// pod has been force-deleted.
type Fencing struct {
	PodUID string           `json:"podUID"`
	By     contract.FenceBy `json:"by,omitempty"`
	Why    string           `json:"why"`
	At     time.Time        `json:"at"`
}

// TaintSeen has the newest versions of a pod's Node at which the taint out-of-service was observed while the node was
// ready, and at which it was absent. Each is a maximum, so the result does not depend on the order of the observations.
type TaintSeen struct {
	PodUID  string `json:"podUID,omitempty"`
	Ready   string `json:"ready,omitempty"`
	Without string `json:"without,omitempty"`
}

// observeTaint folds in the taint of one version of the Node, even of an old version.
func (l *Launcher) observeTaint(o contract.NodeState) {
	if o.Gone || o.ResourceVersion == "" || l.Pod != nil && l.Pod.UID != o.PodUID {
		return
	}
	if l.Taint.PodUID != o.PodUID {
		l.Taint = TaintSeen{PodUID: o.PodUID}
	}
	at := &l.Taint.Without
	if o.OutOfService {
		if !o.Ready {
			return
		}
		at = &l.Taint.Ready
	}
	if *at == "" || entity.Newer(o.ResourceVersion, *at) {
		*at = o.ResourceVersion
	}
}

// isTaintOutdated reports whether the taint is older than the outage: it was there while the node was ready, and has
// not been removed since.
func (l *Launcher) isTaintOutdated() bool {
	t := l.Taint
	return l.Pod != nil && t.PodUID == l.Pod.UID && t.Ready != "" &&
		(t.Without == "" || entity.Newer(t.Ready, t.Without))
}

// isOutOfService reports whether an administrator has marked the node as out of service in this outage. The outage must
// have lasted longer than a restart of the kubelet, and the taint must not be left over from an earlier one.
func (l *Launcher) isOutOfService(now time.Time) bool {
	n := l.node()
	return !n.Gone && n.OutOfService && l.isNodeLost(now) && !l.isTaintOutdated()
}

// observeNode folds in an observation of the pod's node.
func (l *Launcher) observeNode(o contract.NodeState) {
	old := l.Node
	if old != nil && old.PodUID == o.PodUID && o.Epoch > old.Epoch && !o.Gone {
		// etcd may have been restored: an observation of a newer epoch counts whatever its version.
		l.Taint = TaintSeen{}
		l.observeTaint(o)
		l.Node, l.NodeGoneAt = &o, time.Time{}
		return
	}
	l.observeTaint(o)
	if old == nil || old.PodUID != o.PodUID {
		if old != nil && l.Pod != nil && old.PodUID == l.Pod.UID {
			return // of an earlier pod
		}
		l.Node = &o
		return
	}
	if o.Gone {
		if old.Gone || o.UID != "" && old.UID != "" && old.UID != o.UID {
			return
		}
		o.Ready, o.Since, o.ResourceVersion = old.Ready, old.Since, old.ResourceVersion
		l.Node = &o
		return
	}
	if old.UID == o.UID && old.Gone || old.ResourceVersion != "" &&
		!entity.Newer(o.ResourceVersion, old.ResourceVersion) {
		return
	}
	l.Node, l.NodeGoneAt = &o, time.Time{}
}

// node returns the state of the pod's node, or nil if none was observed; the node then counts as ready.
func (l *Launcher) node() *contract.NodeState {
	if l.Node == nil || l.Pod == nil || l.Node.PodUID != l.Pod.UID {
		return nil
	}
	return l.Node
}

// isNodeUnreachable reports whether the node is not ready or gone while nothing proves that the pod has ended.
func (l *Launcher) isNodeUnreachable() bool {
	n := l.node()
	return n != nil && (n.Gone || !n.Ready) && l.hasPod() && !l.hasPodEnded()
}

// lostAt returns when the VMI shows that its node is lost.
func (l *Launcher) lostAt() time.Time {
	n := l.node()
	if n.Gone {
		return l.NodeGoneAt
	}
	return n.Since.Add(lostAfter)
}

func (l *Launcher) isNodeLost(now time.Time) bool {
	return l.isNodeUnreachable() && !now.Before(l.lostAt())
}

// refreshNode decides whether the node counts as off: it is out of service, or its Node object is gone. A person may
// also confirm it: see confirmFence.
func (l *Launcher) refreshNode(now time.Time) {
	n := l.node()
	if n == nil {
		return
	}
	if n.Gone && l.NodeGoneAt.IsZero() {
		l.NodeGoneAt = now
	}
	if l.isFenced() && !l.ForceDeletedAt.IsZero() && !now.Before(l.ForceDeletedAt.Add(killTime)) {
		l.PodForceDeleted = true
	}
	if n.Ready && !n.Gone && l.isFenced() && !l.PodForceDeleted {
		// The proof was about this outage, not about the next one.
		l.Fenced, l.ForceDeletedAt = nil, time.Time{}
	}
	if !l.isNodeUnreachable() || l.isFenced() {
		return
	}
	switch {
	case n.Gone && !now.Before(l.goneAt()):
		l.declareOff(now, contract.FencedByEnd, "node "+n.Name+" no longer exists")
	case l.isOutOfService(now):
		l.declareOff(now, contract.FencedByTaint,
			"node "+n.Name+" is not ready, and an administrator has marked it as out of service")
	}
}

// goneAt returns when the pod of a deleted Node object is force-deleted.
func (l *Launcher) goneAt() time.Time {
	if l.wasDeletedWhileReady() {
		return l.NodeGoneAt.Add(goneAfter)
	}
	return l.NodeGoneAt
}

// wasDeletedWhileReady reports whether the Node object was deleted while the node was ready. Its kubelet may still run,
// and only the deletion of the pod makes it end the guest.
func (l *Launcher) wasDeletedWhileReady() bool {
	n := l.node()
	return n != nil && n.Gone && (n.Ready || n.Since.IsZero())
}

// forceDeleted records that the pod was deleted without grace period.
func (l *Launcher) forceDeleted(now time.Time) {
	l.PodDeleted = true
	if l.wasDeletedWhileReady() {
		l.ForceDeletedAt = now
		return
	}
	l.PodForceDeleted = true
}

func (l *Launcher) declareOff(now time.Time, by contract.FenceBy, why string) {
	l.Fenced = &Fencing{PodUID: l.Pod.UID, By: by, Why: why, At: now}
}

// unfence records that nothing proves any more that the pod's node is off: its guest may run, whatever was confirmed
// before. A failure that is already in the status stays: then the pod was force-deleted, and the kubelet ends it.
func (l *Launcher) unfence(n *contract.NodeState) {
	l.observeTaint(*n)
	l.Fenced, l.NodeGoneAt, l.Node = nil, time.Time{}, n
	l.PodForceDeleted, l.ForceDeletedAt = false, time.Time{} // the next outage needs a new proof
}

// unfence does the same for one of the VMI's pods, and takes back the VMI's failure if that pod is the current one.
func (s *State) unfence(pod string, n *contract.NodeState) {
	l := s.launcher(pod)
	if l == nil {
		return
	}
	l.unfence(n)
	if l == &s.Launcher && s.VMI != nil {
		s.Phase, s.PhaseTimes, s.Reason, s.Explanation = Phase(s.VMI.Phase), s.VMI.PhaseTimes, "", ""
	}
}

// fence returns the proof that the pod's node is off, which activities check again.
func (l *Launcher) fence() contract.Fence {
	if !l.isFenced() {
		return contract.Fence{}
	}
	return contract.Fence{Node: l.nodeName(), By: l.Fenced.By}
}

// isFenced reports whether there is a proof that the pod's node is off.
func (l *Launcher) isFenced() bool {
	return l.Fenced != nil && l.Pod != nil && l.Fenced.PodUID == l.Pod.UID
}

// isGuestOff reports whether the pod's guest certainly no longer runs, whatever the pod's status is: the activity that
// force-deleted the pod has checked the node.
func (l *Launcher) isGuestOff() bool { return l.isFenced() && l.PodForceDeleted }

// checkFenceable returns an error if there is nothing to confirm.
func (l *Launcher) checkFenceable() error {
	n := l.node()
	switch {
	case !l.hasPod() || l.hasPodEnded():
		return errors.New("it has no pod whose end is unknown")
	case l.isFenced():
		return errors.New("its node counts as off already: " + l.Fenced.Why)
	case n == nil || n.Ready && !n.Gone:
		return fmt.Errorf("node %s is ready: only a node that is not ready can be confirmed to be off", l.nodeName())
	}
	return nil
}

func (l *Launcher) nodeName() string {
	switch n := l.node(); {
	case n != nil:
		return n.Name
	case l.Pod != nil && l.Pod.NodeName != "":
		return l.Pod.NodeName
	default:
		return "(none)"
	}
}

// lostMessage returns since when the node is lost, and what to do.
func (l *Launcher) lostMessage() string {
	n := l.node()
	what := fmt.Sprintf("node %s has not been ready since %s", n.Name, n.Since.UTC().Format(time.RFC3339))
	if n.Gone {
		what = "node " + n.Name + " no longer exists, and the end of its pod was not reported"
	}
	if !n.Gone && n.OutOfService && l.isTaintOutdated() {
		what += ", and its out-of-service taint is older than the outage (remove the taint and set it again)"
	}
	return what + ": the guest may still run there, so it is not started elsewhere. It continues if the node comes " +
		"back. If the node is off for good, taint it node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, " +
		"delete the Node, or confirm it with the control fence-confirmed"
}

// refreshLost keeps the condition NodeLost up to date.
func (s *State) refreshLost(now time.Time) {
	if s.isNodeLost(now) {
		c := contract.Condition{Type: contract.ConditionNodeLost, Status: "True",
			Reason: contract.ReasonNodeUnresponsive, Message: s.lostMessage()}
		if old, ok := conditions.Get(s.Conditions, c.Type); ok && old.Message != c.Message {
			s.Conditions = conditions.Remove(s.Conditions, c.Type)
		}
		s.Conditions = conditions.Set(s.Conditions, c, now.Truncate(time.Second))
		return
	}
	if s.node() == nil && s.hasPod() && !s.hasPodEnded() {
		return // a condition from before this workflow stays until the node is observed
	}
	s.Conditions = conditions.Remove(s.Conditions, contract.ConditionNodeLost)
	if n := s.node(); n != nil && n.Ready && !n.Gone {
		s.Announced.Forget(contract.Event{Type: "Warning", Reason: contract.ReasonNodeUnresponsive})
	}
}
