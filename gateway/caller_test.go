package gateway

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
)

func ask(t *testing.T, c workflowservice.WorkflowServiceClient) error {
	t.Helper()
	_, err := c.GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
	return err
}

// TestTokens: a call without a valid token of a node worker is refused.
func TestTokens(t *testing.T) {
	hour := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		token  func(*rig) string
		reason Reason
		code   codes.Code
		asked  int // reviews
	}{
		"none":                    {func(*rig) string { return "" }, ReasonNoToken, codes.Unauthenticated, 0},
		"nonsense":                {func(*rig) string { return "nonsense" }, ReasonBadToken, codes.Unauthenticated, 0},
		"nonsense in three parts": {func(*rig) string { return "a.b.c" }, ReasonBadToken, codes.Unauthenticated, 0},
		"an endless one": {func(*rig) string {
			return strings.Repeat("x", maxToken+1)
		}, ReasonBadToken, codes.Unauthenticated, 0},
		"an expired one": {func(r *rig) string {
			return r.token(account, "node1", time.Now().Add(-time.Second), audience)
		}, ReasonExpired, codes.Unauthenticated, 0},
		"the pod's for Kubernetes": {func(r *rig) string {
			return r.token(account, "node1", hour, "https://kubernetes.default.svc")
		}, ReasonAudience, codes.Unauthenticated, 0},
		"one that is made up": {func(r *rig) string {
			return jwt(r.t, account, []string{audience}, hour, 99)
		}, ReasonBadToken, codes.Unauthenticated, 1},
		"another account's": {func(r *rig) string {
			return r.token("system:serviceaccount:default:virtflow-node-worker", "node1", hour, audience)
		}, ReasonAccount, codes.PermissionDenied, 0},
		"a tenant's": {func(r *rig) string {
			return r.token("system:serviceaccount:tenant:default", "node1", hour, audience)
		}, ReasonAccount, codes.PermissionDenied, 0},
		"a tenant's that says otherwise": {func(r *rig) string {
			token := jwt(r.t, account, []string{audience}, hour, 98)
			r.tokens[token] = r.tokens[r.token("system:serviceaccount:tenant:default", "node1", hour, audience)]
			return token
		}, ReasonAccount, codes.PermissionDenied, 1},
		"one without a signature": {func(r *rig) string {
			token := r.node("node1")
			return token[:strings.LastIndex(token, ".")+1]
		}, ReasonBadToken, codes.Unauthenticated, 0},
		"one that is bound to none": {func(r *rig) string {
			return r.token(account, "", hour, audience)
		}, ReasonNoNode, codes.PermissionDenied, 1},
		"two audiences, one of them": {func(r *rig) string {
			return r.token(account, "node1", hour, "other", audience)
		}, "", codes.OK, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			err := ask(t, r.as(c.token(r)))
			require.Equal(t, c.code, status.Code(err), "%v", err)
			require.Equal(t, c.asked, r.reviews)
			if c.reason != "" {
				require.EqualValues(t, 1, r.refusals("GetSystemInfo", c.reason))
				require.Empty(t, r.frontend.got())
			}
		})
	}
}

// TestRefusesTwoTokens: the gateway does not choose one of two.
func TestRefusesTwoTokens(t *testing.T) {
	r := newRig(t)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+r.node("node2"))
	_, err := r.as(r.node("node1")).GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	require.EqualValues(t, 1, r.refusals("GetSystemInfo", ReasonNoToken))
}

// TestTokenOfAnotherNode: a stolen token gives access to what the token's node may reach, not to what the thief's own
// node may reach.
func TestTokenOfAnotherNode(t *testing.T) {
	r := newRig(t)
	stolen := r.as(r.node("node2"))
	_, err := stolen.PollActivityTaskQueue(t.Context(), pollOf("virtflow-node-node1"))
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	_, err = stolen.SignalWorkflowExecution(t.Context(), domainSignal("vmi/default/here", podHere))
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	require.Empty(t, r.frontend.got())
	require.EqualValues(t, 1, r.refusals("PollActivityTaskQueue", ReasonTaskQueue))
	require.EqualValues(t, 1, r.refusals("SignalWorkflowExecution", ReasonWorkflow))
}

