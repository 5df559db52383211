package subresources

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"
	authorizationv1 "k8s.io/api/authorization/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtflow/virtflow/api/schema"
	"github.com/virtflow/virtflow/internal/defaults"
)

const (
	// largestObject is Kubernetes' own limit of a request.
	largestObject = 3 << 20
	// bodyTimeout is the time that a client has to send a body.
	bodyTimeout = 10 * time.Second
	// longestCall bounds all requests except streams.
	longestCall = 60 * time.Second
)

// Group is the API group that is served.
const Group = "subresources.kubevirt.io"

// versions returns the served versions, the preferred one first.
func versions() []string { return []string{"v1", "v1alpha3"} }

// Handler answers one authorised request. Fail answers the error that it returns, unless the answer has begun.
type Handler func(w http.ResponseWriter, r *Request) error

// Request is one request with the facts about it.
type Request struct {
	*http.Request
	User      User
	Namespace string
	Name      string   // "" for a request about a namespace
	Rest      []string // path segments after the subresource, for example port and protocol
}

// Options has the parts of the process on which the API depends.
type Options struct {
	// Reader reads current objects, not from a cache.
	Reader client.Reader
	// Client writes, and asks for SubjectAccessReviews.
	Client client.Client
	// FrontProxy reads the front proxy's ConfigMap, from a cache.
	FrontProxy client.Reader
	// Cluster returns the cluster's configuration.
	Cluster func(context.Context) (defaults.Cluster, error)
	// Entities carries out operations on running instances, through their workflows.
	Entities Entities
	// Streams has the handlers of requests that are not answered at once.
	Streams Streams
	// Version is the version of this build.
	Version string
	Log     zerolog.Logger
	// Refused is called with the code of each request that was rejected before its handler. It may be nil.
	Refused func(code int)
	// Observe is called with each request: "resource/subresource", code, duration. Streams are not timed. It may be
	// nil.
	Observe func(route string, code int, took time.Duration)
}

// Service is the aggregated API. It is an http.Handler, safe for concurrent use.
type Service struct {
	Options
	Lookup
	proxy    *FrontProxy
	reviews  Reviews
	routes   map[string]Route // by resource/subresource
	open     map[string]http.HandlerFunc
	sampler  zerolog.Sampler // of log lines about rejected requests
	document schema.Document // of a VirtualMachine
	// expanding bounds the total size of the VirtualMachines that are expanded at once: each byte takes some hundred
	// bytes.
	expanding *semaphore.Weighted
}

// New returns the API.
func New(o Options) (*Service, error) {
	s := &Service{sampler: &zerolog.BurstSampler{Burst: 10, Period: 10 * time.Second}, Options: o,
		Lookup: Lookup{Reader: o.Reader}, proxy: &FrontProxy{Reader: o.FrontProxy}, reviews: Reviews{Client: o.Client},
		expanding: semaphore.NewWeighted(2 * schema.MaxParts)}
	s.document = schema.Document{Spec: schema.Compile(kubevirtv1.VirtualMachineSpec{}),
		Status: schema.Compile(kubevirtv1.VirtualMachineStatus{})}
	s.routes = map[string]Route{}
	for _, r := range s.table() {
		s.routes[r.path()] = r
	}
	if err := s.serveOpen(); err != nil {
		return nil, err
	}
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	path := strings.TrimRight(r.URL.Path, "/")
	if h, ok := s.open[path]; ok || path == "" {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			Fail(w, methodNotAllowed)
			return
		}
		if ok {
			h(w, r)
			return
		}
	}
	began := time.Now()
	seen := &observed{ResponseWriter: w}
	route, req, err := s.admit(r, path)
	if err != nil {
		Fail(seen, err)
		s.recordRejected(r, seen.code, err)
		return
	}
	if !route.Stream {
		ctx, cancel := context.WithTimeout(r.Context(), longestCall)
		defer cancel()
		req.Request = r.WithContext(ctx)
		// A server that cannot set the deadline (a test's recorder) reads without one.
		_ = http.NewResponseController(w).SetReadDeadline(began.Add(bodyTimeout))
	}
	err = route.Handler(seen, req)
	if err != nil && seen.code == 0 {
		Fail(seen, err)
	}
	s.recordServed(route, req, seen.code, time.Since(began), err)
}

// FromFrontProxy reports whether a client has presented the certificate of the API server's front proxy.
func (s *Service) FromFrontProxy(state *tls.ConnectionState) bool {
	return s.proxy.Knows(context.Background(), state)
}

// Authenticate returns the user of a request that the front proxy has forwarded. The error is for Fail.
func (s *Service) Authenticate(r *http.Request) (User, error) { return s.proxy.Identify(r) }

// recordServed records a request that reached its handler.
func (s *Service) recordServed(route Route, r *Request, code int, took time.Duration, err error) {
	if s.Observe != nil && !route.Stream {
		s.Observe(route.path(), code, took)
	}
	event := s.Log.Debug()
	if r.Method != http.MethodGet {
		event = s.Log.Info()
	}
	event.Err(err).Str("namespace", r.Namespace).Str("name", r.Name).Str("user", r.User.Name).
		Str("subresource", route.Subresource).
		Int("code", code).Dur("took", took).Msg("served subresource")
}

