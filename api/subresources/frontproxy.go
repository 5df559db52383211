package subresources

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FrontProxyConfig is the ConfigMap in which the API server says how to know its front proxy.
var FrontProxyConfig = types.NamespacedName{Namespace: "kube-system", Name: "extension-apiserver-authentication"}

// User is who asked, as the front proxy says.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// FrontProxy believes identities that come with the front proxy's certificate, and no others. It follows changes of its
// ConfigMap, and is safe for concurrent use.
type FrontProxy struct {
	// Reader reads the ConfigMap; from a cache, for it is asked at each request.
	Reader client.Reader

	mu      sync.Mutex
	version string
	parsed  *frontProxy
}

// frontProxy is the ConfigMap, read.
type frontProxy struct {
	roots        *x509.CertPool
	allowed      []string // common names; none: any
	user, uid    []string // headers
	group, extra []string
}

// errUnauthenticated is KubeVirt's word for a request that does not come through the front proxy.
var errUnauthenticated = &Plain{Code: http.StatusUnauthorized, Text: "request is not authenticated"}

// Identify says who is behind a request, or a Plain error with code 401.
func (f *FrontProxy) Identify(r *http.Request, now time.Time) (User, error) {
	config, err := f.config(r.Context())
	if err != nil {
		return User{}, Unavailable("Who asks cannot be verified: " + err.Error() + ".")
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || !config.believes(r.TLS.PeerCertificates, now) {
		return User{}, errUnauthenticated
	}
	u := User{Name: firstOf(r.Header, config.user), UID: firstOf(r.Header, config.uid),
		Groups: allOf(r.Header, config.group)}
	switch {
	case u.Name == "":
		return User{}, &Plain{Code: http.StatusUnauthorized, Text: "a valid user header is required for authorization"}
	case len(u.Groups) == 0:
		return User{}, &Plain{Code: http.StatusUnauthorized, Text: "a valid group header is required for authorization"}
	}
	u.Extra = extraOf(r.Header, config.extra)
	return u, nil
}

// Knows says whether a client has shown the front proxy's certificate.
func (f *FrontProxy) Knows(ctx context.Context, state *tls.ConnectionState, now time.Time) bool {
	config, err := f.config(ctx)
	return err == nil && len(state.PeerCertificates) > 0 && config.believes(state.PeerCertificates, now)
}

// config is the ConfigMap as it is now, parsed again only when it has changed.
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
	p := &frontProxy{roots: x509.NewCertPool()}
	if !p.roots.AppendCertsFromPEM([]byte(data["requestheader-client-ca-file"])) {
		return nil, errors.New("requestheader-client-ca-file has no certificate: the API server's aggregation layer " +
			"is not set up")
	}
	for _, f := range []struct {
		key      string
		into     *[]string
		fallback string
	}{
		{"requestheader-allowed-names", &p.allowed, ""},
		{"requestheader-username-headers", &p.user, "X-Remote-User"},
		{"requestheader-uid-headers", &p.uid, ""}, // a front proxy that does not know it does not strip it either
		{"requestheader-group-headers", &p.group, "X-Remote-Group"},
		{"requestheader-extra-headers-prefix", &p.extra, "X-Remote-Extra-"},
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
	return p, nil
}

// believes says whether a chain ends at the front proxy's CA, is meant for clients, and has a name that is allowed.
func (p *frontProxy) believes(chain []*x509.Certificate, now time.Time) bool {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: p.roots, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil && (len(p.allowed) == 0 || slices.Contains(p.allowed, chain[0].Subject.CommonName))
}

func firstOf(h http.Header, names []string) string {
	for _, n := range names {
		if v := h.Get(n); v != "" {
			return v
		}
	}
	return ""
}

func allOf(h http.Header, names []string) []string {
	var all []string
	for _, n := range names {
		all = append(all, h.Values(n)...)
	}
	return all
}

// extraOf collects what headers with one of the prefixes say; the rest of a header's name is the key, escaped as in a
// URL.
func extraOf(h http.Header, prefixes []string) map[string][]string {
	extra := map[string][]string{}
	for name, values := range h {
		for _, p := range prefixes {
			if len(name) <= len(p) || !strings.EqualFold(name[:len(p)], p) {
				continue
			}
			key := strings.ToLower(name[len(p):])
			if plain, err := url.PathUnescape(key); err == nil {
				key = plain
			}
			extra[key] = append(extra[key], values...)
			break
		}
	}
	return extra
}
