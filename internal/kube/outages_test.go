package kube

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	kubevirt "kubevirt.io/api/core/v1"
)

// apiServer lists one VM in a version, and keeps watches open without events, like a server whose versions have run
// backwards.
type apiServer struct {
	mu      sync.Mutex
	version string
	away    bool
	end     chan struct{} // ends the watches
	watches int
}

func (s *apiServer) set(version string, away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.away = version, away
	close(s.end)
	s.end = make(chan struct{})
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	version, end := s.version, s.end
	watch := r.URL.Query().Get("watch") == "true"
	if watch && r.URL.Query().Get("sendInitialEvents") != "true" {
		s.watches++
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case watch && r.URL.Query().Get("sendInitialEvents") == "true":
		w.WriteHeader(http.StatusUnprocessableEntity) // the client lists in the plain way then
	case watch:
		w.(http.Flusher).Flush()
		select {
		case <-end:
		case <-r.Context().Done():
		}
	default:
		vm := kubevirt.VirtualMachine{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "vm", ResourceVersion: version}}
		_ = json.NewEncoder(w).Encode(kubevirt.VirtualMachineList{
			TypeMeta: metav1.TypeMeta{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineList"},
			ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: []kubevirt.VirtualMachine{vm},
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestInformersListAgainAfterOutage: an informer whose API server came back with versions that ran backwards has the
// current objects; without an outage it continues to watch, and does not list again.
func TestInformersListAgainAfterOutage(t *testing.T) {
	s := &apiServer{version: "100", end: make(chan struct{})}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			s.mu.Lock()
			away := s.away
			s.mu.Unlock()
			if away {
				return nil, syscall.ECONNREFUSED
			}
			return next.RoundTrip(r)
		})
	})
	config.Wrap((&outages{listed: map[string]int{}}).wrap)
	client, err := New(config)
	require.NoError(t, err)
	informer := cache.NewSharedIndexInformer(client.ListWatch(ResourceVM, "", ""), &kubevirt.VirtualMachine{}, 0, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		informer.RunWithContext(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		s.set("", false)
		<-ended
	})
	version := func() string {
		o, ok, err := informer.GetStore().GetByKey("a/vm")
		require.NoError(t, err)
		if !ok {
			return ""
		}
		return o.(*kubevirt.VirtualMachine).ResourceVersion
	}
	eventually := func(what string, is func() bool) {
		require.Eventually(t, is, time.Minute, 10*time.Millisecond, what)
	}
	eventually("the first list", func() bool { return version() == "100" })
	watches := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.watches
	}
	eventually("the first watch", func() bool { return watches() == 1 })
	time.Sleep(1100 * time.Millisecond) // a watch that ends within a second is one more reason to list
	s.set("90", false)                  // the watch breaks off, but the server was not away
	eventually("another watch", func() bool { return watches() == 2 })
	require.Equal(t, "100", version(), "it is not listed again for no reason")
	s.set("90", true)
	time.Sleep(1100 * time.Millisecond)
	s.set("90", false)
	eventually("a list after the outage", func() bool { return version() == "90" })
}

// TestOneListAfterEachOutage: a watch is sent to list once for each outage, whichever request detected it, and only one
// that would continue from a version.
func TestOneListAfterEachOutage(t *testing.T) {
	var answers error
	o := &outages{listed: map[string]int{}}
	transport := o.wrap(roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, answers
	}))
	code := func(url string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		require.NoError(t, err)
		answer, err := transport.RoundTrip(r)
		if err != nil {
			return 0
		}
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	const a, b = "/apis/a?watch=true&resourceVersion=5", "/apis/a?watch=true&resourceVersion=5&labelSelector=x%3Dy"
	require.Equal(t, http.StatusOK, code(a))
	answers = errors.New("slow")
	require.Zero(t, code("/apis/c"))
	answers = nil
	require.Equal(t, http.StatusOK, code(a), "no outage")
	answers = syscall.ECONNREFUSED
	require.Zero(t, code("/apis/c"))
	require.Zero(t, code("/apis/c"))
	answers = nil
	require.Equal(t, http.StatusOK, code("/apis/a?watch=true"), "a watch from nothing")
	require.Equal(t, http.StatusGone, code(a))
	answers = syscall.ECONNREFUSED
	require.Zero(t, code("/apis/a?resourceVersion=5"), "a list that fails")
	answers = nil
	require.Equal(t, http.StatusOK, code("/apis/a?resourceVersion=5"), "a list")
	require.Equal(t, http.StatusOK, code(a), "it was listed after that outage")
	require.Equal(t, http.StatusGone, code(b), "another watch")
	require.Equal(t, http.StatusOK, code(b))
	answers = &net.OpError{Op: "dial", Err: syscall.ETIMEDOUT}
	require.Zero(t, code("/apis/c"))
	answers = nil
	require.Equal(t, http.StatusOK, code(a+"&sendInitialEvents=true"), "a watch that lists")
	require.Equal(t, http.StatusOK, code(a))
	require.Equal(t, http.StatusGone, code(b))
}