// TestRefusesExpiredAndDeletedTokens: what was good a moment ago is refused at its time, without another review, and
// after its pod is gone at the next review.
func TestRefusesExpiredAndDeletedTokens(t *testing.T) {
	r := newRig(t)
	now := time.Now()
	r.gateway.Callers.now = func() time.Time { return now }
	token := r.token(account, "node1", now.Add(time.Minute), audience)
	c := r.as(token)
	require.NoError(t, ask(t, c))
	now = now.Add(2 * time.Minute)
	require.Equal(t, codes.Unauthenticated, status.Code(ask(t, c)))
	require.EqualValues(t, 1, r.refusals("GetSystemInfo", ReasonExpired))
	require.Equal(t, 1, r.reviews)

	now = time.Now()
	r.invalidate(token)
	require.NoError(t, ask(t, c), "for a short while")
	now = now.Add(knownLife)
	require.Equal(t, codes.Unauthenticated, status.Code(ask(t, c)))
	require.EqualValues(t, 1, r.refusals("GetSystemInfo", ReasonBadToken))
	require.Equal(t, 2, r.reviews)
}

// TestReviewCountsWhileItsPodExists: an idle node costs a review in watchedLife, and its pod's end ends its token
// at once.
func TestReviewCountsWhileItsPodExists(t *testing.T) {
	r := newRig(t)
	now := time.Now()
	r.gateway.Callers.now = func() time.Time { return now }
	for _, n := range []string{"node1", "node2"} {
		r.worker(n)
	}
	token, other := r.node("node1"), r.node("node2")
	c, d := r.as(token), r.as(other)
	for range 10 {
		require.NoError(t, ask(t, c))
		require.NoError(t, ask(t, d))
		now = now.Add(watchedLife/10 - time.Second)
	}
	require.Equal(t, 2, r.reviews)
	now = now.Add(10 * time.Second)
	require.NoError(t, ask(t, c))
	require.Equal(t, 3, r.reviews, "it is never asked again")

	r.workerGoes("node1")
	r.invalidate(token)
	require.Equal(t, codes.Unauthenticated, status.Code(ask(t, c)), "its pod is gone")
	require.NoError(t, ask(t, d))
	require.Equal(t, 5, r.reviews)
}

// TestIgnoresPodOnAnotherNode: what the watch says has to be what the token says.
func TestIgnoresPodOnAnotherNode(t *testing.T) {
	r := newRig(t)
	r.worker("node1")
	require.True(t, r.workers.isOn("node1", "worker-node1"))
	require.False(t, r.workers.isOn("node2", "worker-node1"))
	require.False(t, r.workers.isOn("node1", ""))
	now := time.Now()
	require.False(t, r.workers.isValid(
		known{caller: &Caller{Node: "node2", PodUID: "worker-node1"}, at: now.Add(-knownLife)}, now))
	require.True(t, r.workers.isValid(
		known{caller: &Caller{Node: "node1", PodUID: "worker-node1"}, at: now.Add(-knownLife)}, now))
	kept, err := stripWorker(
		&corev1.Pod{Spec: corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{{Name: "c"}}}})
	require.NoError(t, err)
	require.Empty(t, kept.(*corev1.Pod).Spec.Containers)
}

// TestAPIServerUnavailable: no call is admitted without a review, none is refused as unknown, and the next call asks
// again.
func TestAPIServerUnavailable(t *testing.T) {
	r := newRig(t)
	r.down = true
	c := r.as(r.node("node1"))
	require.Equal(t, codes.Unavailable, status.Code(ask(t, c)))
	require.Empty(t, r.frontend.got())
	r.mu.Lock()
	r.down = false
	r.mu.Unlock()
	require.NoError(t, ask(t, c))
}

