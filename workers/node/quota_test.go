package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/launchertest"
)

func object(namespace, uid string) contract.Object {
	return contract.Object{Namespace: namespace, UID: uid}
}

func TestQuota(t *testing.T) {
	q := quota{kind: "start", most: 5, inPod: 2}
	take := func(namespace, pod string) (func(), error) {
		return q.acquire(object(namespace, "vmi"), object(namespace, pod))
	}
	leave := func(l func(), err error) func() {
		t.Helper()
		require.NoError(t, err)
		return l
	}
	first := leave(take("n", "a"))
	second := leave(take("n", "a"))
	_, err := take("n", "a")
	require.ErrorContains(t, err, "an earlier start in pod a")
	_, err = take("n", "b")
	require.ErrorContains(t, err, "has 2 starts in progress for namespace n", "more than half")
	leave(take("o", "b"))
	leave(take("o", "c"))
	leave(take("p", "d"))
	_, err = take("q", "e")
	require.ErrorContains(t, err, "has 5 starts in progress")
	first()
	leave(take("q", "e"))
	second()
	leave(take("n", "b"))

	var none quota
	_, err = none.acquire(object("n", "vmi"), object("n", "a"))
	require.Error(t, err)
}

// TestHangingNamespaceDoesNotBlockOthers: a hanging namespace leaves half of a node's quota of starts and of operations
// to the others.
func TestHangingNamespaceDoesNotBlockOthers(t *testing.T) {
	s := newScene(t)
	starter, ok := s.activities.Operator.(*Starter)
	require.True(t, ok)
	s.launcher.Operation = func(context.Context, *rpc.OperateRequest) (*rpc.Domain, error) {
		return s.launcher.Become(rpc.DomainState_DOMAIN_STATE_PAUSED), nil
	}
	launchertest.Serve(t, s.node.AddPod(t, pod), s.launcher)
	for _, q := range []*quota{&starter.starts, &starter.operations} {
		taken := 0
		for i := range q.most {
			if _, err := q.acquire(object("hangs", "vmi"), object("hangs", fmt.Sprintf("hangs-%d", i))); err == nil {
				taken++
			}
		}
		require.Equal(t, q.most/2, taken)
	}
	operation := contract.OperateDomainInput{VMI: input.VMI, Pod: input.Pod, Operation: contract.OperationPause}
	_, err := s.activities.StartDomain(context.Background(), input)
	require.NoError(t, err)
	_, err = s.activities.OperateDomain(context.Background(), operation)
	require.NoError(t, err)
	theirs := input
	theirs.VMI.Namespace = "hangs"
	_, err = s.activities.StartDomain(context.Background(), theirs)
	requireKind(t, err, contract.ErrorNoLauncher, false)
	operation.VMI.Namespace = "hangs"
	_, err = s.activities.OperateDomain(context.Background(), operation)
	requireKind(t, err, contract.ErrorNotBegun, true)
	require.ErrorContains(t, err, "for namespace hangs")
}

// TestHangingLaunchersBlockNoOthers: while launchers hang, other guests can be started and operated on.
func TestHangingLaunchersBlockNoOthers(t *testing.T) {
	s := newScene(t)
	starter, ok := s.activities.Operator.(*Starter)
	require.True(t, ok)
	operation := contract.OperateDomainInput{VMI: input.VMI, Pod: input.Pod, Operation: contract.OperationPause}
	asked, proceed := make(chan struct{}, 1), make(chan struct{})
	s.launcher.Operation = func(context.Context, *rpc.OperateRequest) (*rpc.Domain, error) {
		asked <- struct{}{}
		<-proceed
		return s.launcher.Become(rpc.DomainState_DOMAIN_STATE_PAUSED), nil
	}
	launchertest.Serve(t, s.node.AddPod(t, pod), s.launcher)
	hangs := make(chan error, 1)
	go func() { _, err := s.activities.OperateDomain(context.Background(), operation); hangs <- err }()
	<-asked
	_, err := s.activities.OperateDomain(context.Background(), operation)
	require.ErrorContains(t, err, "an earlier operation in pod "+pod)
	requireKind(t, err, contract.ErrorNotBegun, true)
	_, err = s.activities.StartDomain(context.Background(), input)
	require.NoError(t, err)
	close(proceed)
	require.NoError(t, <-hangs)

	fill := func(q *quota) (empty func()) {
		var all []func()
		for i := range q.most {
			leave, err := q.acquire(object(fmt.Sprintf("hang-%d", i%3), "vmi"), object("", fmt.Sprintf("hangs-%d", i)))
			require.NoError(t, err)
			all = append(all, leave)
		}
		return func() {
			for _, leave := range all {
				leave()
			}
		}
	}
	empty := fill(&starter.operations)
	_, err = s.activities.OperateDomain(context.Background(), operation)
	requireKind(t, err, contract.ErrorNotBegun, true)
	_, err = s.activities.StartDomain(context.Background(), input)
	require.NoError(t, err, "launchers that hang when they are operated on keep guests from starting")
	empty()
	fill(&starter.starts)
	_, err = s.activities.StartDomain(context.Background(), input)
	requireKind(t, err, contract.ErrorNoLauncher, false)
	_, err = s.activities.OperateDomain(context.Background(), operation)
	require.NoError(t, err, "launchers that hang when they start keep others from being operated on")
}

// TestBudgetsNest: an outer timeout is longer than the inner ones.
func TestBudgetsNest(t *testing.T) {
	// Kubernetes' API server gives up a request after this time, unless configured otherwise.
	const apiServer = time.Minute
	// A guest has as long as its launcher gives it, and what was done has to show; see package launcher.
	inside := []time.Duration{rpc.GuestAnswers + rpc.OutcomeShows, rpc.OperationAnswered, contract.OperationOnNode}
	for i := 1; i < len(inside); i++ {
		require.Less(t, inside[i-1], inside[i])
	}
	require.Less(t, contract.OperationQueued+contract.OperationOnNode, contract.OperationLimit)
	require.Less(t, contract.OperationLimit, contract.OperationAnswered)
	require.Less(t, contract.OperationAccepted+contract.OperationAnswered, apiServer)
	require.Greater(t, drainTimeout, contract.OperationOnNode, "a worker that stops finishes what it has in hand")
}
