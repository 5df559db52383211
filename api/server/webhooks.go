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
	// bodyTimeout is how long a client may take to send the body of a review.
	bodyTimeout = 10 * time.Second
	// apiServerUser is who the API server is to itself: its calls of the webhooks that it reaches through its own
	// aggregation layer are this user's.
	apiServerUser = "system:apiserver"
	// aggregatedPath is where it reaches them.
	aggregatedPath = "/apis/" + subresources.Group + "/v1/admission"
)

// NewWebhooks makes the HTTPS server for handlers by path, without asking who calls. Host "" is every address. The
// certificate is asked for at every handshake, so that a new one is used at once. A body may be 7 MiB, which the
// handlers see to, and must come within bodyTimeout; how many are answered at once is bounded.
func NewWebhooks(
	host string, port int, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error),
	handlers map[string]http.Handler,
) *Server {
	mux := http.NewServeMux()
	b := newBounds()
	for path, h := range handlers {
		mux.Handle(path, b.handler(h, reviewWait))
	}
	nobody := func(*tls.ConnectionState) bool { return false }
	return newServer(host, port, Limits{}, mux, certificate, nobody, zerolog.Nop())
}

// register serves the webhooks. Anybody may call those whose answer is all that comes of them. The others are called
// through the API server's aggregation layer, as one of its own requests: whose they are says authenticate.
func register(
	mux *http.ServeMux, handlers map[string]http.Handler, authenticate func(*http.Request) (subresources.User, error),
) {
	b := newBounds()
	for path, h := range handlers {
		if !slices.Contains(admission.AuthenticatedPaths(), path) {
			mux.Handle(path, b.handler(h, reviewWait))
			continue
		}
		// Only the API server comes this far, and what one of these takes keeps none of the others from being answered.
		mux.Handle(aggregatedPath+path, onlyTheAPIServer(newBounds().handler(h, reviewWait), authenticate))
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
				Text: "only the API server asks for reviews"})
		default:
			next.ServeHTTP(w, r)
		}
	})
}
