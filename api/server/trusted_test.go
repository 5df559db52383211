package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
)

// TestTrustsGivenAndPublishedAddresses: configured and published addresses of API servers are trusted before any API
// server has authenticated.
func TestTrustsGivenAndPublishedAddresses(t *testing.T) {
	of := newTrusted()
	var err error
	of.given, err = parsePrefixes([]string{"10.1.0.0/16", "10.2.0.1", "fd00::/64"})
	require.NoError(t, err)
	scheme, err := newScheme()
	require.NoError(t, err)
	informers := &informertest.FakeInformers{Scheme: scheme}
	require.NoError(t, of.follow(t.Context(), informers))
	informer, err := informers.FakeInformerFor(t.Context(), &discoveryv1.EndpointSlice{})
	require.NoError(t, err)
	slice := func(hosts ...string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
			Endpoints: []discoveryv1.Endpoint{{Addresses: hosts[:1]}, {Addresses: hosts[1:]}}}
	}
	first, second := slice("192.0.2.1", "192.0.2.2"), slice("192.0.2.2", "2001:DB8::3", "not-an-address")
	hosts := []string{"10.1.2.3", "10.2.0.1", "::ffff:10.2.0.1", "fd00::1", "10.2.0.2", "", "192.0.2.1", "192.0.2.2",
		"2001:db8::3"}
	trusts := func() (out []string) {
		for _, h := range hosts {
			if of.has(h) {
				out = append(out, h)
			}
		}
		return out
	}
	require.Equal(t, hosts[:4], trusts())
	informer.Add(first)
	require.Equal(t, append(hosts[:4:4], "192.0.2.1", "192.0.2.2"), trusts())
	informer.Update(first, second)
	require.Equal(t, append(hosts[:4:4], "192.0.2.2", "2001:db8::3"), trusts())

	_, err = parsePrefixes([]string{"10.0.0.0/33"})
	require.EqualError(t, err, `"10.0.0.0/33" is neither an address nor a CIDR`)
}

// TestForgetsProvenAddressesInTime: there is one entry for each address, however often it authenticates, and it
// expires.
func TestForgetsProvenAddressesInTime(t *testing.T) {
	at := time.Now()
	of := newTrusted()
	of.now = func() time.Time { return at }
	require.False(t, of.has("10.0.0.1"))
	of.add("10.0.0.1")
	at = at.Add(trustedFor / 2)
	of.add("::ffff:10.0.0.2")
	require.Equal(t, []bool{true, true, false},
		[]bool{of.has("10.0.0.1"), of.has("10.0.0.2"), of.has("10.0.0.3")})
	require.Zero(t, testing.AllocsPerRun(1000, func() { of.add("10.0.0.2") }))
	at = at.Add(trustedFor / 2)
	require.Equal(t, []bool{false, true}, []bool{of.has("10.0.0.1"), of.has("10.0.0.2")})
	of.add("10.0.0.3")
	require.Len(t, of.proven, 2)
}
