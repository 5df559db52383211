package subresources

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FrontProxyConfig is the ConfigMap with which the API server describes its front proxy.
var FrontProxyConfig = types.NamespacedName{Namespace: "kube-system", Name: "extension-apiserver-authentication"}

// User is the user of a request, as the front proxy reports it.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// FrontProxy accepts identities only with the front proxy's certificate, by the library of all aggregated API servers.
// It follows changes of its ConfigMap, and is safe for concurrent use.
type FrontProxy struct {
	// Reader reads the ConfigMap from a cache, because each request needs it. (The library's own controller would watch
	// it a second time.)
	Reader client.Reader

	mu      sync.Mutex
	version string
	parsed  *frontProxy
}

// frontProxy has the authenticators that the ConfigMap describes.
type frontProxy struct {
	// known checks the front proxy's certificate, and identity reads the user from such a client's headers.
	known, identity authenticator.Request
}

// errUnauthenticated is KubeVirt's error for a request that does not come through the front proxy.
var errUnauthenticated = &Plain{Code: http.StatusUnauthorized, Text: "request is not authenticated"}

// Identify returns the user of a request, or a Plain error with code 401. It removes the identity headers.
func (f *FrontProxy) Identify(r *http.Request) (User, error) {
	config, err := f.config(r.Context())
	if err != nil {
		return User{}, Unavailable("The user cannot be verified: " + err.Error() + ".")
	}
	if !hasValidCertificate(config.known, r.TLS) {
		return User{}, errUnauthenticated
	}
	said, ok, err := config.identity.AuthenticateRequest(r)
	switch {
	case err != nil || !ok:
		return User{}, &Plain{Code: http.StatusUnauthorized, Text: "a valid user header is required for authorization"}
	case len(said.User.GetGroups()) == 0:
		return User{}, &Plain{Code: http.StatusUnauthorized, Text: "a valid group header is required for authorization"}
	}
	u := said.User
	return User{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}, nil
}

// Knows reports whether a client has presented the front proxy's certificate.
func (f *FrontProxy) Knows(ctx context.Context, state *tls.ConnectionState) bool {
	config, err := f.config(ctx)
	return err == nil && hasValidCertificate(config.known, state)
}

// hasValidCertificate reports whether the connection has a client certificate that the authenticator accepts.
func hasValidCertificate(known authenticator.Request, state *tls.ConnectionState) bool {
	_, ok, err := known.AuthenticateRequest(&http.Request{TLS: state})
	return ok && err == nil
}

// config returns the current ConfigMap, parsed again only when it has changed.
func (f *FrontProxy) config(ctx context.Context) (*frontProxy, error) {
	m := &corev1.ConfigMap{}
	if err := f.Reader.Get(ctx, FrontProxyConfig, m); err != nil {
		return nil, fmt.Errorf("reading the ConfigMap %s: %w", FrontProxyConfig, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.parsed != nil && f.version == m.ResourceVersion && m.ResourceVersion != "" {
		return f.parsed, nil
	}
	p, err := parseFrontProxy(m.Data)
	if err != nil {
		return nil, fmt.Errorf("reading the ConfigMap %s: %w", FrontProxyConfig, err)
	}
	f.parsed, f.version = p, m.ResourceVersion
	return p, nil
}

func parseFrontProxy(data map[string]string) (*frontProxy, error) {
	verify := x509request.DefaultVerifyOptions()
	verify.Roots = x509.NewCertPool()
	if !verify.Roots.AppendCertsFromPEM([]byte(data["requestheader-client-ca-file"])) {
		return nil, errors.New("requestheader-client-ca-file has no certificate: the API server's aggregation layer " +
			"is not set up")
	}
	var names, user, uid, group, extra headerrequest.StaticStringSlice
	for _, f := range []struct {
		key      string
		into     *headerrequest.StaticStringSlice
		fallback string
	}{
		{"requestheader-allowed-names", &names, ""}, // common names; empty: any
		{"requestheader-username-headers", &user, "X-Remote-User"},
		{"requestheader-uid-headers", &uid, ""}, // no default: an older front proxy does not remove it
		{"requestheader-group-headers", &group, "X-Remote-Group"},
		{"requestheader-extra-headers-prefix", &extra, "X-Remote-Extra-"},
	} {
		if text := data[f.key]; text != "" {
			if err := json.Unmarshal([]byte(text), f.into); err != nil {
				return nil, fmt.Errorf("%s: %w", f.key, err)
			}
		}
		if f.fallback != "" && !slices.ContainsFunc(*f.into, func(h string) bool {
			return strings.EqualFold(h, f.fallback)
		}) {
			*f.into = append(*f.into, f.fallback)
		}
	}
	anonymous := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{}, true, nil
	})
	return &frontProxy{
		known: x509request.NewDynamicCAVerifier(
			func() (x509.VerifyOptions, bool) { return verify, true }, anonymous, names),
		identity: headerrequest.NewDynamic(user, uid, group, extra),
	}, nil
}
