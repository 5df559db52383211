package gateway

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
)

func ask(t *testing.T, c workflowservice.WorkflowServiceClient) error {
	t.Helper()
	_, err := c.GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
	return err
}

// TestTokens: whoever cannot show a good token of a node worker gets nothing.
func TestTokens(t *testing.T) {
	hour := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		token  func(*rig) string
		reason Reason
		code   codes.Code
		asked  int // reviews
	}{
		"none":                     {func(*rig) string { return "" }, ReasonNoToken, codes.Unauthenticated, 0},
		"nonsense":                 {func(*rig) string { return "nonsense" }, ReasonBadToken, codes.Unauthenticated, 0},
		"nonsense in three parts":  {func(*rig) string { return "a.b.c" }, ReasonBadToken, codes.Unauthenticated, 0},
		"an endless one":           {func(*rig) string { return strings.Repeat("x", maxToken+1) }, ReasonBadToken, codes.Unauthenticated, 0},
		"an expired one":           {func(r *rig) string { return r.token(account, "node1", time.Now().Add(-time.Second), audience) }, ReasonExpired, codes.Unauthenticated, 0},
		"the pod's for Kubernetes": {func(r *rig) string { return r.token(account, "node1", hour, "https://kubernetes.default.svc") }, ReasonAudience, codes.Unauthenticated, 0},
		"one that is made up":      {func(r *rig) string { return jwt(r.t, []string{audience}, hour, 99) }, ReasonBadToken, codes.Unauthenticated, 1},
		"another account's": {func(r *rig) string {
			return r.token("system:serviceaccount:default:virtflow-node-worker", "node1", hour, audience)
		}, ReasonAccount, codes.PermissionDenied, 1},
		"a tenant's":                 {func(r *rig) string { return r.token("system:serviceaccount:tenant:default", "node1", hour, audience) }, ReasonAccount, codes.PermissionDenied, 1},
		"one that is bound to none":  {func(r *rig) string { return r.token(account, "", hour, audience) }, ReasonNoNode, codes.PermissionDenied, 1},
		"two audiences, one of them": {func(r *rig) string { return r.token(account, "node1", hour, "other", audience) }, "", codes.OK, 1},
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

// TestTwoTokens: nobody chooses which of two counts.
func TestTwoTokens(t *testing.T) {
	r := newRig(t)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+r.node("node2"))
	_, err := r.as(r.node("node1")).GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	require.EqualValues(t, 1, r.refusals("GetSystemInfo", ReasonNoToken))
}

// TestAnotherNodesToken opens what that node may reach, not what the thief's own node may.
func TestAnotherNodesToken(t *testing.T) {
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

// TestATokenEnds: what was good a moment ago is refused at its time, without another review, and after its pod is gone at the next review.
func TestATokenEnds(t *testing.T) {
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
	r.mu.Lock()
	r.tokens[token] = authenticationv1.TokenReviewStatus{Error: "service account token has been invalidated"}
	r.mu.Unlock()
	require.NoError(t, ask(t, c), "for a short while")
	r.gateway.Callers.known.RemoveAll(func(any) bool { return true })
	require.Equal(t, codes.Unauthenticated, status.Code(ask(t, c)))
	require.EqualValues(t, 1, r.refusals("GetSystemInfo", ReasonBadToken))
}

// TestTheAPIServerIsAway: nobody is let in unseen, nobody is told that it is not known, and it is asked again.
func TestTheAPIServerIsAway(t *testing.T) {
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

// TestManyAtOnceAreOneReview: a hundred calls of a node worker that has just started.
func TestManyAtOnceAreOneReview(t *testing.T) {
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

// TestMadeUpTokens: the API server is not asked about more of them than an address is due.
func TestMadeUpTokens(t *testing.T) {
	r := newRig(t)
	hour := time.Now().Add(time.Hour)
	r.gateway.Callers.addresses.Add("127.0.0.1", limiterOf(r.gateway.Callers.addresses, "x", 0.0001, 20), time.Hour)
	for i := range 50 {
		require.Error(t, ask(t, r.as(jwt(t, []string{audience}, hour, 1000+i))))
	}
	require.Equal(t, 20, r.reviews)
	require.EqualValues(t, 30, r.refusals("GetSystemInfo", ReasonTooMany))
}
