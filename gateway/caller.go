package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
)

// Kubernetes' extra fields of a token that is bound to a node, or to a pod on one (since 1.30).
const (
	extraNode   = "authentication.kubernetes.io/node-name"
	extraPod    = "authentication.kubernetes.io/pod-name"
	extraPodUID = "authentication.kubernetes.io/pod-uid"
)

const (
	// watchedLife is how long an answer of the API server counts whose pod is in the informer. The watch reports at
	// once when that pod is deleted, so this bounds what no watch reports, such as a deleted service account. An idle
	// node costs one review in that time.
	watchedLife = 5 * time.Minute
	// knownLife is how long an answer counts without such a pod. A token that is bound to something else works for that
	// long after the other object is deleted.
	knownLife = 30 * time.Second
	// rememberLife is how long the gateway remembers that a token was valid once.
	rememberLife = time.Hour
	// refusedLife is how long a refusal counts. It is short: a token that was not valid a moment ago may be by now.
	refusedLife = 5 * time.Second
	maxKnown    = 10000
	// A node worker's token has some 1.3 KB.
	maxToken      = 8 << 10
	reviewTimeout = 10 * time.Second
)

// Caller is the node that a token authenticates.
type Caller struct {
	Node   string
	Pod    string // the node worker's; "" for a token that is bound to the node itself
	PodUID string
}

// Callers authenticates nodes by their tokens. It is safe for concurrent use.
type Callers struct {
	reviews  kubernetes.Interface
	workers  *Workers
	audience string
	user     string
	now      func() time.Time

	// Keyed by the token's hash, because no token is kept: known has those that were valid, refused has a *Refusal of
	// others. They are separate, so that many invalid ones evict no valid one.
	known   *utilcache.LRUExpireCache
	refused *utilcache.LRUExpireCache
	limiter *reviewLimiter
	flight  singleflight.Group
	asked   *prometheus.CounterVec
	own     ownToken
}

// NewCallers makes a Callers for the tokens of one service account that were made for one audience. The registry may be
// nil.
func NewCallers(
	c kubernetes.Interface, w *Workers, audience, namespace, account string, r prometheus.Registerer,
) *Callers {
	out := &Callers{
		reviews: c, workers: w, audience: audience, user: "system:serviceaccount:" + namespace + ":" + account,
		now:   time.Now,
		own:   ownToken{refused: make(chan error, 1)},
		known: utilcache.NewLRUExpireCache(maxKnown), refused: utilcache.NewLRUExpireCache(maxKnown),
		limiter: newReviewLimiter(),
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "virtflow_gateway_token_reviews_total",
			Help: "TokenReviews by answer: known, refused or error.",
		}, []string{"answer"}),
	}
	if r != nil {
		r.MustRegister(out.asked)
	}
	return out
}

// claims has the claims of a token that precheck reads. They can only refuse a token, never admit one.
type claims struct {
	Audience any     `json:"aud"`
	Subject  string  `json:"sub"`
	Expires  float64 `json:"exp"`
}

// Authenticate returns the node that a call comes from.
func (c *Callers) Authenticate(ctx context.Context) (*Caller, error) {
	token, refusal := bearer(ctx)
	if refusal != nil {
		return nil, refusal
	}
	if refusal := c.precheck(token); refusal != nil {
		return nil, refusal
	}
	key := sha256.Sum256([]byte(token))
	before, goodOnce := c.lastKnown(key)
	if goodOnce && c.workers.isValid(before, c.now()) {
		return before.caller, nil
	}
	if last, ok := c.refused.Get(key); ok {
		return callerOf(last)
	}
	host, node := hostOf(ctx), ""
	if goodOnce {
		node = before.caller.Node
	}
	if !c.limiter.allow(host, node) {
		return nil, refuse(ReasonTooManyTokens, "too many unknown tokens: retry later")
	}
	answer, err, _ := c.flight.Do(string(key[:]), func() (any, error) {
		// The review serves all callers that wait for it, so it outlives the first of them.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		return c.find(ctx, token, key, host)
	})
	if err != nil {
		return nil, err
	}
	return callerOf(answer)
}

// lastKnown returns the last answer that a token is valid. That answer may have expired.
func (c *Callers) lastKnown(key [sha256.Size]byte) (known, bool) {
	found, ok := c.known.Get(key)
	if !ok {
		return known{}, false
	}
	k, ok := found.(known)
	return k, ok
}

