package gateway

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/peer"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
)

const (
	// Reviews that one address may cause, and one node with tokens that were good once. A node worker needs one in minutes; where addresses are
	// translated on the way, one may stand for many.
	reviewsPerSecond, reviewsAtOnce = 10, 50
	// Reviews of tokens that were never good, from all addresses together from which no good one has come yet: what somebody who makes them up
	// costs the API server at most. After a start it is also the pace at which nodes get to be known.
	strangersPerSecond, strangersAtOnce = 50, 250
	addressMost                         = 10000
	// provenMost is how many addresses one node's tokens can prove: as many as a node worker may have, and no more for whoever has taken a node.
	provenMost = 4
	// limiterLife is how long it is remembered that somebody asked too often, or that an address has shown a good token.
	limiterLife = time.Hour
)

// pace bounds how often the API server is asked about tokens. It is safe for concurrent use.
type pace struct {
	addresses *utilcache.LRUExpireCache // limiters, by address
	nodes     *utilcache.LRUExpireCache // limiters, by node
	strangers *rate.Limiter

	mu     sync.Mutex
	proven *utilcache.LRUExpireCache // the node whose good token has come last from an address, by address
	shown  *utilcache.LRUExpireCache // the addresses that a node's tokens have proven, the newest last, by node
}

func newPace() *pace {
	return &pace{
		addresses: utilcache.NewLRUExpireCache(addressMost), nodes: utilcache.NewLRUExpireCache(addressMost),
		proven: utilcache.NewLRUExpireCache(addressMost), shown: utilcache.NewLRUExpireCache(addressMost),
		strangers: rate.NewLimiter(strangersPerSecond, strangersAtOnce),
	}
}

// mayAsk says whether a token may be reviewed that an address shows. One that was good once, for that node ("": none was), counts for its node
// alone: whatever others show at the same address does not hold it up. Any other counts for its address, whatever else has come from there.
func (p *pace) mayAsk(host, node string) bool {
	if node != "" {
		return limiterOf(p.nodes, node, reviewsPerSecond, reviewsAtOnce).Allow()
	}
	if !limiterOf(p.addresses, host, reviewsPerSecond, reviewsAtOnce).Allow() {
		return false
	}
	if _, proven := p.proven.Get(host); proven {
		return true
	}
	return p.strangers.Allow()
}

// prove notes that a good token of a node has come from an address: its next one need not wait among strangers' there.
func (p *pace) prove(host, node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	if found, ok := p.shown.Get(node); ok {
		if before, ok := found.([]string); ok {
			all = slices.DeleteFunc(slices.Clone(before), func(h string) bool { return h == host })
		}
	}
	for all = append(all, host); len(all) > provenMost; all = all[1:] {
		if by, ok := p.proven.Get(all[0]); ok && by == node {
			p.proven.Remove(all[0])
		}
	}
	p.shown.Add(node, all, limiterLife)
	p.proven.Add(host, node, limiterLife)
}

// hostOf is the address of whoever calls, without its port.
func hostOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	host, _, err := net.SplitHostPort(p.Addr.String())
	if err != nil {
		return p.Addr.String()
	}
	return host
}

// limiterOf is the limiter of that name; two that are made at once for one name are the same as one a moment later.
func limiterOf(in *utilcache.LRUExpireCache, name string, perSecond rate.Limit, atOnce int) *rate.Limiter {
	if found, ok := in.Get(name); ok {
		if l, ok := found.(*rate.Limiter); ok {
			return l
		}
	}
	l := rate.NewLimiter(perSecond, atOnce)
	in.Add(name, l, limiterLife)
	return l
}
