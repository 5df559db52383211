//go:build e2e

package e2e

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRejectsForgedUserHeaders: a client that connects to the api-server's port itself, as any pod can, is
// unauthenticated there, whatever its headers are.
func TestRejectsForgedUserHeaders(t *testing.T) {
	const deployment = "deployment/virtflow-api-server"
	address, metrics := forwarded(t, deployment, "8443"), forwarded(t, deployment, "8080")
	// This test checks only the api-server's answers; every request of the API server checks its certificate.
	client := &http.Client{Timeout: 20 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	counted := func() string {
		r, err := http.Get("http://" + metrics + "/metrics")
		require.NoError(t, err)
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, `virtflow_subresource_refused_total{code="401"}`) {
				return line
			}
		}
		return ""
	}
	before := counted()
	for name, headers := range map[string]http.Header{
		"forged":         {"X-Remote-User": {"system:admin"}, "X-Remote-Group": {"system:masters"}},
		"nothing":        {},
		"a user's token": {"Authorization": {"Bearer " + token(t, "virtflow-crdwatch")}},
	} {
		for _, path := range []string{"virtualmachines/any/start", "virtualmachineinstances/any/console",
			"virtualmachineinstances/any/pause"} {
			method := http.MethodPut
			if strings.HasSuffix(path, "console") {
				method = http.MethodGet
			}
			q, err := http.NewRequest(method,
				"https://"+address+"/apis/subresources.kubevirt.io/v1/namespaces/default/"+
					path, strings.NewReader("{}"))
			require.NoError(t, err)
			q.Header = headers
			a, err := client.Do(q)
			require.NoError(t, err)
			text, err := io.ReadAll(a.Body)
			require.NoError(t, err)
			require.NoError(t, a.Body.Close())
			require.Equal(t, http.StatusUnauthorized, a.StatusCode, "%s %s: %s", name, path, text)
		}
	}
	require.NotEqual(t, before, counted(), "the metric counts it")

	// Webhooks that have an effect accept only the API server.
	for path, code := range map[string]int{
		"/pod-eviction-validate": http.StatusUnauthorized, "/requests-report": http.StatusUnauthorized,
		reviews + "/pod-eviction-validate": http.StatusUnauthorized,
		reviews + "/requests-report":       http.StatusUnauthorized,
	} {
		a, err := client.Post("https://"+address+path, "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		require.NoError(t, a.Body.Close())
		require.Equal(t, code, a.StatusCode, path)
	}
}

// reviews is the path to which the API server's aggregation layer sends reviews.
const reviews = "/apis/subresources.kubevirt.io/v1/admission"
