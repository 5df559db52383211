package kube

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// Pointer is a pointer to a typed object: *corev1.Pod, *kubevirt.VirtualMachine, ….
type Pointer[T any] interface {
	*T
	runtime.Object
}

// Get is a copy of one object, nil where there is none. Namespace is "" for nodes and namespaces:
//
//	pod := kube.Get[corev1.Pod](s, "default", "web")
func Get[T any, P Pointer[T]](s *Server, namespace, name string) P { panic("soon") }

// List is copies of all objects of a type in a namespace, or ("") in all, ordered by namespace and name.
func List[T any, P Pointer[T]](s *Server, namespace string) []P { panic("soon") }

// Put creates an object as a client would, and returns it as it is stored then.
func Put[T any, P Pointer[T]](s *Server, object P) (P, error) { panic("soon") }

// Edit reads an object, lets change alter it, and writes it (to a subresource where that is not "") with the lock of what was read; errors are
// the API server's. It goes the way of a client, but past Intercept and Calls: it is for the tests' own kubelets and users.
func Edit[T any, P Pointer[T]](s *Server, namespace, name, subresource string, change func(P)) (P, error) {
	panic("soon")
}

// Remove deletes an object as a client would (past Intercept and Calls). Grace nil: the object's own.
func Remove[T any, P Pointer[T]](s *Server, namespace, name string, grace *int64) error { panic("soon") }

// Names are all objects there are, as "resource/namespace/name" or "resource/name", sorted. Events and the server's own namespaces are left out.
func (s *Server) Names() []string { panic("soon") }

// Collect does what the garbage collector and the namespace controller would do, until they have nothing more to do, and reports whether
// that changed anything.
func (s *Server) Collect() bool { panic("soon") }
