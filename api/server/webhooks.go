package server

import (
	"crypto/tls"
	"net/http"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/api/admission"
	"github.com/virtflow/virtflow/api/subresources"
)

const (
	// bodyTimeout is the time that a client has to send the body of a review.
	bodyTimeout = 10 * time.Second
	// apiServerUser is the API server's own user, with which it calls the webhooks that it reaches through its
	// aggregation layer.
	apiServerUser = "system:apiserver"
	// aggregatedPath is the path of these webhooks.
	aggregatedPath = "/apis/" + subresources.Group + "/v1/admission"
)

// NewWebhooks returns the HTTPS server for handlers by path, without authentication. Host "" is every address. It gets
// the certificate at every handshake, so that a new one is used at once. A body may have 7 MiB, which the handlers
// check, and must arrive within bodyTimeout; the number of concurrent answers is bounded.
func NewWebhooks(
	host string, port int, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error),
	handlers map[string]http.Handler,
) *Server {
	mux := http.NewServeMux()
	none := func(*tls.ConnectionState) bool { return false }
	s := newServer(host, port, Limits{}, mux, certificate, none, zerolog.Nop())
	b := newBounds(s.trusted.has, s.refused.WithLabelValues("review").Inc)
	for path, h := range handlers {
		mux.Handle(path, b.handler(h, reviewWait))
	}
	return s
}

// register registers the webhooks. Unauthenticated callers may call those that only answer. The others are called
// through the API server's aggregation layer, as one of its own requests: authenticate returns the user.
func register(
	mux *http.ServeMux, handlers map[string]http.Handler, isTrusted func(host string) bool, refused func(),
	authenticate func(*http.Request) (subresources.User, error),
) {
	b := newBounds(isTrusted, refused)
	for path, h := range handlers {
		if !slices.Contains(admission.AuthenticatedPaths(), path) {
			mux.Handle(path, b.handler(h, reviewWait))
			continue
		}
		// Only authenticated calls of the API server come this far, and they share no limit with the others.
		own := newBounds(isTrusted, refused)
		mux.Handle(aggregatedPath+path, onlyTheAPIServer(own.handler(h, reviewWait), authenticate))
	}
}

func onlyTheAPIServer(next http.Handler, authenticate func(*http.Request) (subresources.User, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, err := authenticate(r)
		switch {
		case err != nil:
			subresources.Fail(w, err)
		case user.Name != apiServerUser:
			subresources.Fail(w, &subresources.Plain{Code: http.StatusForbidden,
				Text: "only the API server may request reviews"})
		default:
			next.ServeHTTP(w, r)
		}
	})
}
