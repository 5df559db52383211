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
	// called; else they are dealt with after each change.
	CollectByHand bool
	// CustomGroup serves the custom resources under another API group than kubevirt.io.
	CustomGroup string
	// NoImporter serves no DataVolumes until there is a definition of them.
	NoImporter bool
}

// Server holds objects in memory and answers requests like kube-apiserver. It is an http.Handler, and safe for
// concurrent use.
type Server struct {
	options Options

	mu        sync.Mutex
	store     *store
	listeners []func(Change)
	telling   bool
	intercept func(Request) *Fault
	calls     []string
}

// New makes a server without objects but its namespaces.
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

// Request is one request, taken apart.
type Request struct {
	*http.Request
	Verb        string // create, get, list, watch, update, patch, delete, deletecollection
	Resource    string // plural
	Subresource string // "" or, for example, status
	Namespace   string
	Name        string // "" for create, list, watch, deletecollection
	Body        []byte
}

// Call is the request in short, for example "PATCH pods/status".
func (r Request) Call() string {
	call := r.Method + " " + r.Resource
	if r.Subresource != "" {
		call += "/" + r.Subresource
	}
	return call
}

// Fault is what becomes of a request instead of the usual.
type Fault struct {
	// After lets the request take effect first: only its answer is lost.
	After bool
	// Status is answered, where it is set.
	Status *metav1.Status
	// Err breaks the connection, where Status is not set: in process the client's transport returns it. Nil: the
	// request hangs until its context ends.
	Err error
}

// Config says how clients reach the server: in the process, without sockets and without limits of rate.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host:          "http://kube.invalid",
		Transport:     transport{s},
		QPS:           -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	}
}

// Intercept asks f before each request; nil lets it pass. A nil f lets all pass. F may be called by several goroutines
// at once, and is called outside the server's lock.
func (s *Server) Intercept(f func(Request) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = f
}

// Calls are the requests since the last call of Calls, as "VERB resource[/subresource]".
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.calls
	s.calls = nil
	return out
}

// OnChange calls f after each change, in the order of the changes, one at a time and outside the server's lock: f may
// make requests, whose changes are told once it has returned. The request that made a change is answered after f has
// returned, unless another request's changes are being told just then. What was there before is not told.
func (s *Server) OnChange(f func(Change)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, f)
	if len(s.listeners) == 1 {
		s.store.told = len(s.store.log)
	}
}

// PutBack is an etcd that was put back to an older copy, as far as resourceVersions go: the next one follows this one.
// Objects stay as they are. Watches that are open do not notice.
func (s *Server) PutBack(version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.version = version
}

// change runs what may write to the store, then the collector, then tells of it.
func (s *Server) change(do func(*store) (any, error)) (any, error) {
	s.mu.Lock()
	out, err := do(s.store)
	if s.store.dirty && !s.options.CollectByHand {
		s.collect()
	}
	s.mu.Unlock()
	s.tell()
	return out, err
}

// tell gives listeners the entries of the log that they have not had.
func (s *Server) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.telling {
		return
	}
	s.telling = true
	defer func() { s.telling = false }()
	for s.store.told < len(s.store.log) {
		e := s.store.log[s.store.told]
		s.store.told++
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
