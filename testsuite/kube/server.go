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
	// CollectByHand leaves dependents of deleted objects, and the contents of deleted namespaces, until Collect is called; else they are
	// dealt with after each change.
	CollectByHand bool
}

// Server holds objects in memory and answers requests like kube-apiserver. It is an http.Handler, and safe for concurrent use.
type Server struct {
	options Options

	mu        sync.Mutex
	listeners []func(Change)
	intercept func(Request) *Fault
	calls     []string
}

// New makes a server without objects but its namespaces.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Server{options: o}
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
	// Err breaks the connection, where Status is not set: in process the client's transport returns it. Nil: the request hangs until its
	// context ends.
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

// Intercept asks f before each request; nil lets it pass. A nil f lets all pass. F may be called by several goroutines at once, and may not
// call the server.
func (s *Server) Intercept(f func(Request) *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = f
}

// OnChange calls f after each change, in the order of the changes, one at a time and outside the server's lock: f may make requests, whose
// changes are told once it has returned. The request that made a change is answered after f has returned, unless another request's
// changes are being told just then.
func (s *Server) OnChange(f func(Change)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, f)
}

// Calls are the requests since the last call of Calls, as "VERB resource[/subresource]".
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.calls
	s.calls = nil
	return out
}
