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
	// The rate limit of reviews for one address, and for one node whose tokens were valid once. A node worker needs
	// one review in minutes; behind NAT one address may stand for many nodes.
	reviewsPerSecond, reviewsAtOnce = 10, 50
	// The rate limit of reviews for unauthenticated callers: for tokens that were never valid, from all addresses
	// together that have shown no valid token yet. It bounds the load that forged tokens put on the API server, and how
	// fast nodes authenticate after a start of the gateway.
	unauthenticatedPerSecond, unauthenticatedAtOnce = 50, 250
	// maxAddresses is how many addresses or nodes each cache here remembers.
	maxAddresses = 10000
	// maxAddressesPerNode is how many addresses one node's tokens can authenticate: as many as a node worker may have.
	// It bounds what an attacker gains who has a node's tokens.
	maxAddressesPerNode = 4
	// limiterLife is how long the state of a rate limit, and the fact that an address has shown a valid token, are
	// kept.
	limiterLife = time.Hour
)

// reviewLimiter bounds how often the API server is asked about tokens. It is safe for concurrent use.
type reviewLimiter struct {
	addresses       rateLimits // by address
	nodes           rateLimits // by node
	unauthenticated *rate.Limiter

	mu sync.Mutex
	// authenticated has, by address, the node whose valid token came last from there. addressesOf has, by node, the
	// addresses that the node's tokens have authenticated, the newest last.
	authenticated, addressesOf *utilcache.LRUExpireCache
}

func newReviewLimiter() *reviewLimiter {
	return &reviewLimiter{
		addresses:       newRateLimits(reviewsPerSecond, reviewsAtOnce),
		nodes:           newRateLimits(reviewsPerSecond, reviewsAtOnce),
		authenticated:   utilcache.NewLRUExpireCache(maxAddresses),
		addressesOf:     utilcache.NewLRUExpireCache(maxAddresses),
		unauthenticated: rate.NewLimiter(unauthenticatedPerSecond, unauthenticatedAtOnce),
	}
}

// allow reports whether a token from an address may be reviewed. Node is the one that the token authenticated earlier;
// "": the token was never valid. A token that was valid once counts for its node alone, so that other tokens from the
// same address do not delay it. Any other token counts for its address, whatever else has come from there.
func (p *reviewLimiter) allow(host, node string) bool {
	if node != "" {
		return p.nodes.allow(node, time.Now(), 1)
	}
	if !p.addresses.allow(host, time.Now(), 1) {
		return false
	}
	if _, known := p.authenticated.Get(host); known {
		return true
	}
	return p.unauthenticated.Allow()
}

// markAuthenticated remembers that a valid token of a node has come from an address: the next token from there does not
// count for the limit of unauthenticated callers.
func (p *reviewLimiter) markAuthenticated(host, node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	if found, ok := p.addressesOf.Get(node); ok {
		if before, ok := found.([]string); ok {
			all = slices.DeleteFunc(slices.Clone(before), func(h string) bool { return h == host })
		}
	}
	for all = append(all, host); len(all) > maxAddressesPerNode; all = all[1:] {
		if by, ok := p.authenticated.Get(all[0]); ok && by == node {
			p.authenticated.Remove(all[0])
		}
	}
	p.addressesOf.Add(node, all, limiterLife)
	p.authenticated.Add(host, node, limiterLife)
}

// hostOf returns the address of the caller, without its port.
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

func newRateLimits(perSecond rate.Limit, atOnce int) rateLimits {
	return rateLimits{utilcache.NewLRUExpireCache(maxAddresses), perSecond, atOnce}
}

// allow reports whether a name may have n tokens of its bucket now, and takes them if so; a negative n gives tokens
// back. Of two limiters that are made at once for one name, one remains. A limiter is kept as long as it is used; a new
// one has a full bucket.
func (r rateLimits) allow(name string, now time.Time, n int) bool {
	found, _ := r.Get(name)
	l, ok := found.(*rate.Limiter)
	if !ok {
		l = rate.NewLimiter(r.perSecond, r.atOnce)
	}
	r.Add(name, l, limiterLife)
	return l.AllowN(now, n)
}
