package node

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	activities "github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/forward"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/launchertest"
	"github.com/virtflow/virtflow/workers/node/records"
)

const pod = "3f2a9c1e-0b5d-4c6e-8f70-112233445566"

var input = contract.StartDomainInput{
	VMI: contract.Object{Namespace: "default", Name: "web", UID: "u1"},
	Pod: contract.Object{Namespace: "default", Name: "virt-launcher-web-x", UID: pod},
}

type scene struct {
	node       launchertest.Node
	launcher   *launchertest.Launcher
	store      *records.Store
	activities *activities.Activities
	mu         sync.Mutex
	prepared   []int // PIDs
	refuse     error // of the network
}

func newScene(t *testing.T) *scene {
	s := &scene{node: launchertest.NewNode(t), launcher: launchertest.NewLauncher()}
	var err error
	s.store, err = records.Open(t.TempDir())
	require.NoError(t, err)
	starter := NewStarter(zerolog.Nop(), s.node.Dialer(),
		forward.New(forward.Options{Log: zerolog.Nop(), Records: s.store}, nil),
		func(_ context.Context, l *launchers.Launcher) ([]launchers.Interface, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.prepared = append(s.prepared, l.Peer.PID)
			return []launchers.Interface{{Tap: "tap0"}}, s.refuse
		})
	s.activities = &activities.Activities{Starter: starter, Operator: starter}
	return s
}

func TestStartDomain(t *testing.T) {
	s := newScene(t)
	var known []records.Record
	s.launcher.Start = func(_ context.Context, r *rpc.StartDomainRequest) (*rpc.Domain, error) {
		require.Equal(t, "tap0", r.GetInterfaces()[0].GetTap())
		known, _ = s.store.Load() // before the domain starts
		return s.launcher.Become(rpc.DomainState_DOMAIN_STATE_RUNNING), nil
	}
	launchertest.Serve(t, s.node.AddPod(t, pod), s.launcher)
	for i := range uint64(2) {
		r, err := s.activities.StartDomain(context.Background(), input)
		require.NoError(t, err)
		require.Equal(t, contract.DomainObservation{PodUID: pod, Sequence: i + 1, State: contract.DomainRunning},
			r.Domain)
		require.Len(t, known, 1)
		require.Equal(t, input.VMI, known[0].VMI)
	}
	require.Len(t, s.prepared, 2)
}

// TestBootsGuestOnce: a launcher that was restarted in its pod ends; its guest may run elsewhere by now.
func TestBootsGuestOnce(t *testing.T) {
	s := newScene(t)
	ended := 0
	s.launcher.Operation = func(_ context.Context, r *rpc.OperateRequest) (*rpc.Domain, error) {
		require.Equal(t, rpc.Operation_OPERATION_END, r.GetOperation())
		ended++
		return &rpc.Domain{}, nil
	}
	launchertest.Serve(t, s.node.AddPod(t, pod), s.launcher)
	again := input
	again.Booted = true
	r, err := s.activities.StartDomain(context.Background(), again)
	require.NoError(t, err)
	require.Equal(t, contract.DomainObservation{PodUID: pod, Sequence: 1, State: contract.DomainCrashed,
		Reason: contract.ReasonCrashed}, r.Domain)
	require.Equal(t, 1, ended)
	require.Zero(t, s.launcher.Starts())

	s.launcher.Become(rpc.DomainState_DOMAIN_STATE_RUNNING)
	r, err = s.activities.StartDomain(context.Background(), again)
	require.NoError(t, err)
	require.Equal(t, contract.DomainRunning, r.Domain.State)
	require.Equal(t, 1, ended)
}

func TestStartDomainWaitsForTheSocket(t *testing.T) {
	s := newScene(t)
	socket := s.node.AddPod(t, pod)
	var done sync.WaitGroup
	done.Go(func() {
		_, err := s.activities.StartDomain(context.Background(), input)
		require.NoError(t, err)
	})
	launchertest.Serve(t, socket, s.launcher)
	done.Wait()
}

func TestWorksOncePerPod(t *testing.T) {
	s := newScene(t)
	asked, proceed := make(chan struct{}), make(chan struct{})
	s.launcher.Start = func(context.Context, *rpc.StartDomainRequest) (*rpc.Domain, error) {
		asked <- struct{}{}
		<-proceed
		return s.launcher.Become(rpc.DomainState_DOMAIN_STATE_RUNNING), nil
	}
	launchertest.Serve(t, s.node.AddPod(t, pod), s.launcher)
	var done sync.WaitGroup
	done.Go(func() {
		_, err := s.activities.StartDomain(context.Background(), input)
		require.NoError(t, err)
	})
	<-asked
	late, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := s.activities.StartDomain(late, input)
	require.ErrorContains(t, err, "waiting for an earlier start")
	require.Equal(t, 1, s.launcher.Starts())
	close(proceed)
	done.Wait()
}

func TestStartDomainErrors(t *testing.T) {
	answer := func(c codes.Code) func(*scene) {
		return func(s *scene) {
			s.launcher.Start = func(context.Context, *rpc.StartDomainRequest) (*rpc.Domain, error) {
				return nil, status.Error(c, "no")
			}
		}
	}
	for name, c := range map[string]struct {
		prepare func(*scene)
		kind    string
		final   bool
	}{
		"the VMI makes no domain":   {answer(codes.InvalidArgument), contract.ErrorStartFailed, true},
		"libvirt refuses":           {answer(codes.FailedPrecondition), contract.ErrorStartFailed, true},
		"the launcher is in a mess": {answer(codes.Internal), contract.ErrorNoLauncher, false},
		"no network": {func(s *scene) {
			s.refuse = errors.New("pod link (eth0) is missing")
		}, contract.ErrorNoLauncher, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			c.prepare(s)
			launchertest.Serve(t, s.node.AddPod(t, pod), s.launcher)
			_, err := s.activities.StartDomain(context.Background(), input)
			requireKind(t, err, c.kind, c.final)
		})
	}
	t.Run("no pod", func(t *testing.T) {
		_, err := newScene(t).activities.StartDomain(context.Background(), input)
		requireKind(t, err, contract.ErrorNoLauncher, false)
	})
	t.Run("no identity", func(t *testing.T) {
		_, err := newScene(t).activities.StartDomain(context.Background(), contract.StartDomainInput{})
		requireKind(t, err, contract.ErrorInvalid, true)
	})
}

func requireKind(t *testing.T, err error, kind string, final bool) {
	t.Helper()
	var a *temporal.ApplicationError
	require.ErrorAs(t, err, &a)
	require.Equal(t, kind, a.Type())
	require.Equal(t, final, a.NonRetryable())
}
