package vmi

import (
	"slices"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// mostGone is how many of the other pods are remembered when they are gone, so that a late observation does not bring
// them back.
const mostGone = 4

// launchers are all that are known, the one in hand first. They are valid until the next of them is met.
func (s *State) launchers() []*Launcher {
	var all []*Launcher
	if s.Pod != nil {
		all = append(all, &s.Launcher)
	}
	for i := range s.Others {
		all = append(all, &s.Others[i])
	}
	return all
}

// launcher is the one of that pod, or nil.
func (s *State) launcher(uid string) *Launcher {
	for _, l := range s.launchers() {
		if l.Pod.UID == uid {
			return l
		}
	}
	return nil
}

// anyHeld says that there is a pod of this VMI.
func (s *State) anyHeld() bool { return slices.ContainsFunc(s.launchers(), (*Launcher).podHeld) }

// anew is the launcher of a pod about which nothing was done yet. What others say of it may have been heard before.
func (s *State) anew(o contract.PodObservation) Launcher {
	l := Launcher{Pod: &o}
	for _, known := range append(s.launchers(), &s.Launcher) {
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

// meet takes in a pod that was not known.
func (s *State) meet(o contract.PodObservation) { s.Others = append(s.Others, s.anew(o)) }

// here says that a pod is on the node that the VMI's status names.
func (s *State) here(l *Launcher) bool {
	return s.VMI != nil && s.VMI.NodeName != "" && l.Pod.NodeName == s.VMI.NodeName
}

// suits says that a pod may be the one that the guest runs in: in another one it would be booted once more. Where the
// status names a node, it is the pod there. Where there is none, which has to be known of all of them, it may be any
// that no migration has made. A VMI without a node was never migrated.
func (s *State) suits(l *Launcher, all bool) bool {
	return s.VMI == nil || s.VMI.NodeName == "" || s.here(l) || all && l.Pod.Migration == ""
}

// choose takes a pod in hand where none is. All says that all pods that there are are known.
func (s *State) choose(all bool) {
	if s.Pod != nil && s.Pod.UID != "" {
		return
	}
	i := slices.IndexFunc(s.Others, func(l Launcher) bool { return l.podHeld() && s.here(&l) })
	if i < 0 {
		i = slices.IndexFunc(s.Others, func(l Launcher) bool { return l.podHeld() && s.suits(&l, all) })
	}
	if i >= 0 {
		s.Launcher = s.Others[i]
		s.Others = slices.Delete(s.Others, i, i+1)
	}
}

// chooseAgain is choose where a pod is in hand that was taken while less was known.
func (s *State) chooseAgain(all bool) {
	if s.Pod == nil || s.Pod.UID == "" {
		s.choose(all)
		return
	}
	s.Others, s.Launcher = slices.Insert(s.Others, 0, s.Launcher), Launcher{}
	if s.choose(all); s.Pod == nil && s.suits(&s.Others[0], all) {
		s.Launcher = s.Others[0] // it is gone, and there is no other
		s.Others = slices.Delete(s.Others, 0, 1)
	}
}

// match takes in all launcher pods that there are now: others are gone.
func (s *State) match(pods []contract.PodObservation) {
	for _, l := range s.launchers() {
		i := slices.IndexFunc(pods, func(o contract.PodObservation) bool { return o.UID == l.Pod.UID })
		if i < 0 {
			l.Pod = entity.Gone(l.Pod)
			continue
		}
		l.see(&pods[i])
	}
	for _, o := range pods {
		if s.launcher(o.UID) == nil {
			s.meet(o)
		}
	}
	s.choose(true)
	s.forgetGone()
}

// forgetGone forgets the other pods that are gone but for the last of them.
func (s *State) forgetGone() {
	gone := 0
	for i := len(s.Others) - 1; i >= 0; i-- {
		if s.Others[i].Pod.Gone {
			if gone++; gone > mostGone {
				s.Others = slices.Delete(s.Others, i, i+1)
			}
		}
	}
}

// known are the pods whose end was not seen to by this entity: whoever looks for pods asks for them by name, too.
func (s *State) known() []contract.Object {
	var out []contract.Object
	for _, l := range s.launchers() {
		if l.Pod.Name != "" && !l.FinalizerRemoved {
			out = append(out, s.podOf(l))
		}
	}
	return out
}

func (s *State) podOf(l *Launcher) contract.Object {
	return contract.Object{Namespace: s.Object.Namespace, Name: l.Pod.Name, UID: l.Pod.UID}
}
