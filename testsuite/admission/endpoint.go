package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	virtadmission "github.com/virtflow/virtflow/api/admission"
	"github.com/virtflow/virtflow/api/server"
	"github.com/virtflow/virtflow/internal/certificates"
)

const (
	namespace = "virtflow"
	service   = "virtflow-api-server"
	startTime = 30 * time.Second
	askTime   = 30 * time.Second
)

// Endpoint is a webhook server on loopback.
type Endpoint struct {
	url    string
	Client *http.Client
}

// Start serves the webhooks until the test ends, with a certificate of the project's own CA, which is the only one that
// the client trusts.
func Start(t testing.TB, o virtadmission.Options) *Endpoint {
	t.Helper()
	ctrl.SetLogger(logr.Discard()) // the library's log of bad requests is not needed
	c := fake.NewClientBuilder().WithObjects(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "certificate"}},
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "virtflow"},
			Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: "a.virtflow.io"}},
		},
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "virtflow"},
			Webhooks:   []admissionregistrationv1.ValidatingWebhook{{Name: "b.virtflow.io"}},
		},
	).Build()
	rotator := certificates.NewRotator(c, certificates.Options{
		Secret: types.NamespacedName{Namespace: namespace, Name: "certificate"}, Service: service,
		MutatingWebhooks: "virtflow", ValidatingWebhooks: "virtflow",
	}, zerolog.Nop())
	ctx, cancel := context.WithCancel(context.Background())
	_, err := rotator.Reconcile(ctx, reconcile.Request{})
	require.NoError(t, err)
	var trusted admissionregistrationv1.ValidatingWebhookConfiguration
	require.NoError(t, c.Get(ctx, types.NamespacedName{Name: "virtflow"}, &trusted))
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(trusted.Webhooks[0].ClientConfig.CABundle))

	port := freePort(t)
	webhooks := server.NewWebhooks("127.0.0.1", port, rotator.Certificate, virtadmission.Handlers(o))
	ended := make(chan error, 1)
	go func() { ended <- webhooks.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	require.Eventually(t, func() bool { return webhooks.Ready(ctx) == nil }, startTime, 10*time.Millisecond)
	return &Endpoint{
		url: fmt.Sprintf("https://127.0.0.1:%d", port),
		Client: &http.Client{Timeout: askTime, Transport: &http.Transport{
			MaxIdleConnsPerHost: 16,
			TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: service + "." + namespace + ".svc",
				MinVersion: tls.VersionTLS13},
		}},
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Post sends a body to a path, as the API server does, and returns the status and the body of the answer.
func (e *Endpoint) Post(path, contentType string, body io.Reader) (int, []byte, error) {
	return post(e.Client, e.url+path, contentType, body)
}

func post(c *http.Client, url, contentType string, body io.Reader) (int, []byte, error) {
	resp, err := c.Post(url, contentType, body)
	if err != nil {
		return 0, nil, fmt.Errorf("posting to %s: %w", url, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	return resp.StatusCode, raw, nil
}

// Ask posts an AdmissionReview. The answer is nil if the path is not served.
func (e *Endpoint) Ask(path string, review []byte) (*Answer, error) {
	status, raw, err := e.Post(path, "application/json", bytes.NewReader(review))
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotFound:
		return nil, nil
	case status != http.StatusOK:
		return nil, fmt.Errorf("%s answered %d: %.200s", path, status, raw)
	}
	var r admissionv1.AdmissionReview
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", path, err)
	}
	if r.Response == nil {
		return nil, fmt.Errorf("%s gave no answer: %.200s", path, raw)
	}
	a := &Answer{Allowed: r.Response.Allowed, Warnings: r.Response.Warnings, Patch: r.Response.Patch}
	if s := r.Response.Result; s != nil {
		a.Code, a.Reason, a.Message = s.Code, string(s.Reason), s.Message
		if s.Details != nil {
			a.Causes = s.Details.Causes
		}
	}
	return a, nil
}
