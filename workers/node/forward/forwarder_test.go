package forward_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/forward"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/launchertest"
	"github.com/virtflow/virtflow/workers/node/records"
)

const (
	pod      = "3f2a9c1e-0b5d-4c6e-8f70-112233445566"
	deadline = 10 * time.Second
	tick     = 5 * time.Millisecond
)

var (
	thePod = contract.Object{Namespace: "default", Name: "virt-launcher-web-x", UID: pod}
	theVMI = contract.Object{Namespace: "default", Name: "web", UID: "u1"}
)

// temporal remembers signals, and fails while fail is set.
type temporal struct {
	mu    sync.Mutex
	fail  error
	tries int
	got   []contract.DomainObservation
}

func (s *temporal) SignalWorkflow(_ context.Context, id, _, name string, arg any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	if s.fail != nil {
		return s.fail
	}
	if id != "vmi/default/web" || name != contract.SignalObserveDomain {
		return errors.New("wrong workflow or signal: " + id + " " + name)
	}
	s.got = append(s.got, arg.(contract.DomainObservation))
	return nil
}

func (s *temporal) set(fail error) { s.mu.Lock(); defer s.mu.Unlock(); s.fail = fail }
func (s *temporal) count() int     { s.mu.Lock(); defer s.mu.Unlock(); return s.tries }

func (s *temporal) states() []contract.DomainState {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []contract.DomainState{}
	for _, d := range s.got {
		all = append(all, d.State)
	}
	return all
}

// scene is a node with a launcher and a forwarder that can be killed and started again.
type scene struct {
	t            *testing.T
	node         launchertest.Node
	launcher     *launchertest.Launcher
	socket       string
	stopLauncher func()
	temporal     *temporal
	store        *records.Store
	forwarder    *forward.Forwarder
	kill         func()
}

func newScene(t *testing.T) *scene {
	s := &scene{t: t, node: launchertest.NewNode(t), launcher: launchertest.NewLauncher(), temporal: &temporal{}}
	var err error
	s.store, err = records.Open(t.TempDir())
	require.NoError(t, err)
	s.socket = s.node.AddPod(t, pod)
	s.stopLauncher = launchertest.Serve(t, s.socket, s.launcher)
	s.start()
	t.Cleanup(func() { s.kill() })
	return s
}

func (s *scene) start() {
	known, err := s.store.Load()
	require.NoError(s.t, err)
	dialer := s.node.Dialer()
	s.forwarder = forward.New(forward.Options{
		Log: zerolog.New(zerolog.NewTestWriter(s.t)), Temporal: s.temporal, Records: s.store,
		Connect:   func(ctx context.Context, pod string) (forward.Launcher, error) { return dialer.Connect(ctx, pod) },
		IsPodGone: func(pod string) bool { return launchers.IsPodGone(s.node.KubeletDir, pod) },
		Shortest:  tick, Longest: 2 * tick,
	}, known)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.forwarder.Run(ctx) }()
	s.kill = func() { cancel(); <-done }
}

// startDomain is what the activity does.
func (s *scene) startDomain() {
	started, err := s.forwarder.Starting(theVMI, thePod)
	require.NoError(s.t, err)
	d := s.launcher.Become(rpc.DomainState_DOMAIN_STATE_RUNNING)
	started(&contract.DomainObservation{PodUID: pod, Sequence: d.GetSequence(), State: contract.DomainRunning})
	s.watched()
}

func (s *scene) watched() {
	s.t.Helper()
	s.eventually(func() bool { return s.launcher.Watchers() == 1 }, "the launcher is not watched")
}

func (s *scene) requireSent(want ...contract.DomainState) {
	s.t.Helper()
	s.eventually(func() bool { return len(s.temporal.states()) >= len(want) }, "the entity was not signalled")
	require.Equal(s.t, want, s.temporal.states())
}

func (s *scene) eventually(is func() bool, otherwise string) {
	s.t.Helper()
	require.Eventually(s.t, is, deadline, tick, otherwise)
}

func TestSendsChangesButNotTheStart(t *testing.T) {
	s := newScene(t)
	s.startDomain()
	s.launcher.Become(rpc.DomainState_DOMAIN_STATE_PAUSED)
	s.requireSent(contract.DomainPaused)
	s.launcher.Change(func(*rpc.Domain) {}) // a change of nothing that is sent
	s.launcher.Become(rpc.DomainState_DOMAIN_STATE_RUNNING)
	s.requireSent(contract.DomainPaused, contract.DomainRunning)
}

// TestGuestsHaveConnectionsThatAreWatched: statistics are read over them.
func TestGuestsHaveConnectionsThatAreWatched(t *testing.T) {
	s := newScene(t)
	s.launcher.Count = func(context.Context) (*rpc.StatisticsResponse, error) {
		return &rpc.StatisticsResponse{Affinities: new(uint32(7))}, nil
	}
	require.Empty(t, s.forwarder.Guests())
	s.startDomain()
	guests := s.forwarder.Guests()
	require.Len(t, guests, 1)
	require.Equal(t, theVMI, guests[0].VMI)
	require.Equal(t, pod, guests[0].Pod)
	require.Equal(t, 1, guests[0].Order, "it was recorded while the forwarder ran")
	counted, err := guests[0].Launcher.Statistics(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 7, counted.GetAffinities())

	s.stopLauncher()
	s.eventually(func() bool { return s.forwarder.Guests()[0].Launcher == nil }, "the connection has ended")
	_, err = guests[0].Launcher.Statistics(t.Context())
	require.Error(t, err, "a scrape that still has the connection")
}

