package streams

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/virtflow/virtflow/api/subresources"
)

// DefaultOrigins returns the hosts whose pages may open streams: those of the user's own machine, where kubectl proxy
// serves.
func DefaultOrigins() []string { return []string{"localhost", "127.0.0.1", "::1"} }

// checkOrigin refuses a stream that a browser opens for a page of another site. A browser authenticates such requests
// by itself with a client certificate of its store, and kubectl proxy authenticates every request. Clients that are no
// browsers, such as virtctl, send no Origin. The request's Host cannot be compared: kube-apiserver replaces it by this
// server's own (k8s.io/apiserver/pkg/util/proxy NewRequestForProxy).
func checkOrigin(r *http.Request, permitted []string) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	host := ""
	if u, err := url.Parse(origin); err == nil {
		host = u.Hostname()
	}
	for _, p := range permitted {
		if p == "*" || host != "" && strings.EqualFold(p, host) {
			return nil
		}
	}
	return &subresources.Plain{Code: http.StatusForbidden, Text: fmt.Sprintf("pages of %.128q may not open streams: an "+
		"administrator permits their host with --stream-origins of the api server", origin)}
}
