package kube

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// concernsCollector says that a write may give the collector something to do.
func concernsCollector(e entry) bool {
	return e.change == Deleted || e.new.meta.DeletionTimestamp != nil ||
		len(e.new.meta.OwnerReferences) > 0 &&
			(e.old == nil || !reflect.DeepEqual(e.old.meta.OwnerReferences, e.new.meta.OwnerReferences))
}

// Collect does what the garbage collector and the namespace controller would do, until they have nothing more to do,
// and reports whether that changed anything.
func (s *Server) Collect() bool {
	s.mu.Lock()
	changed := s.collect()
	s.mu.Unlock()
	s.tell()
	return changed
}

// collect runs under the lock.
func (s *Server) collect() bool {
	before := s.store.version
	for {
		at := s.store.version
		for _, o := range s.store.everything() {
			if s.store.objects[o.kind.Resource][o.key()] != o {
				continue // changed in this round: the next one looks at it
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

// empty deletes what a terminating namespace holds, pods before all else, and the namespace when it holds nothing.
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

func deletingDependents(o *object) bool {
	return o.meta.DeletionTimestamp != nil && slices.Contains(o.meta.Finalizers, metav1.FinalizerDeleteDependents)
}

// attend does for one object what the garbage collector does.
func (s *Server) attend(o *object) {
	switch {
	case o.meta.DeletionTimestamp != nil && slices.Contains(o.meta.Finalizers, metav1.FinalizerOrphanDependents):
		for _, d := range s.dependents(o) {
			s.disown(d, o.meta.UID)
		}
		s.dropFinalizer(o, metav1.FinalizerOrphanDependents)
		return
	case deletingDependents(o):
		if !slices.ContainsFunc(s.dependents(o), func(d *object) bool { return blocks(d, o.meta.UID) }) {
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
		case deletingDependents(owner):
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

func blocks(dependent *object, owner types.UID) bool {
	return slices.ContainsFunc(dependent.meta.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.UID == owner && r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
	})
}

// owner is the object that a reference names, in the dependent's namespace or outside all; nil where it is gone, or
// another one by now. A kind that the server does not serve counts as there.
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

// disown takes references to owners off an object.
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
