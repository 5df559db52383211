package server

import (
	"crypto/tls"
	"net/http"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/virtflow/virtflow/api/admission"
)

// bodyTimeout is how long a client may take to send the body of a review.
const bodyTimeout = 10 * time.Second

// NewWebhooks makes the HTTPS server for handlers by path. Host "" is every address. The certificate is asked for at every handshake, so
// that a new one is used at once. A body may be 7 MiB, which the handlers see to, and must come within bodyTimeout; how many are answered at
// once is bounded, and by far less for those whose path does not end in a proof.
func NewWebhooks(host string, port int, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), handlers map[string]http.Handler, proven Proven) webhook.Server {
	s := newWebhookServer(host, port, nil, certificate)
	register(s, handlers, proven)
	return s
}

// Proven says whether a text at the end of a webhook's path proves that a call comes from the API server. It must be safe for concurrent use.
type Proven func(path, text string) bool

// newWebhookServer makes the server alone. What no webhook takes goes to the mux, where one is given.
func newWebhookServer(host string, port int, mux *http.ServeMux, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) webhook.Server {
	return webhook.NewServer(webhook.Options{Host: host, Port: port, WebhookMux: mux, TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion = tls.VersionTLS13
		// Streams need HTTP/1.1. Whose certificate a client has shown, package subresources judges by the CA of the moment.
		c.NextProtos = []string{"h2", "http/1.1"}
		c.ClientAuth = tls.RequestClientCert
		c.GetCertificate = certificate
	}}})
}

func register(s webhook.Server, handlers map[string]http.Handler, proven Proven) {
	b := newBounds()
	for pattern, h := range handlers {
		path, with := strings.CutSuffix(pattern, admission.ProofSuffix)
		s.Register(pattern, b.bound(h, func(r *http.Request) bool { return with && proven(path, r.PathValue("proof")) }))
	}
}
