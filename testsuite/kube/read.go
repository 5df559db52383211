package kube

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirt "kubevirt.io/api/core/v1"
)

// Pointer is a pointer to a typed object: *corev1.Pod, *kubevirt.VirtualMachine, ….
type Pointer[T any] interface {
	*T
	runtime.Object
}

// kindOf finds the resource of a Go type.
func kindOf[T any, P Pointer[T]](s *Server) *kind {
	for _, k := range s.store.kinds {
		if reflect.TypeOf(k.empty()) == reflect.TypeFor[P]() {
			return k
		}
	}
	panic(fmt.Sprintf("no resource has objects of type %s", reflect.TypeFor[T]()))
}

// Get returns a copy of one object, or nil. Namespace is "" for nodes and namespaces:
//
//	pod := kube.Get[corev1.Pod](s, "default", "web")
func Get[T any, P Pointer[T]](s *Server, namespace, name string) P {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.store.find(kindOf[T, P](s), namespace, name)
	if o == nil {
		return nil
	}
	out := P(new(T))
	o.into(out)
	return out
}

// List returns copies of all objects of a type in a namespace ("": in all), ordered by namespace and name.
func List[T any, P Pointer[T]](s *Server, namespace string) []P {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []P
	for _, o := range s.store.sorted(kindOf[T, P](s), namespace) {
		p := P(new(T))
		o.into(p)
		out = append(out, p)
	}
	return out
}

// Put creates an object as a client would, and returns it as stored. Like Edit and Remove it bypasses Intercept and
// Calls.
func Put[T any, P Pointer[T]](s *Server, object P) (P, error) {
	m, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	k := kindOf[T, P](s)
	q := query{kind: k, verb: "create", body: body}
	if k.namespaced {
		q.namespace = m.GetNamespace()
	}
	return result[T, P](s.do(q))
}

// Edit reads an object, lets change alter it, and writes the difference (to a subresource unless that is "") with the
// read resourceVersion as its lock; errors are the API server's. It is for the tests' own kubelets and users.
func Edit[T any, P Pointer[T]](s *Server, namespace, name, subresource string, change func(P)) (P, error) {
	k := kindOf[T, P](s)
	q := query{kind: k, verb: "patch", namespace: namespace, name: name, subresource: subresource,
		contentType: "application/merge-patch+json"}
	old := Get[T, P](s, namespace, name)
	if old == nil {
		return nil, q.notFound()
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	m, err := meta.Accessor(old)
	if err != nil {
		return nil, err
	}
	version := m.GetResourceVersion()
	change(old)
	after, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return nil, err
	}
	lock := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q}}`, version)
	if q.body, err = jsonpatch.MergeMergePatches(lock, patch); err != nil {
		return nil, err
	}
	return result[T, P](s.do(q))
}

func result[T any, P Pointer[T]](out any, err error) (P, error) {
	if err != nil {
		return nil, err
	}
	o, ok := out.(*object)
	if !ok {
		return nil, fmt.Errorf("the answer is a %T", out)
	}
	p := P(new(T))
	o.into(p)
	return p, nil
}

// Remove deletes an object as a client would. Grace nil: the object's own; a kubelet confirms the end of a pod with 0.
func Remove[T any, P Pointer[T]](s *Server, namespace, name string, grace *int64) error {
	return remove[T, P](s, namespace, name, metav1.DeleteOptions{GracePeriodSeconds: grace})
}

// Orphan deletes an object and orphans its dependents, as kubectl delete --cascade=orphan does.
func Orphan[T any, P Pointer[T]](s *Server, namespace, name string) error {
	policy := metav1.DeletePropagationOrphan
	return remove[T, P](s, namespace, name, metav1.DeleteOptions{PropagationPolicy: &policy})
}

// Foreground deletes an object, which stays until its dependents are gone, as kubectl delete --cascade=foreground does.
func Foreground[T any, P Pointer[T]](s *Server, namespace, name string) error {
	policy := metav1.DeletePropagationForeground
	return remove[T, P](s, namespace, name, metav1.DeleteOptions{PropagationPolicy: &policy})
}

// Terminate deletes a namespace, with everything in it.
func Terminate(s *Server, name string) error {
	return remove[corev1.Namespace](s, "", name, metav1.DeleteOptions{})
}

func remove[T any, P Pointer[T]](s *Server, namespace, name string, options metav1.DeleteOptions) error {
	body, err := json.Marshal(options)
	if err != nil {
		return err
	}
	_, err = s.do(query{kind: kindOf[T, P](s), verb: "delete", namespace: namespace, name: name, body: body})
	return err
}

// Bind binds a pod to a node, as the scheduler does.
func Bind(s *Server, namespace, pod, node string) error {
	body, err := json.Marshal(corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}})
	if err != nil {
		return err
	}
	_, err = s.do(query{kind: kindOf[corev1.Pod](s), verb: "create", namespace: namespace, name: pod,
		subresource: "binding", body: body})
	return err
}

// Ready reports whether the condition Ready of an instance is True.
func Ready(vmi *kubevirt.VirtualMachineInstance) bool {
	for _, c := range vmi.Status.Conditions {
		if c.Type == kubevirt.VirtualMachineInstanceReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Objects returns typed copies of all objects.
func Objects(s *Server) []metav1.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []metav1.Object
	for _, o := range s.store.everything() {
		if typed, ok := o.typed().(metav1.Object); ok {
			out = append(out, typed)
		}
	}
	return out
}

// Names returns the names of all objects, as "resource/namespace/name" or "resource/name", sorted, without events and
// namespaces.
func (s *Server) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, o := range s.store.everything() {
		switch {
		case o.kind.Resource == "events" || o.kind.Resource == "namespaces":
		case o.kind.namespaced:
			out = append(out, o.kind.Resource+"/"+o.meta.Namespace+"/"+o.meta.Name)
		default:
			out = append(out, o.kind.Resource+"/"+o.meta.Name)
		}
	}
	slices.Sort(out)
	return out
}
