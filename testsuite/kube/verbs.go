package kube

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// do carries out a request and returns the answer.
func (s *Server) do(q query) (any, error) {
	switch q.verb {
	case "get", "list":
		s.mu.Lock()
		defer s.mu.Unlock()
		if q.verb == "list" {
			return s.list(q)
		}
		o := s.store.find(q.kind, q.namespace, q.name)
		if o == nil {
			return nil, q.notFound()
		}
		return q.view(o)
	default:
		return s.change(func(st *store) (any, error) { return s.write(st, q) })
	}
}

// write carries out a request that may change something. The lock is held.
func (s *Server) write(st *store, q query) (any, error) {
	if err := q.checkSubresource(); err != nil {
		return nil, err
	}
	switch q.verb {
	case "create":
		return s.create(st, q)
	case "deletecollection":
		return s.deleteAll(st, q)
	}
	old := st.find(q.kind, q.namespace, q.name)
	if old == nil {
		return nil, q.notFound()
	}
	switch q.verb {
	case "update":
		return s.replace(st, q, old)
	case "patch":
		return s.patch(st, q, old)
	default:
		return s.delete(st, q, old)
	}
}

// view returns an object as a subresource shows it.
func (q query) view(o *object) (any, error) {
	switch {
	case q.subresource == "" || q.subresource == "status" && q.kind.status:
		return o, nil
	case q.subresource == "scale" && q.kind.scale:
		return scaleOf(o), nil
	default:
		return nil, q.noSubresource()
	}
}

func (q query) noSubresource() error {
	return apierrors.NewNotFound(q.kind.GroupResource(), q.name+"/"+q.subresource)
}

func (q query) checkSubresource() error {
	ok := false
	switch q.subresource {
	case "":
		ok = true
	case "status":
		ok = q.kind.status && (q.verb == "update" || q.verb == "patch")
	case "scale":
		ok = q.kind.scale && (q.verb == "update" || q.verb == "patch")
	case "binding", "eviction":
		ok = q.kind.graceful && q.verb == "create"
	}
	if !ok {
		return q.noSubresource()
	}
	return nil
}

func (s *Server) list(q query) (any, error) {
	chosen, err := q.selection()
	if err != nil {
		return nil, err
	}
	all := s.store.sorted(q.kind, q.namespace)
	if q.parameters.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact) {
		if all, err = s.store.sortedAt(q); err != nil {
			return nil, err
		}
	}
	items := []json.RawMessage{}
	for _, o := range all {
		if chosen(o) {
			items = append(items, o.encode())
		}
	}
	return map[string]any{
		"kind": q.kind.name + "List", "apiVersion": q.kind.apiVersion(), "items": items,
		"metadata": metav1.ListMeta{ResourceVersion: strconv.FormatInt(s.store.version, 10)},
	}, nil
}

// selection returns a filter for the request's selectors.
func (q query) selection() (func(*object) bool, error) {
	byLabel, err := labels.Parse(q.parameters.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("unable to parse requirement: %v", err))
	}
	byField, err := fields.ParseSelector(q.parameters.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid field selector: %v", err))
	}
	return func(o *object) bool {
		if !byLabel.Matches(labels.Set(o.meta.Labels)) {
			return false
		}
		for _, r := range byField.Requirements() {
			if (o.field(r.Field) == r.Value) != (r.Operator != "!=") {
				return false
			}
		}
		return true
	}, nil
}

// field returns the value at a path such as spec.nodeName.
func (o *object) field(path string) string {
	switch path {
	case "metadata.name":
		return o.meta.Name
	case "metadata.namespace":
		return o.meta.Namespace
	}
	var at any = o.content
	for part := range strings.SplitSeq(path, ".") {
		m, ok := at.(map[string]any)
		if !ok {
			return ""
		}
		at = m[part]
	}
	if at == nil {
		return ""
	}
	return fmt.Sprint(at)
}
