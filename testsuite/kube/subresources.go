package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// scaleOf returns the scale of an object.
func scaleOf(o *object) *autoscalingv1.Scale {
	number := func(part string) int32 {
		m, _ := o.content[part].(map[string]any)
		n, _ := m["replicas"].(int64)
		return int32(n) // the schema bounds it
	}
	return &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{Kind: "Scale", APIVersion: "autoscaling/v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: o.meta.Name, Namespace: o.meta.Namespace, UID: o.meta.UID, ResourceVersion: o.meta.ResourceVersion,
			CreationTimestamp: o.meta.CreationTimestamp,
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: number("spec")},
		Status: autoscalingv1.ScaleStatus{Replicas: number("status"), Selector: o.field("status.labelSelector")},
	}
}

// rescale writes the number of replicas of a scale.
func (s *Server) rescale(st *store, q query, old *object, body []byte) (any, error) {
	var scale autoscalingv1.Scale
	if err := json.Unmarshal(body, &scale); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if scale.Spec.Replicas < 0 {
		return nil, apierrors.NewInvalid(autoscalingv1.SchemeGroupVersion.WithKind("Scale").GroupKind(), q.name,
			field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas,
				"must be greater than or equal to 0")})
	}
	spec, _ := old.content["spec"].(map[string]any)
	spec = maps.Clone(spec)
	if spec == nil {
		spec = map[string]any{}
	}
	spec["replicas"] = int64(scale.Spec.Replicas)
	next := old.with("spec", spec)
	next.meta.ResourceVersion = scale.ResourceVersion
	if scale.ResourceVersion == "" {
		next.meta.ResourceVersion = old.meta.ResourceVersion
	}
	main := q
	main.subresource = ""
	out, err := s.update(st, main, old, next)
	if err != nil {
		return nil, err
	}
	if o, ok := out.(*object); ok {
		return scaleOf(o), nil
	}
	return out, nil
}

func (s *Server) named(st *store, q query) (*object, error) {
	if o := st.find(q.kind, q.namespace, q.name); o != nil {
		return o, nil
	}
	return nil, q.notFound()
}

// bind binds a pod to a node, as the scheduler does.
func (s *Server) bind(st *store, q query) (any, error) {
	var binding corev1.Binding
	if err := json.Unmarshal(q.body, &binding); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	old, err := s.named(st, q)
	if err != nil {
		return nil, err
	}
	conflict := func(format string, args ...any) error {
		return apierrors.NewConflict(corev1.Resource("pods/binding"), q.name, fmt.Errorf(format, args...))
	}
	switch {
	case binding.UID != "" && binding.UID != old.meta.UID:
		return nil, conflict("Precondition failed: UID in precondition: %s, UID in object meta: %s", binding.UID,
			old.meta.UID)
	case old.meta.DeletionTimestamp != nil:
		return nil, conflict("pod %s is being deleted, cannot be assigned to a host", q.name)
	case old.field("spec.nodeName") != "":
		return nil, conflict("pod %s is already assigned to node %q", q.name, old.field("spec.nodeName"))
	}
	typed := &corev1.Pod{}
	old.into(typed)
	typed.Spec.NodeName = binding.Target.Name
	now := metav1.NewTime(s.options.Now().UTC().Truncate(time.Second))
	setCondition(typed, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
		LastTransitionTime: now})
	next, err := recode(old.kind, typed)
	if err != nil {
		return nil, err
	}
	st.write(old, next)
	return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Code: 201}, nil
}

func setCondition(pod *corev1.Pod, c corev1.PodCondition) {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == c.Type {
			pod.Status.Conditions[i] = c
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

// evict deletes a pod. There are no disruption budgets here: a test that needs one answers 429 through Intercept.
func (s *Server) evict(st *store, q query) (any, error) {
	var eviction policyv1.Eviction
	if err := json.Unmarshal(q.body, &eviction); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	old, err := s.named(st, q)
	if err != nil {
		return nil, err
	}
	options := &metav1.DeleteOptions{}
	if eviction.DeleteOptions != nil {
		options = eviction.DeleteOptions
	}
	if _, err := s.remove(st, old, options); err != nil {
		return nil, err
	}
	return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Code: 201}, nil
}

// checkPodUpdate refuses changes of a pod's immutable fields.
func checkPodUpdate(q query, old, next *object) field.ErrorList {
	if !q.kind.graceful || q.subresource != "" {
		return nil
	}
	var before, after corev1.Pod
	old.into(&before)
	next.clone().into(&after)
	for i := range after.Spec.Containers { // the mutable fields
		if i < len(before.Spec.Containers) {
			after.Spec.Containers[i].Image = before.Spec.Containers[i].Image
		}
	}
	for i := range after.Spec.InitContainers {
		if i < len(before.Spec.InitContainers) {
			after.Spec.InitContainers[i].Image = before.Spec.InitContainers[i].Image
		}
	}
	after.Spec.ActiveDeadlineSeconds, after.Spec.Tolerations = before.Spec.ActiveDeadlineSeconds,
		before.Spec.Tolerations
	if reflect.DeepEqual(before.Spec, after.Spec) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"),
		"pod updates may not change fields other than `spec.containers[*].image`, "+
			"`spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to "+
			"existing tolerations), "+
			"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)")}
}