// recordRejected records a request that was rejected before its handler. Unauthenticated callers can make any number,
// so they are counted, and only a sample is logged.
func (s *Service) recordRejected(r *http.Request, code int, err error) {
	if s.Refused != nil {
		s.Refused(code)
	}
	log := s.Log.Sample(s.sampler)
	log.Warn().Err(err).Int("code", code).Str("from", r.RemoteAddr).Str("method", r.Method).
		Str("path", fmt.Sprintf("%.256s", r.URL.Path)).
		Msg("rejected request")
}

var methodNotAllowed = &Plain{Code: http.StatusMethodNotAllowed, Text: "405: Method Not Allowed"}

// admit determines the route, the user, and whether the user may: in that order, so that an unauthenticated caller
// learns nothing.
func (s *Service) admit(r *http.Request, path string) (Route, *Request, error) {
	user, err := s.proxy.Identify(r)
	if err != nil {
		return Route{}, nil, err
	}
	asked, err := parsePath(path)
	if err != nil {
		return Route{}, nil, err
	}
	route, rest, known := s.find(asked)
	attributes := authorizationv1.ResourceAttributes{
		Group: Group, Version: asked.version, Namespace: asked.namespace, Resource: asked.resource, Name: asked.name,
		Subresource: strings.Join(asked.rest, "/"), Verb: verbOf(r.Method),
	}
	if known {
		attributes.Subresource = route.Subresource
	}
	ctx, cancel := context.WithTimeout(r.Context(), clusterTimeout)
	defer cancel()
	allowed, why, err := s.reviews.Allowed(ctx, user, attributes)
	switch {
	case err != nil:
		return Route{}, nil, err
	case !allowed:
		return Route{}, nil, &Plain{Code: http.StatusUnauthorized, Text: why}
	case !known:
		return Route{}, nil, &Plain{Code: http.StatusNotFound, Text: "404: Page Not Found"}
	case route.Method != r.Method:
		return Route{}, nil, methodNotAllowed
	}
	return route, &Request{Request: r, User: user, Namespace: asked.namespace, Name: asked.name, Rest: rest}, nil
}

// asked is a parsed path.
type asked struct {
	version, namespace, resource, name string
	rest                               []string
}

// parsePath parses /apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE…, as KubeVirt's authoriser does.
func parsePath(path string) (asked, error) {
	unknown := &Plain{Code: http.StatusUnauthorized, Text: "unknown api endpoint: " + path}
	parts := strings.Split(path, "/")
	if len(parts) < 7 || parts[0] != "" || parts[1] != "apis" || parts[2] != Group || parts[4] != "namespaces" ||
		parts[5] == "" {
		return asked{}, unknown
	}
	if !slices.Contains(versions(), parts[3]) {
		return asked{}, unknown
	}
	a := asked{version: parts[3], namespace: parts[5], resource: parts[6]}
	switch {
	case len(parts) == 7 && a.resource == expandVMSpec:
		return a, nil
	case len(parts) < 9:
		return asked{}, unknown
	case a.resource != virtualMachines && a.resource != virtualMachineInstances:
		return asked{}, &Plain{Code: http.StatusUnauthorized, Text: "unknown resource type " + a.resource}
	}
	a.name, a.rest = parts[7], parts[8:]
	if a.name == "" {
		return asked{}, unknown
	}
	return a, nil
}

// find returns the route with the longest path that is a prefix of a request's.
func (s *Service) find(a asked) (Route, []string, bool) {
	if len(a.rest) == 0 {
		r, ok := s.routes[a.resource]
		return r, nil, ok
	}
	for n := len(a.rest); n > 0; n-- {
		r, ok := s.routes[a.resource+"/"+strings.Join(a.rest[:n], "/")]
		rest := a.rest[n:]
		if ok && len(rest) >= r.LeastRest && len(rest) <= r.MostRest {
			return r, rest, true
		}
	}
	return Route{}, nil, false
}

func verbOf(method string) string {
	switch method {
	case http.MethodPut:
		return "update"
	case http.MethodPost:
		return "create"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	default:
		return "get"
	}
}

// observed records the code of an answer. Unwrap lets http.ResponseController, and with it streams, reach the
// connection.
type observed struct {
	http.ResponseWriter
	code int
}

func (o *observed) WriteHeader(code int) {
	if o.code == 0 {
		o.code = code
	}
	o.ResponseWriter.WriteHeader(code)
}

func (o *observed) Write(b []byte) (int, error) {
	if o.code == 0 {
		o.code = http.StatusOK
	}
	return o.ResponseWriter.Write(b)
}

// Unwrap implements http.ResponseController's interface.
func (o *observed) Unwrap() http.ResponseWriter { return o.ResponseWriter }
