package apitest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/rest"
)

type object = map[string]any

// Server holds objects by path, for example /api/v1/namespaces/default/pods/web. It is safe for concurrent use.
type Server struct {
	mu      sync.Mutex
	objects map[string]object
	version int
	calls   []string
	fail    func(call string) *metav1.Status
}

// New starts a server that ends with the test, and says how to reach it.
func New(t testing.TB) (*Server, *rest.Config) {
	t.Helper()
	s := &Server{objects: map[string]object{}, version: 100}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, &rest.Config{Host: h.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}, QPS: -1}
}

// Calls are the requests since the last call of Calls, as "VERB resource[/subresource]".
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.calls
	s.calls = nil
	return out
}

// Fail makes a request fail for which f returns a status; nil f: none.
func (s *Server) Fail(f func(call string) *metav1.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := parse(r.URL.Path)
	call := r.Method + " " + p.resource
	if p.sub != "" {
		call += "/" + p.sub
	}
	s.calls = append(s.calls, call)
	if s.fail != nil {
		if status := s.fail(call); status != nil {
			answer(w, int(status.Code), status)
			return
		}
	}
	code, out := s.serve(r, p, body)
	answer(w, code, out)
}

type path struct{ collection, resource, name, sub, namespace string }

// parse takes /api/v1/… and /apis/<group>/<version>/… apart.
func parse(url string) path {
	parts := strings.Split(strings.Trim(url, "/"), "/")
	root := 2
	if parts[0] == "apis" {
		root = 3
	}
	p := path{}
	rest := parts[root:]
	if rest[0] == "namespaces" && len(rest) > 2 {
		p.namespace = rest[1]
		root, rest = root+2, rest[2:]
	}
	p.resource = rest[0]
	p.collection = "/" + strings.Join(parts[:root+1], "/")
	if len(rest) > 1 {
		p.name = rest[1]
	}
	if len(rest) > 2 {
		p.sub = rest[2]
	}
	return p
}

func (s *Server) serve(r *http.Request, p path, body []byte) (int, any) {
	key := p.collection + "/" + p.name
	if r.Method == http.MethodPost {
		return s.create(p, body)
	}
	if p.name == "" {
		return http.StatusOK, s.list(p)
	}
	o, ok := s.objects[key]
	if !ok {
		return refuse(http.StatusNotFound, metav1.StatusReasonNotFound, p.resource+" "+p.name+" not found")
	}
	switch r.Method {
	case http.MethodGet:
		return http.StatusOK, o
	case http.MethodDelete:
		return s.remove(key, o, body)
	case http.MethodPatch:
		return s.patch(key, p, o, body, r.Header.Get("Content-Type"))
	default:
		return refuse(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, r.Method)
	}
}

func (s *Server) create(p path, body []byte) (int, any) {
	var o object
	if err := json.Unmarshal(body, &o); err != nil {
		return refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	m := meta(o)
	name, _ := m["name"].(string)
	key := p.collection + "/" + name
	if _, ok := s.objects[key]; ok {
		return refuse(http.StatusConflict, metav1.StatusReasonAlreadyExists, p.resource+" "+name+" already exists")
	}
	m["uid"] = fmt.Sprintf("%08d-0000-4000-8000-000000000000", s.version)
	m["generation"] = 1
	m["namespace"] = p.namespace
	m["creationTimestamp"] = metav1.Now()
	if p.resource == "virtualmachines" {
		delete(o, "status")
	}
	return http.StatusCreated, s.store(key, o)
}

func (s *Server) list(p path) any {
	items := []any{}
	for key, o := range s.objects {
		if strings.HasPrefix(key, p.collection+"/") {
			items = append(items, o)
		}
	}
	return object{"metadata": object{"resourceVersion": strconv.Itoa(s.version)}, "items": items}
}

func (s *Server) remove(key string, o object, body []byte) (int, any) {
	var options metav1.DeleteOptions
	_ = json.Unmarshal(body, &options)
	m := meta(o)
	if c := options.Preconditions; c != nil && c.UID != nil && string(*c.UID) != m["uid"] {
		return refuse(http.StatusConflict, metav1.StatusReasonConflict, "the UID in the precondition is another one")
	}
	if f, _ := m["finalizers"].([]any); len(f) > 0 {
		if m["deletionTimestamp"] == nil {
			m["deletionTimestamp"] = metav1.NewTime(time.Now().UTC())
		}
		return http.StatusOK, s.store(key, o)
	}
	delete(s.objects, key)
	return http.StatusOK, o
}

func (s *Server) patch(key string, p path, o object, body []byte, kind string) (int, any) {
	before, err := json.Marshal(o)
	if err != nil {
		return refuse(http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
	}
	var after []byte
	if strings.HasPrefix(kind, "application/strategic-merge-patch") {
		after, err = strategicpatch.StrategicMergePatch(before, body, corev1.Pod{})
	} else {
		after, err = jsonpatch.MergePatch(before, body)
	}
	var next object
	if err == nil {
		err = json.Unmarshal(after, &next)
	}
	if err != nil {
		return refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	was, is := meta(o), meta(next)
	if is["resourceVersion"] != was["resourceVersion"] {
		return refuse(http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
	}
	if is["uid"] != was["uid"] {
		code, status := refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "metadata.uid: field is immutable")
		status.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.uid", Message: "field is immutable"}}}
		return code, status
	}
	if hasStatus(p.resource) { // what the other half of the object says does not count
		if p.sub == "status" {
			status := next["status"]
			var old object
			_ = json.Unmarshal(before, &old)
			next = old
			next["status"] = status
		} else {
			next["status"] = o["status"]
		}
	}
	next = s.store(key, next)
	if f, _ := meta(next)["finalizers"].([]any); len(f) == 0 && meta(next)["deletionTimestamp"] != nil {
		delete(s.objects, key)
	}
	return http.StatusOK, next
}

func hasStatus(resource string) bool { return resource == "virtualmachines" || resource == "pods" }

func (s *Server) store(key string, o object) object {
	s.version++
	meta(o)["resourceVersion"] = strconv.Itoa(s.version)
	s.objects[key] = o
	return o
}

func meta(o object) object {
	m, ok := o["metadata"].(object)
	if !ok {
		m = object{}
		o["metadata"] = m
	}
	return m
}

func refuse(code int, reason metav1.StatusReason, message string) (int, *metav1.Status) {
	return code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}
