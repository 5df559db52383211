package vmi

import (
	"errors"
	"fmt"
	"time"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// lostAfter is how long a node is not ready until its VMIs say so. What Kubernetes itself waits for a node's heartbeat
// comes before that.
const lostAfter = 30 * time.Second

// goneAfter is how long the end of a pod is waited for whose Node object was deleted while the node was well: its
// kubelet may still be there and ends the pod in a moment.
const goneAfter = time.Minute

// killTime is what such a kubelet may take to end a pod that was deleted without grace, until the guest counts as off.
const killTime = 30 * time.Second

// Fencing says why a pod's node counts as off although no kubelet has said so. It counts once the pod has been
// force-deleted.
type Fencing struct {
	PodUID string           `json:"podUID"`
	By     contract.FenceBy `json:"by,omitempty"`
	Why    string           `json:"why"`
	At     time.Time        `json:"at"`
}

// TaintSeen is at which newest versions of a pod's Node the taint out-of-service was seen while the node was ready, and
// was seen not to be there. A maximum of each, so that it does not depend on the order in which they are told.
type TaintSeen struct {
	PodUID  string `json:"podUID,omitempty"`
	Ready   string `json:"ready,omitempty"`
	Without string `json:"without,omitempty"`
}

// observeTaint folds what a version of the Node says of the taint, even an old version.
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

// forgotten says that the taint is older than the outage: it was there while the node was ready, and has not been taken
// off since.
func (l *Launcher) forgotten() bool {
	t := l.Taint
	return l.Pod != nil && t.PodUID == l.Pod.UID && t.Ready != "" &&
		(t.Without == "" || entity.Newer(t.Ready, t.Without))
}

// outOfService says that an administrator calls the node off, and means this outage: one that has lasted for long
// enough not to be a kubelet that was started again, with a taint that was not left over from an earlier one.
func (l *Launcher) outOfService(now time.Time) bool {
	n := l.node()
	return !n.Gone && n.OutOfService && l.lost(now) && !l.forgotten()
}

// observeNode folds what crdwatch saw of the node that the pod is on.
func (l *Launcher) observeNode(o contract.NodeState) {
	old := l.Node
	if old != nil && old.PodUID == o.PodUID && o.Epoch > old.Epoch && !o.Gone {
		// Versions may have run backwards: what is said in a newer epoch counts.
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

// node is what is known of the node of the pod in hand, or nil: it is ready as far as anybody said.
func (l *Launcher) node() *contract.NodeState {
	if l.Node == nil || l.Pod == nil || l.Node.PodUID != l.Pod.UID {
		return nil
	}
	return l.Node
}

// away says that the node does not answer (or is gone) while nothing proves that the pod has ended.
func (l *Launcher) away() bool {
	n := l.node()
	return n != nil && (n.Gone || !n.Ready) && l.podHeld() && !l.podEnded()
}

// lostAt is when the VMI says that its node is lost.
func (l *Launcher) lostAt() time.Time {
	n := l.node()
	if n.Gone {
		return l.NodeGoneAt
	}
	return n.Since.Add(lostAfter)
}

func (l *Launcher) lost(now time.Time) bool { return l.away() && !now.Before(l.lostAt()) }

// refreshNode decides whether the node counts as off: it is called out of service, or is truly gone. (A person may say
// so, too.)
func (l *Launcher) refreshNode(now time.Time) {
	n := l.node()
	if n == nil {
		return
	}
	if n.Gone && l.NodeGoneAt.IsZero() {
		l.NodeGoneAt = now
	}
	if l.fenced() && !l.ForceDeletedAt.IsZero() && !now.Before(l.ForceDeletedAt.Add(killTime)) {
		l.PodForceDeleted = true
	}
	if n.Ready && !n.Gone && l.fenced() && !l.PodForceDeleted {
		// What called it off was another outage than the next one.
		l.Fenced, l.ForceDeletedAt = nil, time.Time{}
	}
	if !l.away() || l.fenced() {
		return
	}
	switch {
	case n.Gone && !now.Before(l.goneAt()):
		l.declareOff(now, contract.FencedByEnd, "node "+n.Name+" exists no more")
	case l.outOfService(now):
		l.declareOff(now, contract.FencedByTaint,
			"node "+n.Name+" is not ready, and an administrator has called it out of service")
	}
}

// goneAt is when the pod of a Node object that was deleted is force-deleted.
func (l *Launcher) goneAt() time.Time {
	if l.goneWhileWell() {
		return l.NodeGoneAt.Add(goneAfter)
	}
	return l.NodeGoneAt
}

// goneWhileWell says that the Node object was deleted while the node was well: its kubelet may still be there, and
// nobody but the deletion of the pod tells it.
func (l *Launcher) goneWhileWell() bool {
	n := l.node()
	return n != nil && n.Gone && (n.Ready || n.Since.IsZero())
}

// forceDeleted takes in that the pod was deleted without grace.
func (l *Launcher) forceDeleted(now time.Time) {
	l.PodDeleted = true
	if l.goneWhileWell() {
		l.ForceDeletedAt = now
		return
	}
	l.PodForceDeleted = true
}

func (l *Launcher) declareOff(now time.Time, by contract.FenceBy, why string) {
	l.Fenced = &Fencing{PodUID: l.Pod.UID, By: by, Why: why, At: now}
}

// unfence takes in that nothing says any more that the node of a pod is off: its guest may run, whatever was confirmed
// before. What has been written of its end stays: then its pod was force-deleted, and the kubelet ends it.
func (l *Launcher) unfence(n *contract.NodeState) {
	l.observeTaint(*n)
	l.Fenced, l.NodeGoneAt, l.Node = nil, time.Time{}, n
	l.PodForceDeleted, l.ForceDeletedAt = false, time.Time{} // in another outage somebody has to look at the node anew
}

// unfence does so for one of the VMI's pods. The VMI has not failed with it.
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

// fence is what calls the pod's node off, as activities check it.
func (l *Launcher) fence() contract.Fence {
	if !l.fenced() {
		return contract.Fence{}
	}
	return contract.Fence{Node: l.nodeName(), By: l.Fenced.By}
}

// fenced says that somebody has called the pod's node off.
func (l *Launcher) fenced() bool {
	return l.Fenced != nil && l.Pod != nil && l.Fenced.PodUID == l.Pod.UID
}

// off says that the pod's guest is known not to run any more, whatever the pod says: the activity that force-deletes it
// has looked at the node.
func (l *Launcher) off() bool { return l.fenced() && l.PodForceDeleted }

// fenceable refuses a confirmation where there is nothing to be confirmed.
func (l *Launcher) fenceable() error {
	n := l.node()
	switch {
	case !l.podHeld() || l.podEnded():
		return errors.New("it has no pod whose end is not known")
	case l.fenced():
		return errors.New("its node counts as off already: " + l.Fenced.Why)
	case n == nil || n.Ready && !n.Gone:
		return fmt.Errorf("node %s is ready: only what no node reports on can be confirmed to be off", l.nodeName())
	}
	return nil
}

// fenceable is the pod whose node a person may confirm to be off: the one in hand, or else another one.
func (s *State) fenceable() (*Launcher, error) {
	err := s.Launcher.fenceable()
	for _, l := range s.launchers() {
		if l.fenceable() == nil {
			return l, nil
		}
	}
	return nil, err
}

// confirmFence takes a person's word that the node is off.
func (s *State) confirmFence(now time.Time, r contract.ControlRequest) (string, error) {
	l, err := s.fenceable()
	if err != nil {
		return "", err
	}
	name := l.nodeName()
	l.declareOff(now, contract.FencedByPerson,
		fmt.Sprintf("%s (as claimed) confirmed that node %s is off", r.Actor, name))
	if l != &s.Launcher {
		return "Node " + name + " counts as off: pod " + l.Pod.Name + " is removed.", nil
	}
	return "Node " + name + " counts as off: the instance fails, and its pod is removed.", nil
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

// lostMessage says since when, and what can be done.
func (l *Launcher) lostMessage() string {
	n := l.node()
	what := fmt.Sprintf("node %s has not been ready since %s", n.Name, n.Since.UTC().Format(time.RFC3339))
	if n.Gone {
		what = "node " + n.Name + " exists no more, and nothing has said that the pod ended"
	}
	if !n.Gone && n.OutOfService && l.forgotten() {
		what += ", and its taint out-of-service is older than that (it was there while the node was ready: take it " +
			"off, and set it again)"
	}
	return what + ": the guest may still run there, so it is not started elsewhere. It goes on as it is if the node " +
		"comes back. If the node is " +
		"off for good, taint it node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, delete the Node, or confirm it with the control fence-confirmed"
}

// refreshLost keeps the mark that a lost node leaves on its VMIs.
func (s *State) refreshLost(now time.Time) {
	if s.lost(now) {
		c := contract.Condition{Type: contract.ConditionNodeLost, Status: "True",
			Reason: contract.ReasonNodeUnresponsive, Message: s.lostMessage()}
		if old, ok := conditions.Get(s.Conditions, c.Type); ok && old.Message != c.Message {
			s.Conditions = conditions.Remove(s.Conditions, c.Type)
		}
		s.Conditions = conditions.Set(s.Conditions, c, now.Truncate(time.Second))
		return
	}
	if s.node() == nil && s.podHeld() && !s.podEnded() {
		return // a mark from before this workflow stays until somebody says how the node is
	}
	s.Conditions = conditions.Remove(s.Conditions, contract.ConditionNodeLost)
	if n := s.node(); n != nil && n.Ready && !n.Gone {
		s.Announced.Forget(contract.Event{Type: "Warning", Reason: contract.ReasonNodeUnresponsive})
	}
}
