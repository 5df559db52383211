package kube

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (s *Server) create(st *store, q query) (any, error) {
	switch q.subresource {
	case "binding":
		return s.bind(st, q)
	case "eviction":
		return s.evict(st, q)
	}
	o, err := decode(q.kind, q.body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if q.kind.namespaced {
		if o.meta.Namespace != "" && o.meta.Namespace != q.namespace {
			return nil, apierrors.NewBadRequest(
				"the namespace of the provided object does not match the namespace sent on the request")
		}
		o.meta.Namespace = q.namespace
	}
	if o.meta.Name == "" && o.meta.GenerateName != "" {
		o.meta.Name = s.generate(st, o)
	}
	if err := s.admitNamespace(st, q, o); err != nil {
		return nil, err
	}
	o.prepare(metav1.NewTime(s.options.Now().UTC().Truncate(1e9)))
	if errs := append(checkNew(o), o.conform()...); len(errs) > 0 {
		return nil, apierrors.NewInvalid(q.kind.groupKind(), o.meta.Name, errs)
	}
	if o.meta.ResourceVersion != "" {
		return nil, errors.New("resourceVersion should not be set on objects to be created")
	}
	if err := s.admitQuota(st, q, o); err != nil {
		return nil, err
	}
	if st.find(q.kind, o.meta.Namespace, o.meta.Name) != nil {
		return nil, apierrors.NewAlreadyExists(q.kind.GroupResource(), o.meta.Name)
	}
	o.meta.UID = st.uid()
	return st.write(nil, o), nil
}

// prepare sets what the server decides for a new object.
func (o *object) prepare(now metav1.Time) {
	m := &o.meta
	m.CreationTimestamp, m.DeletionTimestamp, m.DeletionGracePeriodSeconds = now, nil, nil
	m.Generation = 0
	if o.kind.generation {
		m.Generation = 1
	}
	switch {
	case o.kind.custom && o.kind.status:
		delete(o.content, "status")
	case o.kind.Resource == "pods":
		preparePod(o)
	case o.kind.Resource == "secrets":
		prepareSecret(o)
	case o.kind.Resource == "namespaces":
		o.content["status"] = map[string]any{"phase": string(corev1.NamespaceActive)}
		o.content["spec"] = map[string]any{"finalizers": []any{string(corev1.FinalizerKubernetes)}}
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		m.Labels[corev1.LabelMetadataName] = m.Name
	}
}

// checkNew validates the metadata of a new object.
func checkNew(o *object) field.ErrorList {
	name := validation.NameIsDNSSubdomain
	if o.kind.Resource == "namespaces" {
		name = validation.NameIsDNSLabel
	}
	errs := validation.ValidateObjectMeta(&o.meta, o.kind.namespaced, name, field.NewPath("metadata"))
	errs = append(errs, checkFinalizers(o)...)
	if o.kind.Resource == "events" && o.field("involvedObject.namespace") != o.meta.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("involvedObject", "namespace"),
			o.field("involvedObject.namespace"), "does not match event.namespace"))
	}
	return errs
}

// checkFinalizers validates finalizers: those of core kinds must have a domain.
func checkFinalizers(o *object) field.ErrorList {
	var errs field.ErrorList
	for i, f := range o.meta.Finalizers {
		if !o.kind.custom && !strings.Contains(f, "/") && f != metav1.FinalizerOrphanDependents &&
			f != metav1.FinalizerDeleteDependents {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "finalizers").Index(i), f,
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// generate returns a free name: the real server tries again, too.
func (s *Server) generate(st *store, o *object) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	for n := st.version; ; n++ {
		suffix := make([]byte, 5)
		for i, rest := 0, uint64(n)*0x9e3779b97f4a7c15>>20; i < len(suffix); i++ {
			suffix[i], rest = letters[rest%uint64(len(letters))], rest/uint64(len(letters))
		}
		name := o.meta.GenerateName + string(suffix)
		if st.find(o.kind, o.meta.Namespace, name) == nil {
			return name
		}
	}
}

// admitNamespace refuses a new object in a namespace that does not exist, or is terminating.
func (s *Server) admitNamespace(st *store, q query, o *object) error {
	if !q.kind.namespaced {
		return nil
	}
	ns := st.find(st.kinds["namespaces"], "", q.namespace)
	if ns == nil {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), q.namespace)
	}
	if ns.meta.DeletionTimestamp == nil {
		return nil
	}
	err := apierrors.NewForbidden(q.kind.GroupResource(), o.meta.Name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", q.namespace))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", q.namespace),
		Field: "metadata.namespace",
	})
	return err
}

func (s *Server) addNamespace(name string) {
	o := &object{kind: s.store.kinds["namespaces"], content: map[string]any{}}
	o.meta.Name = name
	o.prepare(metav1.NewTime(s.options.Now().UTC().Truncate(1e9)))
	o.meta.UID = s.store.uid()
	s.store.write(nil, o)
}

// preparePod sets the defaults of a pod that virtflow reads.
func preparePod(o *object) {
	typed := &corev1.Pod{}
	o.into(typed)
	spec := &typed.Spec
	fill(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	fill(&spec.DNSPolicy, corev1.DNSClusterFirst)
	fill(&spec.SchedulerName, corev1.DefaultSchedulerName)
	fill(&spec.ServiceAccountName, "default")
	if spec.TerminationGracePeriodSeconds == nil {
		grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
		spec.TerminationGracePeriodSeconds = &grace
	}
	typed.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qos(typed)}
	again, err := recode(o.kind, typed)
	if err != nil {
		panic(fmt.Sprintf("encoding a pod: %v", err)) // it was decoded from JSON
	}
	o.content, o.encoded = again.content, nil
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// qos returns the pod's quality of service, from the requests and limits of its containers.
func qos(pod *corev1.Pod) corev1.PodQOSClass {
	any, all := false, true
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, requested := c.Resources.Requests[r]
			limit, limited := c.Resources.Limits[r]
			any = any || requested || limited
			all = all && limited && (!requested || request.Cmp(limit) == 0)
		}
	}
	switch {
	case !any:
		return corev1.PodQOSBestEffort
	case all:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

// prepareSecret moves stringData to data.
func prepareSecret(o *object) {
	plain, _ := o.content["stringData"].(map[string]any)
	delete(o.content, "stringData")
	if _, ok := o.content["type"]; !ok {
		o.content["type"] = string(corev1.SecretTypeOpaque)
	}
	if len(plain) == 0 {
		return
	}
	data, _ := o.content["data"].(map[string]any)
	if data == nil {
		data = map[string]any{}
	}
	for k, v := range plain {
		data[k] = base64.StdEncoding.EncodeToString(fmt.Append(nil, v))
	}
	o.content["data"] = data
}
