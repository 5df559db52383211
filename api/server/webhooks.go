package server

import (
	"crypto/tls"
	"net/http"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/api/admission"
)

// bodyTimeout is how long a client may take to send the body of a review.
const bodyTimeout = 10 * time.Second

// NewWebhooks makes the HTTPS server for handlers by path. Host "" is every address. The certificate is asked for at every handshake, so
// that a new one is used at once. A body may be 7 MiB, which the handlers see to, and must come within bodyTimeout; how many are answered at
// once is bounded, and by far less for those whose path does not end in a proof.
func NewWebhooks(host string, port int, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), handlers map[string]http.Handler, proven Proven) *Server {
	mux := http.NewServeMux()
	register(mux, handlers, proven)
	nobody := func(*tls.ConnectionState) bool { return false }
	return newServer(host, port, Limits{}, mux, certificate, nobody, zerolog.Nop())
}

// Proven says whether a text at the end of a webhook's path proves that a call comes from the API server. It must be safe for concurrent use.
type Proven func(path, text string) bool

func register(mux *http.ServeMux, handlers map[string]http.Handler, proven Proven) {
	b := newBounds()
	for pattern, h := range handlers {
		path, with := strings.CutSuffix(pattern, admission.ProofSuffix)
		mux.Handle(pattern, b.bound(h, func(r *http.Request) bool { return with && proven(path, r.PathValue("proof")) }))
	}
}
