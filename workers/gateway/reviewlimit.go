package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/peer"
	utilcache "k8s.io/apimachinery/pkg/util/cache"

	"github.com/virtflow/virtflow/internal/inflight"
)

const (
	// Reviews that one address may cause, and one node with tokens that were good once. A node worker needs one in
	// minutes; where addresses are translated on the way, one may stand for many.
	reviewsPerSecond, reviewsAtOnce = 10, 50
	// Reviews for unauthenticated callers: of tokens that were never good, from all addresses together from which no
	// good one has come yet. It is what somebody who makes them up costs the API server at most, and after a start how
	// fast nodes get to be known.
	unauthenticatedPerSecond, unauthenticatedAtOnce = 50, 250
	addressMost                                     = 10000
	// authenticatedMost is how many addresses one node's tokens can authenticate: as many as a node worker may have,
	// and no more for whoever has taken a node.
	authenticatedMost = 4
	// limiterLife is how long it is remembered that somebody asked too often, or that an address has shown a good
	// token.
	limiterLife = time.Hour
)

// reviewLimiter bounds how often the API server is asked about tokens. It is safe for concurrent use.
type reviewLimiter struct {
	addresses       rateLimits // by address
	nodes           rateLimits // by node
	unauthenticated *rate.Limiter

	mu            sync.Mutex
	authenticated *utilcache.LRUExpireCache // the node whose good token has come last from an address, by address
	// the addresses that a node's tokens have authenticated, the newest last, by node
	addressesOf *utilcache.LRUExpireCache
}

func newReviewLimiter() *reviewLimiter {
	return &reviewLimiter{
		addresses:     newRateLimits(addressMost, reviewsPerSecond, reviewsAtOnce),
		nodes:         newRateLimits(addressMost, reviewsPerSecond, reviewsAtOnce),
		authenticated: utilcache.NewLRUExpireCache(addressMost), addressesOf: utilcache.NewLRUExpireCache(addressMost),
		unauthenticated: rate.NewLimiter(unauthenticatedPerSecond, unauthenticatedAtOnce),
	}
}

// allow says whether a token may be reviewed that an address shows. One that was good once, for that node ("": none
// was), counts for its node alone: whatever others show at the same address does not hold it up. Any other counts for
// its address, whatever else has come from there.
func (p *reviewLimiter) allow(host, node string) bool {
	if node != "" {
		return p.nodes.allow(node)
	}
	if !p.addresses.allow(host) {
		return false
	}
	if _, known := p.authenticated.Get(host); known {
		return true
	}
	return p.unauthenticated.Allow()
}

// markAuthenticated notes that a good token of a node has come from an address: its next one does not count with
// unauthenticated callers'.
func (p *reviewLimiter) markAuthenticated(host, node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	if found, ok := p.addressesOf.Get(node); ok {
		if before, ok := found.([]string); ok {
			all = slices.DeleteFunc(slices.Clone(before), func(h string) bool { return h == host })
		}
	}
	for all = append(all, host); len(all) > authenticatedMost; all = all[1:] {
		if by, ok := p.authenticated.Get(all[0]); ok && by == node {
			p.authenticated.Remove(all[0])
		}
	}
	p.addressesOf.Add(node, all, limiterLife)
	p.authenticated.Add(host, node, limiterLife)
}

// hostOf is the address of whoever calls, without its port.
func hostOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	return inflight.Host(p.Addr.String())
}

// rateLimits has a rate limiter for each name.
type rateLimits struct {
	*utilcache.LRUExpireCache
	perSecond rate.Limit
	atOnce    int
}

func newRateLimits(names int, perSecond rate.Limit, atOnce int) rateLimits {
	return rateLimits{utilcache.NewLRUExpireCache(names), perSecond, atOnce}
}

// allow counts one more of a name. Two limiters that are made at once for one name are the same as one a moment later.
func (r rateLimits) allow(name string) bool {
	if found, ok := r.Get(name); ok {
		if l, ok := found.(*rate.Limiter); ok {
			return l.Allow()
		}
	}
	l := rate.NewLimiter(r.perSecond, r.atOnce)
	r.Add(name, l, limiterLife)
	return l.Allow()
}
