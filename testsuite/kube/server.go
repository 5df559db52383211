package kube

import (
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Options of a server. The zero value is usable.
type Options struct {
	// Now is the server's clock; time.Now unless set.
	Now func() time.Time
	// Namespaces exist from the beginning, besides default and kube-system.
	Namespaces []string
	// CollectByHand leaves dependents of deleted objects, and the contents of deleted namespaces, until Collect is
	// called. Otherwise they are collected after each change.
	CollectByHand bool
	// CustomGroup serves the custom resources under another API group than kubevirt.io.
	CustomGroup string
	// NoImporter serves no DataVolumes until their definition exists.
	NoImporter bool
}

// Server stores objects in memory and answers requests like kube-apiserver. It is an http.Handler, and safe for
// concurrent use.
type Server struct {
	options Options

	mu        sync.Mutex
	store     *store
	listeners []func(Change)
	notifying bool
	intercept func(Request) *Fault
	calls     []string
}

// New returns a server without objects, except its namespaces.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{options: o, store: newStore(o.CustomGroup)}
	for _, name := range append([]string{metav1.NamespaceDefault, metav1.NamespaceSystem}, o.Namespaces...) {
		s.addNamespace(name)
	}
	return s
}

// Request is one decoded request.
type Request struct {
	*http.Request
	Verb        string // create, get, list, watch, update, patch, delete, deletecollection
	Resource    string // plural
	Subresource string // "" or, for example, status
	Namespace   string
	Name        string // "" for create, list, watch, deletecollection
	Body        []byte
}

// Call returns a short form of the request, for example "PATCH pods/status".
func (r Request) Call() string {
	call := r.Method + " " + r.Resource
	if r.Subresource != "" {
		call += "/" + r.Subresource
	}
	return call
}

// Fault replaces the normal answer of a request.
type Fault struct {
	// After lets the request take effect first, so that only its answer is lost.
	After bool
	// Status is the answer, if it is set.
	Status *metav1.Status
	// Err breaks the connection, if Status is not set: in process the client's transport returns it. Nil: the request
	// hangs until its context ends.
	Err error
}

// Config returns a configuration with which clients reach the server in the process, without sockets and rate limits.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host:          "http://kube.invalid",
		Transport:     transport{s},
		QPS:           -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	}
}

// Intercept calls f before each request; if f returns nil, the request is served normally. A nil f removes it. Several
// goroutines may call f at once, outside the server's lock.
func (s *Server) Intercept(f func(Request) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = f
}

// Calls returns the requests since the last call of Calls, as "VERB resource[/subresource]".
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.calls
	s.calls = nil
	return out
}

// OnChange calls f after each change, in the order of the changes, one at a time and outside the server's lock. f may
// make requests; their changes are passed to listeners once f has returned. The request that made a change is answered
// after f has returned, unless another request is just passing on its changes. Changes from before OnChange are not
// passed to f.
func (s *Server) OnChange(f func(Change)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, f)
	if len(s.listeners) == 1 {
		s.store.notified = len(s.store.log)
	}
}

// SetResourceVersion sets the version that the next one follows. A lower one than now is what an etcd has that was
// restored from an older copy. Objects stay as they are. Open watches do not notice.
func (s *Server) SetResourceVersion(version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.version = version
}

// change runs a function that may write to the store, then the collector, then the listeners.
func (s *Server) change(do func(*store) (any, error)) (any, error) {
	s.mu.Lock()
	out, err := do(s.store)
	if s.store.dirty && !s.options.CollectByHand {
		s.collect()
	}
	s.mu.Unlock()
	s.notify()
	return out, err
}

// notify passes the new entries of the log to the listeners.
func (s *Server) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notifying {
		return
	}
	s.notifying = true
	defer func() { s.notifying = false }()
	for s.store.notified < len(s.store.log) {
		e := s.store.log[s.store.notified]
		s.store.notified++
		listeners := s.listeners
		if len(listeners) == 0 {
			continue
		}
		s.mu.Unlock()
		for _, f := range listeners {
			f(changeOf(e))
		}
		s.mu.Lock()
	}
	s.store.trim()
}

func changeOf(e entry) Change {
	c := Change{
		Type: e.change, Resource: e.new.kind.Resource, Namespace: e.new.meta.Namespace, Name: e.new.meta.Name,
		UID: string(e.new.meta.UID), New: e.new.typed(),
	}
	if e.old != nil {
		c.Old = e.old.typed()
	}
	return c
}
