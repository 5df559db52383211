package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// modified is the real server's message for an update conflict.
const modified = "the object has been modified; please apply your changes to the latest version and try again"

func recode(k *kind, typed any) (*object, error) {
	b, err := json.Marshal(typed)
	if err != nil {
		return nil, err
	}
	return decode(k, b)
}

func (s *Server) replace(st *store, q query, old *object) (any, error) {
	if q.subresource == "scale" {
		return s.rescale(st, q, old, q.body)
	}
	next, err := decode(q.kind, q.body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	switch {
	case next.meta.Name != q.name:
		return nil, apierrors.NewBadRequest(
			fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", next.meta.Name, q.name))
	case next.meta.Namespace != "" && next.meta.Namespace != q.namespace:
		return nil, apierrors.NewBadRequest(
			"the namespace of the provided object does not match the namespace sent on the request")
	case next.meta.UID != "" && next.meta.UID != old.meta.UID:
		return nil, apierrors.NewConflict(q.kind.GroupResource(), q.name,
			fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", next.meta.UID, old.meta.UID)) //nolint:staticcheck // the server's words
	}
	next.meta.Namespace = q.namespace
	return s.update(st, q, old, next)
}

func (s *Server) patch(st *store, q query, old *object) (any, error) {
	kind, _, _ := strings.Cut(q.contentType, ";")
	if q.subresource == "scale" {
		before, err := json.Marshal(scaleOf(old))
		if err != nil {
			return nil, err
		}
		after, err := applyPatch(kind, before, q.body, nil)
		if err != nil {
			return nil, err
		}
		return s.rescale(st, q, old, after)
	}
	var typed runtime.Object
	if !q.kind.custom {
		typed = q.kind.empty()
	}
	after, err := applyPatch(kind, old.encode(), q.body, typed)
	if err != nil {
		return nil, err
	}
	next, err := decode(q.kind, after)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return s.update(st, q, old, next)
}

// applyPatch patches JSON; typed is the Go type for strategic merge patches, nil if there is none.
func applyPatch(kind string, before, patch []byte, typed any) ([]byte, error) {
	switch kind {
	case "application/merge-patch+json":
		after, err := jsonpatch.MergePatch(before, patch)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return after, nil
	case "application/json-patch+json":
		steps, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		after, err := steps.Apply(before)
		if err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{},
				"", err.Error(), 0, false)
		}
		return after, nil
	case "application/strategic-merge-patch+json":
		if typed == nil {
			break
		}
		after, err := strategicpatch.StrategicMergePatch(before, patch, typed)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return after, nil
	}
	err := apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", schema.GroupResource{}, "",
		"the body of the request was in an unknown format", 0, true)
	err.ErrStatus.Message = "the body of the request was in an unknown format - accepted media types include: " +
		"application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
	return nil, err
}

// update writes next over old, as far as the subresource permits.
func (s *Server) update(st *store, q query, old, next *object) (any, error) {
	m := &next.meta
	switch {
	case m.ResourceVersion == "" && q.kind.unconditional:
		m.ResourceVersion = old.meta.ResourceVersion
	case m.ResourceVersion == "":
		return nil, apierrors.NewInvalid(q.kind.groupKind(), q.name,
			field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"), 0,
				"must be specified for an update")})
	case m.ResourceVersion != old.meta.ResourceVersion:
		return nil, apierrors.NewConflict(q.kind.GroupResource(), q.name, fmt.Errorf(modified)) //nolint:staticcheck // the server's words
	}
	wrong := next.conform()
	next = prepareUpdate(q, old, next)
	m = &next.meta
	if m.UID == "" {
		m.UID = old.meta.UID
	}
	m.CreationTimestamp = old.meta.CreationTimestamp
	if old.meta.DeletionTimestamp != nil {
		m.DeletionTimestamp = old.meta.DeletionTimestamp
	}
	if m.DeletionGracePeriodSeconds == nil {
		m.DeletionGracePeriodSeconds = old.meta.DeletionGracePeriodSeconds
	}
	errs := validation.ValidateObjectMetaUpdate(m, &old.meta, field.NewPath("metadata"))
	errs = append(errs, checkPodUpdate(q, old, next)...)
	errs = append(errs, checkFinalizers(next)...)
	errs = append(errs, wrong...)
	if q.kind.Resource == "controllerrevisions" && !reflect.DeepEqual(old.content["data"], next.content["data"]) {
		errs = append(errs, field.Invalid(field.NewPath("data"), "", "field is immutable"))
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(q.kind.groupKind(), q.name, errs)
	}
	if grace := old.meta.DeletionGracePeriodSeconds; len(m.Finalizers) == 0 && old.meta.DeletionTimestamp != nil &&
		(grace == nil || *grace == 0) {
		if q.kind.Resource != "namespaces" {
			st.erase(old, old)
			return next, nil
		}
	}
	if isSame(old, next) {
		return old, nil
	}
	return st.write(old, next), nil
}

// prepareUpdate takes from next what the resource or subresource may change, and counts the generation.
func prepareUpdate(q query, old, next *object) *object {
	k := q.kind
	switch {
	case q.subresource == "status" && k.custom:
		out := old.with("status", next.content["status"])
		return out
	case q.subresource == "status":
		out := next.with("spec", old.content["spec"])
		out.meta.Generation = old.meta.Generation
		if k.graceful {
			out.meta.OwnerReferences = old.meta.OwnerReferences
		}
		return out
	case k.status:
		next = next.with("status", old.content["status"])
	}
	next.meta.Generation = old.meta.Generation
	if k.generation && !reflect.DeepEqual(old.counted(), next.counted()) {
		next.meta.Generation++
	}
	return next
}

// counted returns the content whose changes increase the generation.
func (o *object) counted() any {
	if o.kind.graceful {
		return o.content["spec"]
	}
	return o.content
}
