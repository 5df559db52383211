package kube

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// delete follows the real server's generic registry: preconditions, the grace period of pods, finalizers for the
// propagation policy. Then the object is removed or marked.
func (s *Server) delete(st *store, q query, old *object) (any, error) {
	options, err := q.deleteOptions()
	if err != nil {
		return nil, err
	}
	return s.remove(st, old, options)
}

func (q query) deleteOptions() (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	if len(q.body) > 0 {
		if err := json.Unmarshal(q.body, options); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	if options.OrphanDependents != nil && options.PropagationPolicy != nil { //nolint:staticcheck // clients may still send it
		return nil, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("DeleteOptions").GroupKind(), "", nil)
	}
	return options, nil
}

func (s *Server) remove(st *store, old *object, options *metav1.DeleteOptions) (any, error) {
	if err := precondition(old, options.Preconditions); err != nil {
		return nil, err
	}
	now := s.options.Now()
	next := old.clone()
	graceful, pending := false, false
	if old.kind.graceful {
		graceful, pending = markGraceful(next, options, now)
	}
	if pending {
		return old, nil
	}
	if !old.kind.uncollected {
		next.meta.Finalizers = policyFinalizers(old.meta.Finalizers, options)
	}
	if old.kind.Resource == "namespaces" {
		return s.terminate(st, old, next, now), nil
	}
	switch {
	case len(next.meta.Finalizers) > 0:
		if !graceful {
			markDeleting(next, now)
		}
	case graceful && *next.meta.DeletionGracePeriodSeconds > 0:
	default:
		last := st.erase(old, next)
		if old.kind.graceful {
			return last, nil
		}
		return &metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
			Details: &metav1.StatusDetails{Name: old.meta.Name, Group: old.kind.Group, Kind: old.kind.Resource,
				UID: old.meta.UID},
		}, nil
	}
	if isSame(old, next) {
		return old, nil
	}
	return st.write(old, next), nil
}

func precondition(o *object, c *metav1.Preconditions) error {
	switch {
	case c == nil:
		return nil
	case c.UID != nil && *c.UID != o.meta.UID:
		return apierrors.NewConflict(o.kind.GroupResource(), o.meta.Name, fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *c.UID, o.meta.UID))
	case c.ResourceVersion != nil && *c.ResourceVersion != o.meta.ResourceVersion:
		return apierrors.NewConflict(o.kind.GroupResource(), o.meta.Name, fmt.Errorf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *c.ResourceVersion, o.meta.ResourceVersion))
	default:
		return nil
	}
}

// markGraceful begins or shortens a pod's graceful deletion. Pending: it is under way already, and this request changes
// nothing.
func markGraceful(pod *object, options *metav1.DeleteOptions, now time.Time) (graceful, pending bool) {
	m := &pod.meta
	if m.DeletionTimestamp != nil {
		if m.DeletionGracePeriodSeconds == nil {
			return false, false
		}
		if options.GracePeriodSeconds == nil || *options.GracePeriodSeconds >= *m.DeletionGracePeriodSeconds {
			return false, true
		}
		at := metav1.NewTime(m.DeletionTimestamp.Add(
			seconds(*options.GracePeriodSeconds - *m.DeletionGracePeriodSeconds)))
		period := *options.GracePeriodSeconds
		m.DeletionTimestamp, m.DeletionGracePeriodSeconds = &at, &period
		return true, false
	}
	period := gracePeriod(pod, options)
	at := metav1.NewTime(now.UTC().Truncate(time.Second).Add(seconds(period)))
	m.DeletionTimestamp, m.DeletionGracePeriodSeconds = &at, &period
	if m.Generation > 0 {
		m.Generation++
	}
	return true, false
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// gracePeriod returns the time that the kubelet gets: none for a pod without node, or one that has ended.
func gracePeriod(pod *object, options *metav1.DeleteOptions) int64 {
	period := int64(0)
	spec, _ := pod.content["spec"].(map[string]any)
	if n, ok := spec["terminationGracePeriodSeconds"].(int64); ok {
		period = n
	}
	if options.GracePeriodSeconds != nil {
		period = *options.GracePeriodSeconds
	}
	phase := pod.field("status.phase")
	if pod.field("spec.nodeName") == "" || phase == "Failed" || phase == "Succeeded" {
		period = 0
	}
	if period < 0 {
		period = 1
	}
	return period
}

// markDeleting marks an object that finalizers keep.
func markDeleting(o *object, now time.Time) {
	m := &o.meta
	if m.DeletionTimestamp == nil && m.Generation > 0 {
		m.Generation++
	}
	if m.DeletionTimestamp == nil || m.DeletionTimestamp.After(now) {
		at := metav1.NewTime(now.UTC().Truncate(time.Second))
		m.DeletionTimestamp = &at
	}
	m.DeletionGracePeriodSeconds = new(int64)
}

// policyFinalizers returns the finalizers with those for the garbage collector that the propagation policy needs.
// Without a policy the present ones stay.
func policyFinalizers(old []string, options *metav1.DeleteOptions) []string {
	orphan, foreground := slices.Contains(old, metav1.FinalizerOrphanDependents),
		slices.Contains(old, metav1.FinalizerDeleteDependents)
	if orphan {
		foreground = false
	}
	if options.PropagationPolicy != nil {
		orphan = *options.PropagationPolicy == metav1.DeletePropagationOrphan
		foreground = *options.PropagationPolicy == metav1.DeletePropagationForeground
	}
	if o := options.OrphanDependents; o != nil { //nolint:staticcheck // clients may still send it
		orphan, foreground = *o, false
	}
	var out []string
	for _, f := range old {
		if f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents {
			out = append(out, f)
		}
	}
	if orphan {
		out = append(out, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		out = append(out, metav1.FinalizerDeleteDependents)
	}
	if len(out) == len(old) && !slices.ContainsFunc(old, func(f string) bool { return !slices.Contains(out, f) }) {
		return old
	}
	return out
}

func (s *Server) deleteAll(st *store, q query) (any, error) {
	options, err := q.deleteOptions()
	if err != nil {
		return nil, err
	}
	chosen, err := q.selection()
	if err != nil {
		return nil, err
	}
	for _, o := range st.sorted(q.kind, q.namespace) {
		if chosen(o) {
			if _, err := s.remove(st, o, options.DeepCopy()); err != nil {
				return nil, err
			}
		}
	}
	return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess},
		nil
}

// terminate marks a namespace, which the collector empties and removes.
func (s *Server) terminate(st *store, old, next *object, now time.Time) *object {
	if old.meta.DeletionTimestamp != nil {
		return old
	}
	markDeleting(next, now)
	next.meta.DeletionGracePeriodSeconds = nil
	next = next.with("status", map[string]any{"phase": "Terminating"})
	return st.write(old, next)
}
