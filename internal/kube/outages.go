package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// outages has informers list again after the API server was away. By themselves they continue to watch at the version
// that they saw last. When etcd is put back to an older copy, the API server is restarted; versions have run backwards
// then, and a watch that begins at a future version gets no events until that is reached. One list after each restart
// costs little in comparison. It is safe for concurrent use.
type outages struct {
	mu sync.Mutex
	// failed counts the requests whose connection failed.
	failed int
	// listed has, by the URL of a watch, the value of failed when its objects were last listed, or a list was last
	// forced.
	listed map[string]int
}

// wrap is a function for rest.Config.Wrap.
func (o *outages) wrap(next http.RoundTripper) http.RoundTripper {
	return &transport{outages: o, next: next}
}

// transport is an http.RoundTripper.
type transport struct {
	*outages
	next http.RoundTripper
}

// RoundTrip sends a request, unless it is a watch whose informer must list again first.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	what, continues, lists := followed(r)
	if continues && t.takeMustList(what) {
		return expiredResponse(r)
	}
	t.mu.Lock()
	failed := t.failed
	t.mu.Unlock()
	answer, err := t.next.RoundTrip(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil && isOutage(r, err):
		t.failed++
	case err == nil && lists && answer.StatusCode == http.StatusOK:
		t.listed[what] = failed
	}
	return answer, err
}

// isOutage reports whether a connection failed, or could not be made. A slow answer is no outage: lists would add to
// the load that has made it slow.
func isOutage(r *http.Request, err error) bool {
	var op *net.OpError
	dialled := errors.As(err, &op) && op.Op == "dial" && r.Context().Err() == nil
	return dialled || utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err)
}

// WrappedRoundTripper returns the wrapped one, for which client-go looks to close its connections.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// takeMustList reports whether the API server was away since the objects of a watch were listed, and records that they
// are listed now: only the first watch after an outage must list.
func (o *outages) takeMustList(what string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.listed[what] == o.failed {
		return false
	}
	o.listed[what] = o.failed
	return true
}

// followed identifies the objects of an informer's request, and returns whether it lists them, or continues to watch
// them. Lists of informers have a version or a page size, which distinguishes them from other reads.
func followed(r *http.Request) (what string, continues, lists bool) {
	q := r.URL.Query()
	version := q.Get("resourceVersion")
	switch {
	case r.Method != http.MethodGet:
	case q.Get("watch") != "true":
		lists = version != "" || q.Get("limit") != ""
	case q.Get("sendInitialEvents") == "true":
		lists = true
	default:
		continues = version != "" && version != "0"
	}
	return r.URL.Path + "?" + q.Get("labelSelector") + "&" + q.Get("fieldSelector"), continues, lists
}

// expiredResponse returns the API server's answer for a version whose events it no longer has: informers then list
// again.
func expiredResponse(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
	}
	status := apierrors.NewResourceExpired("the API server was away: list again").Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: "410 " + http.StatusText(http.StatusGone), StatusCode: http.StatusGone, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}
