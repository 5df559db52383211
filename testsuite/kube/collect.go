package kube

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// concernsCollector reports whether a write may require work of the collector.
func concernsCollector(e entry) bool {
	return e.change == Deleted || e.new.meta.DeletionTimestamp != nil ||
		len(e.new.meta.OwnerReferences) > 0 &&
			(e.old == nil || !reflect.DeepEqual(e.old.meta.OwnerReferences, e.new.meta.OwnerReferences))
}

// Collect does the work of the garbage collector and the namespace controller until none is left, and reports whether
// anything has changed.
func (s *Server) Collect() bool {
	s.mu.Lock()
	changed := s.collect()
	s.mu.Unlock()
	s.notify()
	return changed
}

// collect reports whether anything has changed, as Collect. The lock is held.
func (s *Server) collect() bool {
	before := s.store.version
	for {
		at := s.store.version
		for _, o := range s.store.everything() {
			if s.store.objects[o.kind.Resource][o.key()] != o {
				continue // changed in this round: the next round handles it
			}
			if o.kind.Resource == "namespaces" {
				s.empty(o)
			} else if !o.kind.uncollected {
				s.attend(o)
			}
		}
		if s.store.version == at {
			s.store.dirty = false
			return s.store.version != before
		}
	}
}

// empty deletes the contents of a terminating namespace, pods first, and then the namespace itself.
func (s *Server) empty(ns *object) {
	if ns.meta.DeletionTimestamp == nil {
		return
	}
	pods := s.store.sorted(s.store.kinds["pods"], ns.meta.Name)
	left := false
	for _, o := range s.store.everything() {
		if o.meta.Namespace != ns.meta.Name || len(pods) > 0 && !o.kind.graceful {
			continue
		}
		if o.meta.DeletionTimestamp == nil {
			background := metav1.DeletePropagationBackground
			_, _ = s.remove(s.store, o, &metav1.DeleteOptions{PropagationPolicy: &background})
		}
		left = left || s.store.find(o.kind, o.meta.Namespace, o.meta.Name) != nil
	}
	if !left && len(pods) == 0 && len(ns.meta.Finalizers) == 0 {
		s.store.erase(ns, ns)
	}
}

func isDeletingDependents(o *object) bool {
	return o.meta.DeletionTimestamp != nil && slices.Contains(o.meta.Finalizers, metav1.FinalizerDeleteDependents)
}

// attend does the garbage collector's work for one object.
func (s *Server) attend(o *object) {
	switch {
	case o.meta.DeletionTimestamp != nil && slices.Contains(o.meta.Finalizers, metav1.FinalizerOrphanDependents):
		for _, d := range s.dependents(o) {
			s.disown(d, o.meta.UID)
		}
		s.dropFinalizer(o, metav1.FinalizerOrphanDependents)
		return
	case isDeletingDependents(o):
		if !slices.ContainsFunc(s.dependents(o), func(d *object) bool { return isBlocking(d, o.meta.UID) }) {
			s.dropFinalizer(o, metav1.FinalizerDeleteDependents)
		}
		return
	case o.meta.DeletionTimestamp != nil || len(o.meta.OwnerReferences) == 0:
		return
	}
	var solid bool
	var dangling, waiting []types.UID
	for _, ref := range o.meta.OwnerReferences {
		switch owner := s.owner(o, ref); {
		case owner == nil:
			dangling = append(dangling, ref.UID)
		case isDeletingDependents(owner):
			waiting = append(waiting, ref.UID)
		default:
			solid = true
		}
	}
	policy := metav1.DeletePropagationBackground
	switch {
	case solid && len(dangling)+len(waiting) == 0:
		return
	case solid:
		s.disown(o, append(dangling, waiting...)...)
		return
	case len(waiting) > 0 && len(s.dependents(o)) > 0:
		policy = metav1.DeletePropagationForeground
	case slices.Contains(o.meta.Finalizers, metav1.FinalizerOrphanDependents):
		policy = metav1.DeletePropagationOrphan
	case slices.Contains(o.meta.Finalizers, metav1.FinalizerDeleteDependents):
		policy = metav1.DeletePropagationForeground
	}
	_, _ = s.remove(s.store, o,
		&metav1.DeleteOptions{PropagationPolicy: &policy,
			Preconditions: metav1.NewUIDPreconditions(string(o.meta.UID))})
}

func isBlocking(dependent *object, owner types.UID) bool {
	return slices.ContainsFunc(dependent.meta.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.UID == owner && r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
	})
}

// owner returns the object that a reference names, in the dependent's namespace or cluster-wide; nil if it is gone or
// has another UID. An object of a kind that the server does not serve counts as present.
func (s *Server) owner(dependent *object, ref metav1.OwnerReference) *object {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return dependent
	}
	for _, k := range s.store.kinds {
		if k.Group != gv.Group || k.name != ref.Kind {
			continue
		}
		namespace := ""
		if k.namespaced {
			namespace = dependent.meta.Namespace
		}
		if o := s.store.find(k, namespace, ref.Name); o != nil && o.meta.UID == ref.UID {
			return o
		}
		return nil
	}
	return dependent
}

func (s *Server) dependents(owner *object) []*object {
	var out []*object
	for _, o := range s.store.everything() {
		if slices.ContainsFunc(o.meta.OwnerReferences, func(r metav1.OwnerReference) bool {
			return r.UID == owner.meta.UID
		}) {
			out = append(out, o)
		}
	}
	return out
}

// disown removes references to owners from an object.
func (s *Server) disown(o *object, owners ...types.UID) {
	s.rewrite(o, func(m *metav1.ObjectMeta) {
		m.OwnerReferences = slices.DeleteFunc(m.OwnerReferences, func(r metav1.OwnerReference) bool {
			return slices.Contains(owners, r.UID)
		})
	})
}

func (s *Server) dropFinalizer(o *object, name string) {
	s.rewrite(o, func(m *metav1.ObjectMeta) {
		m.Finalizers = slices.DeleteFunc(m.Finalizers, func(f string) bool { return f == name })
	})
}

// rewrite changes metadata under the rules of an update.
func (s *Server) rewrite(o *object, change func(*metav1.ObjectMeta)) {
	next := o.clone()
	change(&next.meta)
	_, _ = s.update(s.store, query{kind: o.kind, verb: "patch", namespace: o.meta.Namespace, name: o.meta.Name}, o,
		next)
}
