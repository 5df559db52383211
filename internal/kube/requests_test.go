package kube

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	kubevirt "kubevirt.io/api/core/v1"
)

func TestNamesOperations(t *testing.T) {
	for _, c := range []struct{ method, url, resource, verb string }{
		{"GET", "/api/v1/namespaces/a/pods", "pods", "LIST"},
		{"GET", "/api/v1/pods?limit=500", "pods", "LIST"},
		{"GET", "/api/v1/namespaces/a/pods?watch=true", "pods", "WATCH"},
		{"GET", "/api/v1/pods?watch=1", "pods", "WATCH"},
		{"GET", "/api/v1/namespaces/a/pods/web", "pods", "GET"},
		{"GET", "/api/v1/nodes/n", "nodes", "GET"},
		{"GET", "/api/v1/namespaces", "namespaces", "LIST"},
		{"GET", "/api/v1/namespaces/a", "namespaces", "GET"},
		{"PUT", "/apis/kubevirt.io/v1/namespaces/a/virtualmachines/web/status", "virtualmachines", "UPDATE"},
		{"PATCH", "/apis/kubevirt.io/v1/namespaces/a/virtualmachines/web", "virtualmachines", "PATCH"},
		{"POST", "/api/v1/namespaces/a/pods/web/eviction", "pods", "CREATE"},
		{"DELETE", "/api/v1/namespaces/a/pods/web", "pods", "DELETE"},
		{"HEAD", "/api/v1/namespaces/a/pods/web", "pods", "none"},
		{"GET", "/apis/kubevirt.io/v1", "none", "none"},
		{"GET", "/version", "none", "none"},
		{"GET", "", "none", "none"},
	} {
		u, err := url.Parse(c.url)
		require.NoError(t, err)
		resource, verb := operation(&http.Request{Method: c.method, URL: u})
		require.Equal(t, [2]string{c.resource, c.verb}, [2]string{resource, verb}, "%s %s", c.method, c.url)
	}
}

// TestCountsRequests: answers count by their status, and requests without an answer as errors.
func TestCountsRequests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusForbidden)
	}))
	registry := prometheus.NewRegistry()
	config := &rest.Config{Host: server.URL}
	config.Wrap(NewRequests(registry).wrap)
	client, _, err := restFor(config, kubevirt.GroupVersion, kubevirt.AddToScheme)
	require.NoError(t, err)
	get := func() error {
		return client.Get().Namespace("a").Resource(ResourceVM).Name("web").Do(t.Context()).Error()
	}
	require.Error(t, get())
	require.Error(t, get())
	server.Close()
	require.Error(t, get())
	host := strings.TrimPrefix(server.URL, "http://")
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP kubevirt_rest_client_requests_total Requests to the Kubernetes API, by the HTTP status of the answer.
# TYPE kubevirt_rest_client_requests_total counter
kubevirt_rest_client_requests_total{code="403",host="`+host+`",method="GET",resource="virtualmachines",verb="GET"} 2
kubevirt_rest_client_requests_total{code="<error>",host="`+host+`",method="GET",resource="virtualmachines",verb="GET"} 1
`)))
}
