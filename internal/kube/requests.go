package kube

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Requests counts requests to the API server, with KubeVirt's metric. It is safe for concurrent use.
type Requests struct{ total *prometheus.CounterVec }

// NewRequests registers the metric; r may be nil.
func NewRequests(r prometheus.Registerer) *Requests {
	c := &Requests{total: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "kubevirt_rest_client_requests_total",
		Help: "Requests to the Kubernetes API, by the HTTP status of the answer.",
	}, []string{"code", "method", "host", "resource", "verb"})}
	if r != nil {
		r.MustRegister(c.total)
	}
	return c
}

// Values of labels, which are KubeVirt's, for what has no status, and for paths that are no resource's.
const (
	codeFailed = "<error>"
	noResource = "none"
)

// wrap is a function for rest.Config.Wrap.
func (c *Requests) wrap(next http.RoundTripper) http.RoundTripper {
	return &counter{requests: c, next: next}
}

// counter is an http.RoundTripper.
type counter struct {
	requests *Requests
	next     http.RoundTripper
}

// RoundTrip sends a request, and counts it once its answer begins.
func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.next.RoundTrip(r)
	code := codeFailed
	if err == nil {
		code = strconv.Itoa(answer.StatusCode)
	}
	resource, verb := operation(r)
	c.requests.total.WithLabelValues(code, r.Method, r.URL.Host, resource, verb).Inc()
	return answer, err
}

// WrappedRoundTripper returns the wrapped one, for which client-go looks to close its connections.
func (c *counter) WrappedRoundTripper() http.RoundTripper { return c.next }

// operation returns the resource of a request's path, and KubeVirt's name of what is done with it.
func operation(r *http.Request) (resource, verb string) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(path) > 2 && path[0] == "api":
		path = path[2:]
	case len(path) > 3 && path[0] == "apis":
		path = path[3:]
	default:
		return noResource, noResource
	}
	if len(path) > 2 && path[0] == "namespaces" {
		path = path[2:]
	}
	named := len(path) > 1
	switch r.Method {
	case http.MethodGet:
		verb = "LIST"
		if named {
			verb = "GET"
		}
		if w := r.URL.Query().Get("watch"); w == "true" || w == "1" {
			verb = "WATCH"
		}
	case http.MethodPut:
		verb = "UPDATE"
	case http.MethodPost:
		verb = "CREATE"
	case http.MethodPatch, http.MethodDelete:
		verb = r.Method
	default:
		verb = noResource
	}
	return path[0], verb
}
