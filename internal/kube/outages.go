package kube

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// outages makes informers list anew after the API server was away. Left alone, they go on watching at the version that
// they saw last. Whoever puts etcd back to an older copy restarts the API server; versions have run backwards then, and
// a watch that begins at one of the future is told nothing that happens until it is reached. A list after each
// restart costs little beside that. It is safe for concurrent use.
type outages struct {
	mu sync.Mutex
	// refused counts the requests that no API server took.
	refused int
	// listed is how many those were when a watch, by its URL, was sent to list anew last.
	listed map[string]int
}

// wrap is for rest.Config.Wrap.
func (o *outages) wrap(next http.RoundTripper) http.RoundTripper {
	return &transport{outages: o, next: next}
}

// transport is an http.RoundTripper.
type transport struct {
	*outages
	next http.RoundTripper
}

// RoundTrip sends a request, unless it is a watch whose informer is to list anew first.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if watch, ok := watchOf(r); ok && t.mustList(watch) {
		return expired(r)
	}
	answer, err := t.next.RoundTrip(r)
	if err != nil && (utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) ||
		utilnet.IsProbableEOF(err)) {
		t.mu.Lock()
		t.refused++
		t.mu.Unlock()
	}
	return answer, err
}

// WrappedRoundTripper is the one below, which client-go looks for to close its connections.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// mustList says that the API server was away since a watch began, once each time.
func (o *outages) mustList(watch string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.listed[watch] == o.refused {
		return false
	}
	o.listed[watch] = o.refused
	return true
}

// watchOf names what a request wants to go on watching. One that asks for all objects first has nothing to go on from.
func watchOf(r *http.Request) (name string, ok bool) {
	q := r.URL.Query()
	if q.Get("watch") != "true" || q.Get("sendInitialEvents") == "true" {
		return "", false
	}
	if v := q.Get("resourceVersion"); v == "" || v == "0" {
		return "", false
	}
	return r.URL.Path + "?" + q.Get("labelSelector") + "&" + q.Get("fieldSelector"), true
}

// expired is what an API server answers that no longer has the events since the version asked for: informers list anew.
func expired(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
	}
	status := apierrors.NewResourceExpired("the API server was away: its objects are listed anew").Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(http.StatusGone), StatusCode: http.StatusGone, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}
