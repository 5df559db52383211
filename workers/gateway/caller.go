package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
)

// What Kubernetes says of a token that is bound to a node, or to a pod on one (since 1.30).
const (
	extraNode   = "authentication.kubernetes.io/node-name"
	extraPod    = "authentication.kubernetes.io/pod-name"
	extraPodUID = "authentication.kubernetes.io/pod-uid"
)

const (
	// knownLife is how long an answer of the API server counts: so long a deleted pod's token still works.
	knownLife = 30 * time.Second
	// refusedLife is shorter, as a node that was not known a moment ago may be now.
	refusedLife = 5 * time.Second
	knownMost   = 10000
	// A node worker's token has some 1.3 KB.
	maxToken      = 8 << 10
	reviewTimeout = 10 * time.Second
	// Reviews that one address may cause. A node worker needs one every half minute; where addresses are translated on the way, one may stand
	// for many.
	reviewsPerSecond, reviewsAtOnce = 20, 200
	addressMost                     = 10000
	// limiterLife is how long it is remembered that somebody asked too often.
	limiterLife = time.Hour
)

// Caller is a node, as the API server knows it.
type Caller struct {
	Node   string
	Pod    string // the node worker's; "" for a token that is bound to the node itself
	PodUID string
}

// Callers knows nodes by their tokens. It is safe for concurrent use.
type Callers struct {
	reviews  kubernetes.Interface
	audience string
	user     string
	now      func() time.Time

	// known has *Caller or *Refusal by the token's hash: no token is kept.
	known     *utilcache.LRUExpireCache
	addresses *utilcache.LRUExpireCache
	flight    singleflight.Group
}

// NewCallers makes a Callers for the tokens of one service account that were made for one audience.
func NewCallers(c kubernetes.Interface, audience, namespace, account string) *Callers {
	return &Callers{
		reviews: c, audience: audience, user: "system:serviceaccount:" + namespace + ":" + account, now: time.Now,
		known: utilcache.NewLRUExpireCache(knownMost), addresses: utilcache.NewLRUExpireCache(addressMost),
	}
}

// claims are what a token says of itself. They are believed only where they speak against it.
type claims struct {
	Audience any     `json:"aud"`
	Expires  float64 `json:"exp"`
}

// Of says which node a call comes from.
func (c *Callers) Of(ctx context.Context) (*Caller, error) {
	token, refusal := bearer(ctx)
	if refusal != nil {
		return nil, refusal
	}
	if refusal := c.glance(token); refusal != nil {
		return nil, refusal
	}
	key := sha256.Sum256([]byte(token))
	if known, ok := c.known.Get(key); ok {
		return unpack(known)
	}
	if !c.mayAsk(ctx) {
		return nil, refuse(ReasonTooMany, "too many tokens were shown from this address")
	}
	answer, err, _ := c.flight.Do(string(key[:]), func() (any, error) {
		// For all who wait for it, whoever of them goes away.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		caller, err := c.review(ctx, token)
		if err != nil {
			return nil, err
		}
		life := knownLife
		if _, ok := caller.(*Refusal); ok {
			life = refusedLife
		}
		c.known.Add(key, caller, life)
		return caller, nil
	})
	if err != nil {
		return nil, err
	}
	return unpack(answer)
}

func unpack(answer any) (*Caller, error) {
	switch a := answer.(type) {
	case *Caller:
		return a, nil
	case *Refusal:
		return nil, a
	default:
		return nil, status.Error(codes.Internal, "node gateway: no answer")
	}
}

// bearer is the token of a call.
func bearer(ctx context.Context) (string, *Refusal) {
	md, _ := metadata.FromIncomingContext(ctx)
	all := md.Get("authorization")
	if len(all) != 1 {
		return "", refuse(ReasonNoToken, "a call needs one authorization header with a node worker's service-account token")
	}
	scheme, token, _ := strings.Cut(all[0], " ")
	if !strings.EqualFold(scheme, "bearer") || token == "" {
		return "", refuse(ReasonNoToken, "a call needs one authorization header with a node worker's service-account token")
	}
	if len(token) > maxToken {
		return "", refuse(ReasonBadToken, "the token is longer than %d bytes", maxToken)
	}
	return token, nil
}

// glance refuses what the API server need not be asked about.
func (c *Callers) glance(token string) *Refusal {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return refuse(ReasonBadToken, "that is not a service-account token")
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	var said claims
	if err != nil || json.Unmarshal(body, &said) != nil {
		return refuse(ReasonBadToken, "that is not a service-account token")
	}
	if !c.forUs(said.Audience) {
		return refuse(ReasonAudience, "the token is not for the audience %s", c.audience)
	}
	// Also what was known a moment ago ends on time.
	if float64(c.now().Unix()) >= said.Expires {
		return refuse(ReasonExpired, "the token has expired")
	}
	return nil
}

func (c *Callers) forUs(audience any) bool {
	switch a := audience.(type) {
	case string:
		return a == c.audience
	case []any:
		return slices.Contains(a, any(c.audience))
	default:
		return false
	}
}

// mayAsk bounds how many reviews one address causes: a token that is made up costs the API server one.
func (c *Callers) mayAsk(ctx context.Context) bool {
	host := ""
	if p, ok := peer.FromContext(ctx); ok {
		host, _, _ = net.SplitHostPort(p.Addr.String())
	}
	return limiterOf(c.addresses, host, reviewsPerSecond, reviewsAtOnce).Allow()
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

// review asks the API server, which checks signature, expiry, audience, and that the account, the pod and the node still exist. It answers
// with a *Caller or a *Refusal.
func (c *Callers) review(ctx context.Context, token string) (any, error) {
	r, err := c.reviews.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{c.audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, status.Error(codes.Unavailable, fmt.Sprintf("node gateway: the token could not be reviewed: %v", err))
	}
	one := func(key string) string {
		if v := r.Status.User.Extra[key]; len(v) == 1 {
			return v[0]
		}
		return ""
	}
	caller := &Caller{Node: one(extraNode), Pod: one(extraPod), PodUID: one(extraPodUID)}
	switch {
	case !r.Status.Authenticated:
		return refuse(ReasonBadToken, "the API server does not know that token, or not any more"), nil
	case !slices.Contains(r.Status.Audiences, c.audience):
		return refuse(ReasonAudience, "the token is not for the audience %s", c.audience), nil
	case r.Status.User.Username != c.user:
		return refuse(ReasonAccount, "the token is that of %.128q, not of %s", r.Status.User.Username, c.user), nil
	case caller.Node == "":
		return refuse(ReasonNoNode, "the token is not bound to a node, nor to a pod on one"), nil
	}
	return caller, nil
}
