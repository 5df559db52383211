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

// outages makes informers list anew after the API server was away. By themselves they go on watching at the version
// that they saw last. Whoever puts etcd back to an older copy restarts the API server; versions have run backwards
// then, and a watch that begins at one of the future is told nothing that happens until it is reached. A list after
// each restart costs little beside that. It is safe for concurrent use.
type outages struct {
	mu sync.Mutex
	// failed counts the requests whose connection failed.
	failed int
	// listed is how many those were when what a watch follows, by its URL, was listed last, or was told to be.
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
	what, goesOn, lists := followed(r)
	if goesOn && t.mustList(what) {
		return expired(r)
	}
	t.mu.Lock()
	failed := t.failed
	t.mu.Unlock()
	answer, err := t.next.RoundTrip(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil && away(r, err):
		t.failed++
	case err == nil && lists && answer.StatusCode == http.StatusOK:
		t.listed[what] = failed
	}
	return answer, err
}

// away says that a connection failed, or could not be made. What was merely late is no outage: the load of lists would
// come on top of that which made it late.
func away(r *http.Request, err error) bool {
	var op *net.OpError
	dialled := errors.As(err, &op) && op.Op == "dial" && r.Context().Err() == nil
	return dialled || utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err)
}

// WrappedRoundTripper is the one below, which client-go looks for to close its connections.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// mustList says that the API server was away since what a watch follows was listed.
func (o *outages) mustList(what string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.listed[what] == o.failed {
		return false
	}
	o.listed[what] = o.failed
	return true
}

// followed names what an informer's request is about, and says whether it lists that, or goes on watching it. Lists of
// informers have a version or a page's size, which tells them from other reads.
func followed(r *http.Request) (what string, goesOn, lists bool) {
	q := r.URL.Query()
	version := q.Get("resourceVersion")
	switch {
	case r.Method != http.MethodGet:
	case q.Get("watch") != "true":
		lists = version != "" || q.Get("limit") != ""
	case q.Get("sendInitialEvents") == "true":
		lists = true
	default:
		goesOn = version != "" && version != "0"
	}
	return r.URL.Path + "?" + q.Get("labelSelector") + "&" + q.Get("fieldSelector"), goesOn, lists
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
		Status: "410 " + http.StatusText(http.StatusGone), StatusCode: http.StatusGone, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}
