package gateway

import (
	"context"
	"net"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/peer"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
)

const (
	// Reviews that one address may cause. A node worker needs one in minutes; where addresses are translated on the way, one may stand for many.
	reviewsPerSecond, reviewsAtOnce = 10, 50
	// Reviews of tokens that were never good, from all addresses together from which no good one has come yet: what somebody who makes them up
	// costs the API server at most. After a start it is also the pace at which nodes get to be known.
	strangersPerSecond, strangersAtOnce = 50, 250
	addressMost                         = 10000
	// limiterLife is how long it is remembered that somebody asked too often, or that an address has shown a good token.
	limiterLife = time.Hour
)

// pace bounds how often the API server is asked about tokens. It is safe for concurrent use.
type pace struct {
	addresses *utilcache.LRUExpireCache // limiters
	proven    *utilcache.LRUExpireCache // addresses from which a good token has come
	strangers *rate.Limiter
}

func newPace() *pace {
	return &pace{
		addresses: utilcache.NewLRUExpireCache(addressMost), proven: utilcache.NewLRUExpireCache(addressMost),
		strangers: rate.NewLimiter(strangersPerSecond, strangersAtOnce),
	}
}

// mayAsk says whether a token may be reviewed that an address shows. One that was good once is asked about whatever strangers do.
func (p *pace) mayAsk(host string, goodOnce bool) bool {
	if !limiterOf(p.addresses, host, reviewsPerSecond, reviewsAtOnce).Allow() {
		return false
	}
	if _, proven := p.proven.Get(host); proven || goodOnce {
		return true
	}
	return p.strangers.Allow()
}

// prove notes that a good token has come from an address.
func (p *pace) prove(host string) { p.proven.Add(host, true, limiterLife) }

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