func TestKeepsNewestDuringOutage(t *testing.T) {
	s := newScene(t)
	s.startDomain()
	s.temporal.set(serviceerror.NewUnavailable("away"))
	s.launcher.Become(rpc.DomainState_DOMAIN_STATE_PAUSED)
	s.eventually(func() bool { return s.temporal.count() > 1 }, "no second try")
	last := s.launcher.Become(rpc.DomainState_DOMAIN_STATE_CRASHED)
	// A launcher that has sent this has sent what was before.
	s.eventually(func() bool { return last.GetSequence() > 0 && s.temporal.count() > 3 }, "no more tries")
	s.temporal.set(nil)
	s.eventually(func() bool {
		got := s.temporal.states()
		return len(got) > 0 && got[len(got)-1] == contract.DomainCrashed
	}, "the newest state was not sent")
	require.NotContains(t, s.temporal.states()[:len(s.temporal.states())-1], contract.DomainCrashed)
}

func TestRestartResendsNothing(t *testing.T) {
	s := newScene(t)
	s.startDomain()
	s.launcher.Become(rpc.DomainState_DOMAIN_STATE_PAUSED)
	s.requireSent(contract.DomainPaused)
	s.kill()
	s.start()
	s.watched()
	s.launcher.Change(func(d *rpc.Domain) { d.AgentConnected = true })
	s.eventually(func() bool { return len(s.temporal.states()) == 2 }, "the change was not sent")
	require.True(t, s.temporal.got[1].AgentConnected)
	require.Equal(t, pod, s.temporal.got[1].PodUID)
}

func TestChangeWhileTheWorkerWasDown(t *testing.T) {
	s := newScene(t)
	s.startDomain()
	s.kill()
	s.launcher.Become(rpc.DomainState_DOMAIN_STATE_SHUTOFF)
	s.start()
	s.requireSent(contract.DomainShutoff)
}

func TestReconnectsToLauncher(t *testing.T) {
	s := newScene(t)
	s.startDomain()
	s.stopLauncher()
	s.launcher.Become(rpc.DomainState_DOMAIN_STATE_CRASHED)
	s.node.RemovePod(t, pod+"/volumes/kubernetes.io~empty-dir/sockets/launcher.sock")
	launchertest.Serve(t, s.socket, s.launcher)
	s.requireSent(contract.DomainCrashed)
}

func TestForgetsGonePod(t *testing.T) {
	s := newScene(t)
	s.startDomain()
	s.node.RemovePod(t, pod)
	s.stopLauncher()
	s.forgotten()
}

func TestForgetsPodOfGoneEntity(t *testing.T) {
	for name, answer := range map[string]error{
		"the entity is gone":                         serviceerror.NewNotFound("no such workflow"),
		"the gateway knows the pod of old no longer": serviceerror.NewPermissionDenied("no such launcher pod", ""),
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.startDomain()
			s.temporal.set(answer)
			s.launcher.Become(rpc.DomainState_DOMAIN_STATE_SHUTOFF)
			s.eventually(func() bool { return s.temporal.count() > 0 }, "nothing was sent")
			s.node.RemovePod(t, pod)
			s.stopLauncher()
			s.forgotten()
		})
	}
}

func (s *scene) forgotten() {
	s.t.Helper()
	s.eventually(func() bool {
		left, err := s.store.Load()
		return err == nil && len(left) == 0 && len(s.forwarder.Followed()) == 0
	}, "the record is left")
}

func TestPodBelongsToOneVMI(t *testing.T) {
	s := newScene(t)
	s.startDomain()
	_, err := s.forwarder.Starting(contract.Object{Namespace: "default", Name: "mail", UID: "u2"}, thePod)
	require.ErrorContains(t, err, "has the launcher of default/web")
}

// TestFirstVMIOwnsPod: one VMI owns the pod, also on disk, however many claim it at the same time.
func TestFirstVMIOwnsPod(t *testing.T) {
	s := newScene(t)
	var mu sync.Mutex
	begun := map[contract.Object]int{}
	var all sync.WaitGroup
	for i := range 40 {
		vmi := contract.Object{Namespace: "default", Name: "web", UID: fmt.Sprint("u", i%4)}
		all.Go(func() {
			if _, err := s.forwarder.Starting(vmi, thePod); err == nil {
				mu.Lock()
				defer mu.Unlock()
				begun[vmi]++
			}
		})
	}
	all.Wait()
	known, err := s.store.Load()
	require.NoError(t, err)
	require.Len(t, known, 1)
	require.Equal(t, map[contract.Object]int{known[0].VMI: 10}, begun)
}