// find reviews a token and remembers the answer.
func (c *Callers) find(ctx context.Context, token string, key [sha256.Size]byte, host string) (any, error) {
	at := c.now()
	answer, err := c.review(ctx, token)
	switch a := answer.(type) {
	case *Caller:
		c.asked.WithLabelValues("known").Inc()
		c.known.Add(key, known{caller: a, at: at, watched: c.workers.isOn(a.Node, a.PodUID)}, rememberLife)
		c.refused.Remove(key)
		c.limiter.markAuthenticated(host, a.Node)
	case *Refusal:
		c.asked.WithLabelValues("refused").Inc()
		c.known.Remove(key)
		c.refused.Add(key, a, refusedLife)
	default:
		c.asked.WithLabelValues("error").Inc()
	}
	return answer, err
}

// callerOf converts the answer of a review: a Caller, or a Refusal as error.
func callerOf(answer any) (*Caller, error) {
	switch a := answer.(type) {
	case *Caller:
		return a, nil
	case *Refusal:
		return nil, a
	default:
		return nil, status.Error(codes.Internal, "node gateway: no answer")
	}
}

// bearer returns the token of a call.
func bearer(ctx context.Context) (string, *Refusal) {
	md, _ := metadata.FromIncomingContext(ctx)
	all := md.Get("authorization")
	if len(all) != 1 {
		return "", refuse(ReasonNoToken,
			"a call needs one authorization header with a node worker's service-account token")
	}
	scheme, token, _ := strings.Cut(all[0], " ")
	if !strings.EqualFold(scheme, "bearer") || token == "" {
		return "", refuse(ReasonNoToken,
			"a call needs one authorization header with a node worker's service-account token")
	}
	if len(token) > maxToken {
		return "", refuse(ReasonBadToken, "the token is longer than %d bytes", maxToken)
	}
	return token, nil
}

// precheck refuses tokens that need no review.
func (c *Callers) precheck(token string) *Refusal {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return refuse(ReasonBadToken, "the bearer token is not a service-account token")
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	var said claims
	if err != nil || json.Unmarshal(body, &said) != nil {
		return refuse(ReasonBadToken, "the bearer token is not a service-account token")
	}
	if !c.hasAudience(said.Audience) {
		return refuse(ReasonAudience, "the token is not for the audience %s", c.audience)
	}
	if said.Subject != c.user {
		return refuse(ReasonAccount, "the token is that of %.128q, not of %s", said.Subject, c.user)
	}
	if signature, err := base64.RawURLEncoding.DecodeString(parts[2]); err != nil || len(signature) == 0 {
		return refuse(ReasonBadToken, "the bearer token is not a service-account token")
	}
	// A token that is still in the cache ends on time, too.
	if float64(c.now().Unix()) >= said.Expires {
		return refuse(ReasonExpired, "the token has expired")
	}
	return nil
}

// hasAudience reports whether the aud claim, a string or a list, has the gateway's audience.
func (c *Callers) hasAudience(audience any) bool {
	switch a := audience.(type) {
	case string:
		return a == c.audience
	case []any:
		return slices.Contains(a, any(c.audience))
	default:
		return false
	}
}

// review asks the API server, which checks signature, expiry, audience, and that the account, the pod and the node
// still exist. It returns a *Caller or a *Refusal.
func (c *Callers) review(ctx context.Context, token string) (any, error) {
	r, err := c.reviews.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{c.audience}},
	}, metav1.CreateOptions{})
	c.own.observe(err, c.now())
	if err != nil {
		return nil, status.Error(codes.Unavailable,
			fmt.Sprintf("node gateway: the token could not be reviewed: %v", err))
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
		return refuse(ReasonBadToken, "the API server does not know that token (any more)"), nil
	case !slices.Contains(r.Status.Audiences, c.audience):
		return refuse(ReasonAudience, "the token is not for the audience %s", c.audience), nil
	case r.Status.User.Username != c.user:
		return refuse(ReasonAccount, "the token is that of %.128q, not of %s", r.Status.User.Username, c.user), nil
	case caller.Node == "":
		return refuse(ReasonNoNode, "the token is not bound to a node, nor to a pod on one"), nil
	}
	return caller, nil
}