// TestConcurrentCallsShareOneReview: a hundred calls of a node worker that has just started.
func TestConcurrentCallsShareOneReview(t *testing.T) {
	r := newRig(t)
	c := r.as(r.node("node1"))
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			_, err := c.GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
			require.NoError(t, err)
		})
	}
	all.Wait()
	require.Less(t, r.reviews, 10)
}

// TestLimitsReviewsOfOneAddress: the API server is not asked about more of them than an address is due.
func TestLimitsReviewsOfOneAddress(t *testing.T) {
	r := newRig(t)
	hour := time.Now().Add(time.Hour)
	p := r.gateway.Callers.limiter
	p.addresses.Add("127.0.0.1", rate.NewLimiter(0.0001, 20), time.Hour)
	for i := range 50 {
		require.Error(t, ask(t, r.as(jwt(t, account, []string{audience}, hour, 1000+i))))
	}
	require.Equal(t, 20, r.reviews)
	require.EqualValues(t, 30, r.refusals("GetSystemInfo", ReasonTooManyTokens))
	require.EqualValues(t, 20, r.counter("virtflow_gateway_token_reviews_total", "refused"))
}

// TestLimitsUnauthenticatedReviews: all unauthenticated callers together have one rate limit, and it is not that of
// those who are known.
func TestLimitsUnauthenticatedReviews(t *testing.T) {
	p := newReviewLimiter()
	p.unauthenticated = rate.NewLimiter(0, 30)
	asked := 0
	for i := range 1000 {
		if p.allow(fmt.Sprintf("2001:db8::%x", i), "") {
			asked++
		}
	}
	require.Equal(t, 30, asked)
	require.True(t, p.allow("2001:db8::1:1", "node1"), "a token that was good once")
	p.markAuthenticated("10.1.2.3", "node1")
	require.True(t, p.allow("10.1.2.3", ""), "a node worker's new token")
	for p.allow("10.1.2.3", "") {
		asked++
	}
	require.LessOrEqual(t, asked, 30+2*reviewsAtOnce, "an address that is known asks without end")
}

// TestNodesAuthenticateDuringFloodOfTokens: nodes with reviews that count, that have expired, and with new tokens.
func TestNodesAuthenticateDuringFloodOfTokens(t *testing.T) {
	r := newRig(t)
	now := time.Now()
	callers := r.gateway.Callers
	callers.now = func() time.Time { return now }
	c := r.as(r.node("node1"))
	require.NoError(t, ask(t, c))
	callers.limiter.unauthenticated = rate.NewLimiter(0, 0)
	hour := now.Add(time.Hour)
	require.Equal(t, codes.ResourceExhausted, codeOf(r.from("10.9.9.9", jwt(t, account, []string{audience}, hour, 1))))
	require.NoError(t, ask(t, c))
	now = now.Add(watchedLife)
	require.NoError(t, ask(t, c), "its answer has run out")
	require.NoError(t, ask(t, r.as(r.node("node1"))), "its token has been renewed")
	require.Equal(t, 3, r.reviews)
}

// from shows a token at an address.
func (r *rig) from(host, token string) error {
	ctx := metadata.NewIncomingContext(r.t.Context(), metadata.Pairs("authorization", "Bearer "+token))
	from := &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(host), Port: 1}}
	_, err := r.gateway.Callers.Authenticate(peer.NewContext(ctx, from))
	return err
}

// TestValidTokenExemptsNoOthers: who has a good one can try no more of others at its address, nor repeat one that has
// ended; and its own answer is renewed although they have used up what the address is due.
func TestValidTokenExemptsNoOthers(t *testing.T) {
	const here, most = "10.1.1.1", 20
	r := newRig(t)
	now := time.Now()
	callers := r.gateway.Callers
	callers.now = func() time.Time { return now }
	callers.limiter.addresses.Add(here, rate.NewLimiter(0, most), time.Hour)
	hour := now.Add(time.Hour)
	good, ends := r.node("node1"), r.node("node2")
	require.NoError(t, r.from(here, good))
	require.NoError(t, r.from(here, ends))
	for i := range 3 * most {
		require.NoError(t, r.from(here, good))
		require.Error(t, r.from(here, jwt(t, account, []string{audience}, hour, 1000+i)))
	}
	require.Equal(t, most, r.reviews)

	now = now.Add(watchedLife)
	require.NoError(t, r.from(here, good), "its answer has run out")
	require.Equal(t, most+1, r.reviews)
	r.invalidate(ends)
	for range 3 {
		require.Error(t, r.from(here, ends))
		callers.refused.RemoveAll(func(any) bool { return true }) // as after refusedLife
	}
	require.Equal(t, most+2, r.reviews, "what was good once and is not any more is asked about as if it had never been")
}

