package kube

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// TestDoesNotLimitRequests: the API server limits them, and requests that wait in the client would time out there. No
// answer is compressed.
func TestDoesNotLimitRequests(t *testing.T) {
	asked := make(chan string, 10)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Empty(t, r.Header.Get("Accept-Encoding"))
		asked <- r.UserAgent()
		<-r.Context().Done()
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(api.Config{
		Clusters: map[string]*api.Cluster{"c": {Server: server.URL,
			CertificateAuthorityData: pem.EncodeToMemory(
				&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}},
		Contexts: map[string]*api.Context{"c": {Cluster: "c"}}, CurrentContext: "c",
	}, file))
	config, err := LoadConfig(file, "virtflow-test", nil)
	require.NoError(t, err)

	kv, err := New(config)
	require.NoError(t, err)
	require.Nil(t, kv.rest.GetRateLimiter())
	clients, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	require.Nil(t, clients.CoreV1().RESTClient().GetRateLimiter())

	// A request for a lease without an answer ends in time for another attempt before the lease is lost.
	config.QPS, config.Burst = 1, 1
	leases, err := kubernetes.NewForConfig(LeaseConfig(config, 200*time.Millisecond))
	require.NoError(t, err)
	require.Nil(t, leases.CoordinationV1().RESTClient().GetRateLimiter())
	_, err = leases.CoordinationV1().Leases("virtflow").Get(context.Background(), "x", metav1.GetOptions{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, "virtflow-test/leader-election", <-asked)
}
