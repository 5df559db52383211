package vmi

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// maxGone is how many of the other pods are kept after they are gone, so that a late observation does not bring them
// back.
const maxGone = 4

// Launchers are the launcher pods of a VMI.
type Launchers struct {
	// Launcher is the current pod: the one that the guest runs in, or will run in. Others are further launcher pods of
	// this VMI. No domain is started in them. The VMI stays until they have ended, too.
	Launcher
	Others []Launcher `json:"others,omitempty"`
}

// launchers returns all known launchers, the current one first. The pointers are valid until the next addLauncher.
func (ls *Launchers) launchers() []*Launcher {
	var all []*Launcher
	if ls.Pod != nil {
		all = append(all, &ls.Launcher)
	}
	for i := range ls.Others {
		all = append(all, &ls.Others[i])
	}
	return all
}

// launcher returns the launcher with that pod UID, or nil.
func (ls *Launchers) launcher(uid string) *Launcher {
	for _, l := range ls.launchers() {
		if l.Pod.UID == uid {
			return l
		}
	}
	return nil
}

// hasAnyPod reports whether any pod of this VMI exists.
func (ls *Launchers) hasAnyPod() bool { return slices.ContainsFunc(ls.launchers(), (*Launcher).hasPod) }

// hasOtherPod reports whether a pod exists besides the current one.
func (ls *Launchers) hasOtherPod() bool {
	return slices.ContainsFunc(ls.Others, func(l Launcher) bool { return l.hasPod() })
}

// newLauncher returns a launcher for a pod to which nothing was done yet. Its domain and node may have been observed
// before the pod itself.
func (ls *Launchers) newLauncher(o contract.PodObservation) Launcher {
	l := Launcher{Pod: &o}
	for _, known := range append(ls.launchers(), &ls.Launcher) {
		if known.Domain != nil && known.Domain.PodUID == o.UID {
			l.Domain = known.Domain
		}
		if known.Fenced != nil && known.Fenced.PodUID == o.UID {
			l.Fenced = known.Fenced
		}
		if known.Node != nil && known.Node.PodUID == o.UID {
			l.Node, l.NodeGoneAt = known.Node, known.NodeGoneAt
		}
		if known.Taint.PodUID == o.UID {
			l.Taint = known.Taint
		}
	}
	return l
}

// addLauncher adds a pod that was not known.
func (ls *Launchers) addLauncher(o contract.PodObservation) {
	ls.Others = append(ls.Others, ls.newLauncher(o))
}

// observeDomain folds in an observation of the node worker. Domains of unknown pods are dropped.
func (ls *Launchers) observeDomain(o contract.DomainObservation) {
	if l := ls.launcher(o.PodUID); l != nil {
		l.observeDomain(o)
	}
}

// observeNode folds in an observation of a pod's node. It may arrive before that of the pod.
func (ls *Launchers) observeNode(o contract.NodeState) {
	l := ls.launcher(o.PodUID)
	if l == nil {
		l = &ls.Launcher
	}
	l.observeNode(o)
}

// chooseCurrent selects the current pod if there is none. Node is the one that the VMI's status names, or "". All means
// that all existing pods are known.
func (ls *Launchers) chooseCurrent(node string, all bool) {
	if ls.Pod != nil && ls.Pod.UID != "" {
		return
	}
	i := slices.IndexFunc(ls.Others, func(l Launcher) bool { return l.hasPod() && l.isOn(node) })
	if i < 0 {
		i = slices.IndexFunc(ls.Others, func(l Launcher) bool { return l.hasPod() && l.canBeCurrent(node, all) })
	}
	if i >= 0 {
		ls.Launcher = ls.Others[i]
		ls.Others = slices.Delete(ls.Others, i, i+1)
	}
}

// rechooseCurrent selects the current pod again, after one was selected with less knowledge.
func (ls *Launchers) rechooseCurrent(node string, all bool) {
	if ls.Pod == nil || ls.Pod.UID == "" {
		ls.chooseCurrent(node, all)
		return
	}
	ls.Others, ls.Launcher = slices.Insert(ls.Others, 0, ls.Launcher), Launcher{}
	if ls.chooseCurrent(node, all); ls.Pod == nil && ls.Others[0].canBeCurrent(node, all) {
		ls.Launcher = ls.Others[0] // it is gone, and there is no other
		ls.Others = slices.Delete(ls.Others, 0, 1)
	}
}

// matchPods folds in the list of all existing launcher pods: pods that are not in it are gone.
func (ls *Launchers) matchPods(pods []contract.PodObservation, node string) {
	for _, l := range ls.launchers() {
		i := slices.IndexFunc(pods, func(o contract.PodObservation) bool { return o.UID == l.Pod.UID })
		if i < 0 {
			l.Pod = entity.AsGone(l.Pod)
			continue
		}
		l.setPod(&pods[i])
	}
	for _, o := range pods {
		if ls.launcher(o.UID) == nil {
			ls.addLauncher(o)
		}
	}
	ls.chooseCurrent(node, true)
	ls.forgetGone()
}

