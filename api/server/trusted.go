package server

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/virtflow/virtflow/internal/inflight"
)

// trustedFor is how long an address stays trusted after its proof. Each API server checks every 30 s whether the
// aggregated API is available.
const trustedFor = 10 * time.Minute

// trustedPart is the divisor of each limit for one API server's address.
const trustedPart = 2

// apiServerSlice is the EndpointSlice in which API servers publish their addresses.
func apiServerSlice() types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: "kubernetes"}
}

// trusted has the addresses of API servers, which present no certificate to webhooks: those of a flag, those that are
// published in their EndpointSlice, and those from which the front proxy has authenticated by its certificate. The last
// are needed where the network gives an API server another address on the way to pods. Callers that share an address
// with an API server, as behind NAT, count as trusted too. It is safe for concurrent use.
type trusted struct {
	given []netip.Prefix
	now   func() time.Time

	mu        sync.Mutex
	published []netip.Addr
	proven    map[netip.Addr]time.Time // until when
}

func newTrusted() *trusted { return &trusted{now: time.Now, proven: map[netip.Addr]time.Time{}} }

// add trusts an address for a while, after the front proxy has authenticated from it.
func (t *trusted) add(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, a := t.now(), addressOf(host)
	if _, known := t.proven[a]; !known { // it is called for each request of the front proxy
		maps.DeleteFunc(t.proven, func(_ netip.Addr, until time.Time) bool { return !now.Before(until) })
	}
	t.proven[a] = now.Add(trustedFor)
}

// has reports whether an address is one of an API server's.
func (t *trusted) has(host string) bool {
	a := addressOf(host)
	if slices.ContainsFunc(t.given, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Contains(t.published, a) || t.now().Before(t.proven[a])
}

// quotas returns the quotas of an address: half of a limit if it is an API server's, because callers behind NAT may
// share it; else each, and others for all other addresses together.
func (t *trusted) quotas(limit, others, each int) func(host string) []inflight.Quota {
	return func(host string) []inflight.Quota {
		if t.has(host) {
			return []inflight.Quota{{Owner: host, Max: limit / trustedPart}}
		}
		return []inflight.Quota{{Owner: host, Max: each}, {Owner: "others", Max: others}}
	}
}

// follow starts to watch the EndpointSlice of the API servers, and does not wait for it: until then the other addresses
// are trusted.
func (t *trusted) follow(ctx context.Context, c cache.Cache) error {
	informer, err := c.GetInformer(ctx, &discoveryv1.EndpointSlice{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching EndpointSlice %s: %w", apiServerSlice(), err)
	}
	// After its deletion API servers make it again.
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: t.publish, UpdateFunc: func(_, now any) { t.publish(now) }})
	if err != nil {
		return fmt.Errorf("watching EndpointSlice %s: %w", apiServerSlice(), err)
	}
	return nil
}

// publish replaces the published addresses by those of an EndpointSlice.
func (t *trusted) publish(o any) {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return
	}
	var all []netip.Addr
	for _, e := range s.Endpoints {
		for _, host := range e.Addresses {
			if a := addressOf(host); a.IsValid() {
				all = append(all, a)
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.published = all
}

// addressOf returns the zero value if a host is not an address.
func addressOf(host string) netip.Addr {
	a, _ := netip.ParseAddr(host)
	return a.Unmap().WithZone("")
}

// parsePrefixes parses addresses and CIDRs.
func parsePrefixes(texts []string) (out []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if a := addressOf(text); a.IsValid() {
			p, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a CIDR", text)
		}
		out = append(out, p)
	}
	return out, nil
}