// TestTokensOfOneNodeShareItsRateLimit: all tokens of one node share its rate limit, however many of them were valid,
// also while the API server does not answer.
func TestTokensOfOneNodeShareItsRateLimit(t *testing.T) {
	const most = 5
	r := newRig(t)
	now := time.Now()
	callers := r.gateway.Callers
	callers.now = func() time.Time { return now }
	var all []string
	for range 3 * most {
		all = append(all, r.node("node1"))
		require.NoError(t, r.from("10.1.1.1", all[len(all)-1]))
	}
	callers.limiter.nodes.Add("node1", rate.NewLimiter(0, most), time.Hour)
	now = now.Add(watchedLife)
	r.down = true
	asked := 0
	for i, token := range all {
		if codeOf(r.from(fmt.Sprintf("10.1.1.%d", i), token)) == codes.Unavailable {
			asked++
		}
	}
	require.Equal(t, most, asked)
}

// TestUnauthenticatedCallerDelaysNoOtherAddress: a caller that shows one forged token after the other delays no other
// address.
func TestUnauthenticatedCallerDelaysNoOtherAddress(t *testing.T) {
	const here, there = "10.1.1.1", "10.9.9.9"
	r := newRig(t)
	now := time.Now()
	callers := r.gateway.Callers
	callers.now = func() time.Time { return now }
	good := r.node("node1")
	require.NoError(t, r.from(here, good))
	callers.limiter.addresses.Add(there, rate.NewLimiter(0, 10), time.Hour)
	callers.limiter.unauthenticated = rate.NewLimiter(0, 10)
	for i := range 100 {
		require.Error(t, r.from(there, jwt(t, account, []string{audience}, now.Add(time.Hour), 1000+i)))
	}
	require.Equal(t, 11, r.reviews)
	require.NoError(t, r.from(here, good))
	now = now.Add(watchedLife)
	require.NoError(t, r.from(here, good), "its answer has run out")
	require.NoError(t, r.from(here, r.node("node1")), "its token has been renewed")
	require.Equal(t, 13, r.reviews)
}

// TestNodeAuthenticatesFewAddresses: a caller with a node's tokens and many addresses does not evade the rate limit of
// unauthenticated callers from all of them.
func TestNodeAuthenticatesFewAddresses(t *testing.T) {
	p := newReviewLimiter()
	p.unauthenticated = rate.NewLimiter(0, 0)
	at := func(i int) string { return fmt.Sprintf("2001:db8::%x", i) }
	p.markAuthenticated("10.1.1.2", "node2")
	p.markAuthenticated(at(1), "node2")
	for i := range 100 {
		p.markAuthenticated(at(i), "node1")
	}
	p.markAuthenticated(at(1), "node2")
	p.markAuthenticated(at(100), "node1")
	var authenticated []int
	for i := range 101 {
		if p.allow(at(i), "") {
			authenticated = append(authenticated, i)
		}
	}
	require.Equal(t, []int{1, 97, 98, 99, 100}, authenticated)
	require.True(t, p.allow("10.1.1.2", ""))
}

func codeOf(err error) codes.Code {
	var r *Refusal
	if errors.As(err, &r) {
		return r.GRPCStatus().Code()
	}
	return status.Code(err)
}

// invalidate makes a token one that the API server does not know any more.
func (r *rig) invalidate(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens[token] = authenticationv1.TokenReviewStatus{Error: "service account token has been invalidated"}
}