// forgetGone drops all but the last maxGone of the other pods that are gone.
func (ls *Launchers) forgetGone() {
	gone := 0
	for i := len(ls.Others) - 1; i >= 0; i-- {
		if ls.Others[i].Pod.Gone {
			if gone++; gone > maxGone {
				ls.Others = slices.Delete(ls.Others, i, i+1)
			}
		}
	}
}

// forgetDiscarded forgets the current pod if it is the one of that UID, which was deleted again.
func (ls *Launchers) forgetDiscarded(uid string) {
	if uid != "" && ls.Pod != nil && ls.Pod.UID == uid {
		ls.Launcher = Launcher{}
	}
}

// knownPods returns the pods whose finalizer this entity has not removed. An activity that lists pods also gets these
// by name.
func (ls *Launchers) knownPods(namespace string) []contract.Object {
	var out []contract.Object
	for _, l := range ls.launchers() {
		if l.Pod.Name != "" && !l.FinalizerRemoved {
			out = append(out, l.object(namespace))
		}
	}
	return out
}

// activePods returns the existing pods, each with its node.
func (ls *Launchers) activePods() map[string]string {
	var out map[string]string
	for _, l := range ls.launchers() {
		if l.hasPod() {
			if out == nil {
				out = map[string]string{}
			}
			out[l.Pod.UID] = l.Pod.NodeName
		}
	}
	return out
}

// target returns the other pod that the guest moves to, or may have moved to; nil if no such pod is alive. Migration is
// the UID of the one that made it; "": any migration.
func (ls *Launchers) target(migration string) *Launcher {
	for i := range ls.Others {
		l := &ls.Others[i]
		ours := l.Pod.Migration != "" && (migration == "" || l.Pod.Migration == migration)
		if ours && l.hasPod() && !l.hasPodEnded() && !l.isDomainIn(contract.DomainShutoff, contract.DomainCrashed) {
			return l
		}
	}
	return nil
}

// hasPodOf reports whether a pod of that migration is known, even one that has ended.
func (ls *Launchers) hasPodOf(migration string) bool {
	return slices.ContainsFunc(ls.launchers(), func(l *Launcher) bool { return l.Pod.Migration == migration })
}

// hasLivePodOf reports whether a pod of that migration exists and has not ended.
func (ls *Launchers) hasLivePodOf(migration string) bool {
	return slices.ContainsFunc(ls.launchers(), func(l *Launcher) bool {
		return l.Pod.Migration == migration && l.hasPod() && !l.hasPodEnded()
	})
}

// hasLivePodNotOf reports whether a pod exists besides the current one that has not ended and that this migration did
// not make.
func (ls *Launchers) hasLivePodNotOf(migration string) bool {
	return slices.ContainsFunc(ls.Others, func(l Launcher) bool {
		return l.hasPod() && !l.hasPodEnded() && l.Pod.Migration != migration
	})
}

// unscheduledTarget returns the migration's pod while it has no node; nil: there is none.
func (ls *Launchers) unscheduledTarget(migration string) *contract.PodObservation {
	for _, l := range ls.Others {
		if l.hasPod() && l.Pod.Migration == migration && l.Pod.Unschedulable != nil && l.Pod.NodeName == "" {
			return l.Pod
		}
	}
	return nil
}

// makeCurrent makes the migration's pod the current one, and reports whether that is a change, and whether the pod is
// known.
func (ls *Launchers) makeCurrent(migration string) (changed, known bool) {
	if ls.Pod != nil && ls.Pod.Migration == migration {
		return false, true
	}
	i := slices.IndexFunc(ls.Others, func(l Launcher) bool { return l.Pod.Migration == migration })
	if i < 0 {
		return false, false
	}
	others := slices.Clone(ls.Others)
	others[i], ls.Launcher = ls.Launcher, others[i]
	ls.Others = others
	return true, true
}

// findFenceable returns the launcher whose node a person may confirm to be off: the current one if possible.
func (ls *Launchers) findFenceable() (*Launcher, error) {
	err := ls.checkFenceable()
	for _, l := range ls.launchers() {
		if l.checkFenceable() == nil {
			return l, nil
		}
	}
	return nil, err
}

// confirmFence records a person's confirmation that the node is off.
func (ls *Launchers) confirmFence(now time.Time, r contract.ControlRequest) (string, error) {
	l, err := ls.findFenceable()
	if err != nil {
		return "", err
	}
	name := l.nodeName()
	l.declareOff(now, contract.FencedByPerson, r.Actor+" (as claimed) confirmed that node "+name+" is off")
	if l != &ls.Launcher {
		return "Node " + name + " counts as off: pod " + l.Pod.Name + " is removed.", nil
	}
	return "Node " + name + " counts as off: the instance fails, and its pod is removed.", nil
}

// nodeAlarms returns the times at which what a lost node means changes by itself.
func (ls *Launchers) nodeAlarms() []time.Time {
	var at []time.Time
	for _, l := range ls.launchers() {
		if l.isNodeUnreachable() {
			at = append(at, l.lostAt())
			if l.node().Gone {
				at = append(at, l.goneAt(), l.ForceDeletedAt.Add(killTime))
			}
		}
	}
	return at
}
