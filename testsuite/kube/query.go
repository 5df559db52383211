package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// query is a decoded request.
type query struct {
	kind        *kind
	verb        string
	subresource string
	namespace   string
	name        string
	contentType string
	parameters  url.Values
	body        []byte
}

// maxBody is the real server's limit for a request, in bytes.
const maxBody = 3 << 20

// parse decodes a request: /api/v1/… or /apis/<group>/<version>/….
func (s *Server) parse(r *http.Request) (query, error) {
	q := query{parameters: r.URL.Query(), contentType: r.Header.Get("Content-Type")}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	unknown := apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, schema.GroupResource{}, "",
		"the server could not find the requested resource", 0, true)
	group := ""
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, parts = parts[1], parts[3:]
	default:
		return q, unknown
	}
	if parts[0] == "namespaces" && len(parts) > 2 && s.store.kinds[parts[2]] != nil {
		q.namespace, parts = parts[1], parts[2:]
	}
	q.kind = s.store.kinds[parts[0]]
	if q.kind == nil || q.kind.Group != group || len(parts) > 3 || !q.kind.namespaced && q.namespace != "" {
		return q, unknown
	}
	if s.isUndefined(q.kind) {
		return q, unknown
	}
	if len(parts) > 1 {
		q.name = parts[1]
	}
	if len(parts) > 2 {
		q.subresource = parts[2]
	}
	if q.kind.namespaced && q.namespace == "" && (q.name != "" || r.Method == http.MethodPost) {
		return q, unknown
	}
	if q.verb = q.verbOf(r.Method); q.verb == "" {
		return q, apierrors.NewMethodNotSupported(q.kind.GroupResource(), strings.ToLower(r.Method))
	}
	if r.Body == nil {
		return q, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return q, fmt.Errorf("reading a request: %w", err)
	}
	if len(body) > maxBody {
		return q, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
	}
	q.body = body
	if q.contentType == runtime.ContentTypeProtobuf {
		return q, q.fromProtobuf()
	}
	return q, nil
}

// fromProtobuf converts a body to JSON, because clients send protobuf unless they are configured otherwise. Answers are
// always JSON, which such clients accept.
func (q *query) fromProtobuf() error {
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(q.body, nil, nil)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if q.body, err = json.Marshal(o); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	q.contentType = runtime.ContentTypeJSON
	return nil
}

func (q query) verbOf(method string) string {
	switch {
	case method == http.MethodPost && (q.name == "" || q.subresource != ""):
		return "create"
	case method == http.MethodGet && q.name != "":
		return "get"
	case method == http.MethodGet && (q.parameters.Get("watch") == "true" || q.parameters.Get("watch") == "1"):
		return "watch"
	case method == http.MethodGet:
		return "list"
	case method == http.MethodPut && q.name != "":
		return "update"
	case method == http.MethodPatch && q.name != "":
		return "patch"
	case method == http.MethodDelete && q.name != "":
		return "delete"
	case method == http.MethodDelete:
		return "deletecollection"
	default:
		return ""
	}
}

func (q query) request(r *http.Request) Request {
	return Request{
		Request: r, Verb: q.verb, Resource: q.kind.Resource, Subresource: q.subresource, Namespace: q.namespace,
		Name: q.name, Body: q.body,
	}
}

func (q query) notFound() error { return apierrors.NewNotFound(q.kind.GroupResource(), q.name) }

// isUndefined reports whether a resource is not served because its definition does not exist.
func (s *Server) isUndefined(k *kind) bool {
	if !s.options.NoImporter || k.Resource != "datavolumes" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.find(s.store.kinds["customresourcedefinitions"], "", k.GroupResource().String()) == nil
}
