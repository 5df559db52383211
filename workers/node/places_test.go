package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/launchertest"
	"github.com/virtflow/virtflow/workflows/contract"
)

func TestPlaces(t *testing.T) {
	p := places{kind: "start", most: 3, inPod: 2}
	leave := func(l func(), err error) func() {
		t.Helper()
		require.NoError(t, err)
		return l
	}
	first := leave(p.take("a"))
	leave(p.take("a"))
	_, err := p.take("a")
	require.ErrorContains(t, err, "an earlier start in pod a")
	leave(p.take("b"))
	_, err = p.take("c")
	require.ErrorContains(t, err, "a start of 3 pods")
	first()
	leave(p.take("c"))
	require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, p.pods)
}

// TestLaunchersThatHang keep nobody else's guest from being started, or from being operated on.
func TestLaunchersThatHang(t *testing.T) {
	s := newScene(t)
	starter, ok := s.activities.Operator.(*Starter)
	require.True(t, ok)
	operation := contract.OperateDomainInput{VMI: input.VMI, Pod: input.Pod, Operation: contract.OperationPause}
	asked, goOn := make(chan struct{}, 1), make(chan struct{})
	s.launcher.Operation = func(context.Context, *rpc.OperateRequest) (*rpc.Domain, error) {
		asked <- struct{}{}
		<-goOn
		return s.launcher.Become(rpc.DomainState_DOMAIN_STATE_PAUSED), nil
	}
	launchertest.Serve(t, s.node.AddPod(t, pod), s.launcher)
	hangs := make(chan error, 1)
	go func() { _, err := s.activities.OperateDomain(context.Background(), operation); hangs <- err }()
	<-asked
	_, err := s.activities.OperateDomain(context.Background(), operation)
	require.ErrorContains(t, err, "an earlier operation in pod "+pod)
	requireKind(t, err, contract.ErrorNoLauncher, false)
	_, err = s.activities.StartDomain(context.Background(), input)
	require.NoError(t, err)
	close(goOn)
	require.NoError(t, <-hangs)

	fill := func(p *places) (empty func()) {
		var all []func()
		for i := range p.most {
			leave, err := p.take(fmt.Sprintf("hangs-%d", i))
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
	requireKind(t, err, contract.ErrorNoLauncher, false)
	_, err = s.activities.StartDomain(context.Background(), input)
	require.NoError(t, err, "launchers that hang when they are operated on keep guests from starting")
	empty()
	fill(&starter.starts)
	_, err = s.activities.StartDomain(context.Background(), input)
	requireKind(t, err, contract.ErrorNoLauncher, false)
	_, err = s.activities.OperateDomain(context.Background(), operation)
	require.NoError(t, err, "launchers that hang when they start keep others from being operated on")
}

// TestBudgetsNest: whoever waits outside waits longer than whoever works inside.
func TestBudgetsNest(t *testing.T) {
	// Kubernetes' API server gives up a request after this time, unless it is told otherwise.
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
