package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	activities "github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/workers/node/forward"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/launchertest"
	"github.com/virtflow/virtflow/workers/node/migrate"
	"github.com/virtflow/virtflow/workers/node/records"
)

const (
	migrationUID = "7a2a9c1e-0b5d-4c6e-8f70-112233445566"
	targetPod    = "4f2a9c1e-0b5d-4c6e-8f70-112233445566"
	deadline     = 20 * time.Second
)

// movable is a launcher whose guest leaves when a test says so, or one that waits for a guest.
type movable struct {
	*launchertest.Launcher
	file []byte // of the source

	mu        sync.Mutex
	state     *rpc.MigrationStatusResponse
	changed   chan struct{}
	begun     []*rpc.MigrateRequest
	received  *rpc.Target
	data      []byte // of the target's files
	granted   []*rpc.FinishMigrationRequest
	withdrawn int
	refuse    error // of calls about a target
}

func newMovable() *movable {
	return &movable{Launcher: launchertest.NewLauncher(), state: &rpc.MigrationStatusResponse{},
		changed: make(chan struct{})}
}

// end is how the guest's move ends.
func (l *movable) end(e *rpc.MigrationEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.become(&rpc.MigrationStatusResponse{Migration: migrationUID, Outcome: e,
		Role: rpc.MigrationRole_MIGRATION_ROLE_SOURCE})
}

func (l *movable) become(s *rpc.MigrationStatusResponse) {
	l.state = s
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *movable) now() (*rpc.MigrationStatusResponse, chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state, l.changed
}

func left() *rpc.MigrationEvent {
	return &rpc.MigrationEvent{Event: &rpc.MigrationEvent_Left{Left: &rpc.MigrationLeft{
		Proof: rpc.MigrationProof_MIGRATION_PROOF_PROCESS, StoppedAt: time.Now().UnixMilli(),
		Stats: &rpc.MigrationStats{Bytes: 96 << 20, Mode: rpc.MigrationMode_MIGRATION_MODE_PRE_COPY}}}}
}

func stayed(why string) *rpc.MigrationEvent {
	return &rpc.MigrationEvent{Event: &rpc.MigrationEvent_Stayed{
		Stayed: &rpc.MigrationStayed{Reason: why, Aborted: true}}}
}

func (l *movable) MigrationStatus(
	context.Context, *rpc.MigrationStatusRequest,
) (*rpc.MigrationStatusResponse, error) {
	now, _ := l.now()
	return now, nil
}

func (l *movable) DescribeMigration(
	context.Context, *rpc.DescribeMigrationRequest,
) (*rpc.DescribeMigrationResponse, error) {
	if l.file == nil {
		return nil, status.Error(codes.FailedPrecondition, "there is no guest yet")
	}
	sum := sha(l.file)
	return &rpc.DescribeMigrationResponse{
		Disks: []*rpc.MigrationDisk{{Name: "root", Target: "vda", SizeBytes: 7, Copied: true, DirectIo: true,
			ImageSha256: sum}},
		Files:       []*rpc.MigrationFile{{Name: "seed.iso", Size: int64(len(l.file)), Sha256: sum}},
		MemoryBytes: 96 << 20, MachineType: "pc-q35-7.2",
	}, nil
}

func (l *movable) ReadFile(_ *rpc.ReadFileRequest, s grpc.ServerStreamingServer[rpc.FilePiece]) error {
	for piece := range bytes.SplitAfterSeq(l.file, []byte("\n")) {
		if err := s.Send(&rpc.FilePiece{Data: piece}); err != nil {
			return err
		}
	}
	return nil
}

func (l *movable) Migrate(r *rpc.MigrateRequest, s grpc.ServerStreamingServer[rpc.MigrationEvent]) error {
	l.mu.Lock()
	if l.state.GetMigration() == "" {
		l.begun = append(l.begun, r)
		l.become(&rpc.MigrationStatusResponse{Migration: r.GetMigration(), UnderWay: true,
			Role: rpc.MigrationRole_MIGRATION_ROLE_SOURCE})
	}
	l.mu.Unlock()
	for {
		now, changed := l.now()
		if now.GetOutcome() != nil {
			return s.Send(now.GetOutcome())
		}
		if err := s.Send(&rpc.MigrationEvent{Event: &rpc.MigrationEvent_Progress{Progress: &rpc.MigrationProgress{
			Migration: r.GetMigration(), Role: rpc.MigrationRole_MIGRATION_ROLE_SOURCE, Total: 96 << 20, Iteration: 2,
		}}}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-s.Context().Done():
			return nil
		}
	}
}

func (l *movable) AbortMigration(
	_ context.Context, r *rpc.AbortMigrationRequest,
) (*rpc.AbortMigrationResponse, error) {
	now, _ := l.now()
	if !now.GetUnderWay() {
		return &rpc.AbortMigrationResponse{}, nil
	}
	l.end(stayed(r.GetWhy()))
	return &rpc.AbortMigrationResponse{Found: true}, nil
}

func (l *movable) AdjustMigration(
	_ context.Context, r *rpc.AdjustMigrationRequest,
) (*rpc.AdjustMigrationResponse, error) {
	now, _ := l.now()
	if !now.GetUnderWay() || !r.GetPause() {
		return nil, status.Error(codes.FailedPrecondition, "no such migration is under way")
	}
	return &rpc.AdjustMigrationResponse{}, nil
}

func (l *movable) PrepareTarget(s grpc.ClientStreamingServer[rpc.PrepareTargetRequest, rpc.Domain]) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	if l.refuse != nil {
		return l.refuse
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.received, l.data = first.GetTarget(), nil
	for {
		r, err := s.Recv()
		if err != nil {
			break
		}
		l.data = append(l.data, r.GetData()...)
	}
	l.become(&rpc.MigrationStatusResponse{Migration: first.GetTarget().GetMigration(), UnderWay: true,
		Role: rpc.MigrationRole_MIGRATION_ROLE_TARGET})
	return s.SendAndClose(&rpc.Domain{})
}

func (l *movable) FinishMigration(_ context.Context, r *rpc.FinishMigrationRequest) (*rpc.Domain, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.granted = append(l.granted, r)
	switch {
	case l.refuse != nil:
		return nil, l.refuse
	case len(l.granted) == 1:
		return nil, status.Error(codes.Unavailable, "libvirt does not answer")
	}
	return l.Become(rpc.DomainState_DOMAIN_STATE_RUNNING), nil
}

func (l *movable) WithdrawTarget(
	context.Context, *rpc.WithdrawTargetRequest,
) (*rpc.WithdrawTargetResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.withdrawn++
	return &rpc.WithdrawTargetResponse{}, l.refuse
}

// end is one end of a migration: a node worker, and the launcher of a pod.
type end struct {
	t          *testing.T
	pod        contract.Object
	node       launchertest.Node
	launcher   *movable
	store      *records.Store
	mover      *Mover
	activities *activities.Activities
	network    []netip.Prefix // addresses of migration0
}

func newEnd(t *testing.T, pod string) *end {
	e := &end{t: t, node: launchertest.NewNode(t), launcher: newMovable(),
		pod: contract.Object{Namespace: "default", Name: "virt-launcher-web-" + pod[:1], UID: pod}}
	var err error
	e.store, err = records.Open(t.TempDir())
	require.NoError(t, err)
	e.start()
	launchertest.Serve(t, e.node.AddPod(t, pod), e.launcher)
	return e
}

// start makes a node worker, which knows nothing of what the one before did.
func (e *end) start() {
	starter := NewStarter(zerolog.Nop(), e.node.Dialer(),
		forward.New(forward.Options{Log: zerolog.Nop(), Records: e.store}, nil),
		func(context.Context, *launchers.Launcher) ([]launchers.Interface, error) {
			return []launchers.Interface{{Tap: "tap0"}}, nil
		})
	sessions := migrate.NewSessions("node1", zerolog.Nop(), nil)
	mover := NewMover(starter, sessions, migrate.NewTargets(migrate.TargetOptions{
		Log: zerolog.Nop(), Pod: netip.MustParseAddr("127.0.0.1"),
		Addresses: func(string) ([]netip.Prefix, error) { return e.network, nil },
	}))
	e.mover, e.activities = mover, &activities.Activities{Mover: mover}
	e.t.Cleanup(func() {
		if s := mover.Sessions.Get(migrationUID); s != nil && s.IsUnderWay() {
			e.launcher.end(stayed("the test is over"))
		}
		over, cancel := context.WithCancel(context.Background())
		cancel()
		mover.Shutdown(over, time.Second)
	})
}

// move is one guest's.
type move struct {
	t        *testing.T
	expires  time.Time
	from, to *end
	offer    contract.MigrationOffer
	target   contract.PreparedTarget
}

func newMove(t *testing.T) *move {
	m := &move{t: t, expires: time.Now().Add(time.Hour), from: newEnd(t, pod), to: newEnd(t, targetPod)}
	m.from.launcher.file = []byte("CIDATA\nCIDATA\n")
	m.from.network = []netip.Prefix{netip.MustParsePrefix("192.168.9.4/24")}
	return m
}

var moved = contract.Object{Namespace: "default", Name: "move", UID: migrationUID}

func (m *move) prepare() {
	m.t.Helper()
	var err error
	m.offer, err = m.from.activities.OfferMigration(m.t.Context(),
		contract.OfferMigrationInput{Migration: moved, VMI: input.VMI, Pod: m.from.pod, Expires: m.expires})
	require.NoError(m.t, err)
	require.Equal(m.t, []string{"192.168.9.4"}, m.offer.Addresses)
	m.target, err = m.to.activities.PrepareTarget(m.t.Context(), contract.PrepareTargetInput{Migration: moved,
		VMI: input.VMI, Pod: m.to.pod, Offer: m.offer, Expires: m.expires})
	require.NoError(m.t, err)
}

func (m *move) input() contract.MigrateDomainInput {
	return contract.MigrateDomainInput{Migration: moved, VMI: input.VMI, Pod: m.from.pod, Target: m.target,
		Configuration:     contract.MigrationConfiguration{Bandwidth: 64 << 20, Disruption: true, Progress: 150},
		CompletionSeconds: 300}
}

// follow is an attempt of the activity, as a worker runs it.
func (m *move) follow(ctx context.Context) (out contract.MigrationOutcome, err error) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(deadline)
	env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx})
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		var p contract.MigrationProgress
		if err := details.Get(&p); err != nil || p.UID != migrationUID {
			m.t.Errorf("a heartbeat is not of this migration: %v, %v", p, err)
		}
	})
	env.RegisterActivity(m.from.activities.MigrateDomain)
	result, err := env.ExecuteActivity(m.from.activities.MigrateDomain, m.input())
	if err != nil {
		return out, err
	}
	return out, result.Get(&out)
}

func (m *move) inspect(e *end) contract.MigrationTruth {
	m.t.Helper()
	truth, err := e.activities.InspectMigration(m.t.Context(),
		contract.InspectMigrationInput{Migration: moved, VMI: input.VMI, Pod: e.pod})
	require.NoError(m.t, err)
	return truth
}

// begun waits until the launcher moves its guest.
func (m *move) begun() {
	m.t.Helper()
	require.Eventually(m.t, func() bool {
		now, _ := m.from.launcher.now()
		return now.GetUnderWay()
	}, deadline, 5*time.Millisecond)
}

// TestMove: a guest moves from one node worker to the other through the activities: the target's launcher gets the
// source's files, and the guest resumes with the source's proof.
func TestMove(t *testing.T) {
	m := newMove(t)
	m.prepare()
	require.Equal(t, int64(96<<20), m.offer.Memory)
	again := m.offer
	m.prepare()
	require.Equal(t, again, m.offer, "asked again, it is the same")
	known, err := m.to.store.Load()
	require.NoError(t, err)
	require.Len(t, known, 1, "whose launcher it is outlives the node worker")
	require.Equal(t, input.VMI, known[0].VMI)

	var beats []contract.MigrationProgress
	beat := make(chan struct{}, 100)
	go func() {
		for range 2 { // the first comes before anything was asked
			<-beat
		}
		m.from.launcher.end(left())
	}()
	outcome, err := m.from.mover.Migrate(t.Context(), m.input(), func(p contract.MigrationProgress) {
		beats = append(beats, p)
		beat <- struct{}{}
	})
	require.NoError(t, err)
	require.Equal(t, contract.ResultMoved, outcome.Result, outcome.Reason)
	require.Equal(t, &contract.MigrationProof{By: contract.ProofProcess}, outcome.Proof)
	require.Equal(t, contract.DomainRunning, outcome.Target.State)
	require.Equal(t, targetPod, outcome.Target.PodUID)
	require.Equal(t, "PreCopy", outcome.Mode)
	require.Equal(t, int64(96<<20), outcome.Stats.Bytes)
	require.Equal(t, contract.MigrationProgress{UID: migrationUID}, beats[0])
	require.Equal(t, 2, beats[len(beats)-1].Iteration)

	options := m.from.launcher.begun[0].GetOptions()
	require.Equal(t, int64(64<<20), options.GetBandwidth())
	require.Equal(t, int64(300), options.GetCompletionSeconds())
	require.True(t, options.GetAllowDisruption())
	require.Equal(t, m.from.launcher.file, m.to.launcher.data)
	require.Equal(t, "tap0", m.to.launcher.received.GetInterfaces()[0].GetTap())
	require.True(t, m.to.launcher.received.GetDisks()[0].GetDirectIo())
	require.Equal(t, sha(m.from.launcher.file), m.to.launcher.received.GetDisks()[0].GetImageSha256())
	require.Equal(t, rpc.MigrationProof_MIGRATION_PROOF_PROCESS, m.to.launcher.granted[0].GetProof())
	require.Len(t, m.to.launcher.granted, 2, "a target that has to be waited for is asked again")

	repeated, err := m.follow(t.Context())
	require.NoError(t, err)
	require.Equal(t, outcome, repeated, "an answer that was lost is given again")
	require.Len(t, m.from.launcher.begun, 1)
	truth := m.inspect(m.from)
	require.True(t, truth.Reached && truth.Known)
	require.False(t, truth.Session || truth.UnderWay)
	require.Equal(t, outcome, *truth.Outcome)
}

// TestSecondAttemptFollowsMove: the end of an activity, whatever it is, leaves the move as it is, and the next attempt
// follows it.
func TestSecondAttemptFollowsMove(t *testing.T) {
	m := newMove(t)
	m.prepare()
	attempt, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := m.follow(attempt)
		ended <- err
	}()
	m.begun()
	truth := m.inspect(m.from)
	require.True(t, truth.Session && truth.UnderWay)
	cancel()
	requireKind(t, <-ended, contract.ErrorNoLauncher, false)
	require.True(t, m.inspect(m.from).Session)
	go func() {
		m.begun()
		m.from.launcher.end(left())
	}()
	outcome, err := m.follow(t.Context())
	require.NoError(t, err)
	require.Equal(t, contract.ResultMoved, outcome.Result)
	require.Len(t, m.from.launcher.begun, 1)
}

// TestRestartedNodeWorkerReadsOutcome: it never guesses how a move has ended that another run has begun.
func TestRestartedNodeWorkerReadsOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		before *rpc.MigrationStatusResponse
		want   contract.MigrationOutcome
	}{
		"not begun": {&rpc.MigrationStatusResponse{}, contract.MigrationOutcome{Result: contract.ResultStayed,
			Reason: "the source's node worker was restarted before the guest was moved"}},
		"under way": {&rpc.MigrationStatusResponse{UnderWay: true}, contract.MigrationOutcome{
			Result: contract.ResultStayed, Reason: "the node's worker that carried it was restarted", Aborted: true}},
		"left": {&rpc.MigrationStatusResponse{Outcome: &rpc.MigrationEvent{Event: &rpc.MigrationEvent_Left{
			Left: &rpc.MigrationLeft{Proof: rpc.MigrationProof_MIGRATION_PROOF_LIBVIRT, Paused: true}}}},
			contract.MigrationOutcome{Result: contract.ResultSourceOff,
				Proof: &contract.MigrationProof{By: contract.ProofLibvirt, Paused: true}}},
		"stayed": {&rpc.MigrationStatusResponse{Outcome: stayed("no progress")}, contract.MigrationOutcome{
			Result: contract.ResultStayed, Reason: "no progress", Aborted: true}},
		"ended": {&rpc.MigrationStatusResponse{Outcome: &rpc.MigrationEvent{Event: &rpc.MigrationEvent_Ended{
			Ended: &rpc.MigrationGuestEnded{Reason: "off"}}}},
			contract.MigrationOutcome{Result: contract.ResultGuestEnded, Reason: "off"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t)
			m.prepare()
			m.from.start()
			if name != "not begun" {
				c.before.Migration, c.before.Role = migrationUID, rpc.MigrationRole_MIGRATION_ROLE_SOURCE
			}
			m.from.launcher.become(c.before)
			outcome, err := m.follow(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.want, outcome)
			require.Empty(t, m.from.launcher.begun)
			if c.want.Result == contract.ResultSourceOff {
				truth := m.inspect(m.from)
				require.Equal(t, outcome, *truth.Outcome)
				finished, err := m.to.activities.FinishTarget(t.Context(), contract.FinishTargetInput{
					Migration: moved, VMI: input.VMI, Pod: m.to.pod, Proof: *outcome.Proof})
				require.NoError(t, err)
				require.Equal(t, contract.DomainRunning, finished.Domain.State)
				require.True(t, m.to.launcher.granted[0].GetPaused())
			}
		})
	}
	t.Run("its launcher has gone", func(t *testing.T) {
		m := newMove(t)
		m.prepare()
		m.from.node.RemovePod(t, pod)
		outcome, err := m.follow(t.Context())
		require.NoError(t, err)
		require.Equal(t, contract.ResultLost, outcome.Result)
		truth := m.inspect(m.from)
		require.False(t, truth.Reached)
		require.Contains(t, truth.Why, "no launcher")
	})
}

// TestAbort: what is under way ends, and what has not begun cannot begin any more.
func TestAbort(t *testing.T) {
	abort := func(m *move) bool {
		r, err := m.from.activities.AbortMigration(t.Context(), contract.AbortMigrationInput{Migration: moved,
			VMI: input.VMI, Pod: m.from.pod, Why: "a user deleted it"})
		require.NoError(t, err)
		return r.Found
	}
	t.Run("under way", func(t *testing.T) {
		m := newMove(t)
		m.prepare()
		ended := make(chan contract.MigrationOutcome)
		go func() {
			outcome, err := m.follow(t.Context())
			if err != nil {
				outcome.Reason = err.Error()
			}
			ended <- outcome
		}()
		m.begun()
		err := m.from.activities.AdjustMigration(t.Context(), contract.AdjustMigrationInput{Migration: moved,
			VMI: input.VMI, Pod: m.from.pod, Pause: true})
		require.NoError(t, err)
		require.True(t, abort(m))
		outcome := <-ended
		require.Equal(t, contract.MigrationOutcome{Result: contract.ResultStayed, Reason: "a user deleted it",
			Aborted: true}, outcome)
		require.False(t, abort(m))
		require.Equal(t, 1, m.to.launcher.withdrawn)
		err = m.from.activities.AdjustMigration(t.Context(), contract.AdjustMigrationInput{Migration: moved,
			VMI: input.VMI, Pod: m.from.pod, Pause: true})
		requireKind(t, err, contract.RefusedFailed, true)
	})
	t.Run("under way, by an earlier run", func(t *testing.T) {
		m := newMove(t)
		m.from.launcher.become(&rpc.MigrationStatusResponse{Migration: migrationUID, UnderWay: true})
		require.True(t, abort(m))
	})
	t.Run("not begun", func(t *testing.T) {
		m := newMove(t)
		m.prepare()
		require.False(t, abort(m))
		outcome, err := m.follow(t.Context())
		require.NoError(t, err)
		require.Equal(t, contract.ResultStayed, outcome.Result)
		require.Empty(t, m.from.launcher.begun)
	})
}

// TestWithdraw: only a target whose guest may run stays.
func TestWithdraw(t *testing.T) {
	m := newMove(t)
	withdraw := func() (contract.WithdrawTargetResult, error) {
		return m.to.activities.WithdrawTarget(t.Context(),
			contract.WithdrawTargetInput{Migration: moved, VMI: input.VMI, Pod: m.to.pod})
	}
	m.prepare()
	m.to.launcher.refuse = status.Error(codes.FailedPrecondition, "the guest may run here already")
	r, err := withdraw()
	require.NoError(t, err)
	require.Equal(t, "the guest may run here already", r.Refused)
	m.to.launcher.refuse = nil
	for range 2 {
		r, err = withdraw()
		require.NoError(t, err)
		require.Empty(t, r.Refused)
	}
	_, err = net.Dial("tcp", m.target.Address)
	require.ErrorContains(t, err, "connection refused", "nothing is expected any more")
	m.to.node.RemovePod(t, targetPod)
	r, err = withdraw()
	require.NoError(t, err)
	require.Empty(t, r.Refused, "where there is no launcher there is no guest")
}

// TestPreparedTooLate: a call to prepare a target that comes when that was withdrawn leaves no port open.
func TestPreparedTooLate(t *testing.T) {
	m := newMove(t)
	m.prepare()
	_, err := m.to.activities.WithdrawTarget(t.Context(),
		contract.WithdrawTargetInput{Migration: moved, VMI: input.VMI, Pod: m.to.pod})
	require.NoError(t, err)
	_, err = m.to.activities.PrepareTarget(t.Context(), contract.PrepareTargetInput{Migration: moved, VMI: input.VMI,
		Pod: m.to.pod, Offer: m.offer, Expires: m.expires})
	require.ErrorContains(t, err, "the target was withdrawn meanwhile")
	_, err = net.Dial("tcp", m.target.Address)
	require.ErrorContains(t, err, "connection refused", "nothing is expected any more")
}

// TestUnsuitable: an unsuitable source or target is a final error: no other attempt helps.
func TestUnsuitable(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(m *move)
		ask   func(m *move) error
		want  string
	}{
		"a source without guest": {func(m *move) { m.from.launcher.file = nil }, offers, "there is no guest yet"},
		"a target with a guest": {func(m *move) { m.to.launcher.Become(rpc.DomainState_DOMAIN_STATE_RUNNING) },
			prepares, "has a guest"},
		"a target of another migration": {func(m *move) {
			m.to.launcher.become(&rpc.MigrationStatusResponse{Migration: targetPod})
		}, prepares, "waits for another one"},
		"a key that is none": {func(m *move) { m.offer.Fingerprint = "x" }, prepares, "no fingerprint"},
		"a file out of its place": {func(m *move) {
			m.offer.Files = []contract.MigrationFile{{Name: "../x"}}
		}, prepares, "not the name of a file"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMove(t)
			m.prepare()
			c.spoil(m)
			err := c.ask(m)
			requireKind(t, err, contract.ErrorUnsuitable, true)
			require.ErrorContains(t, err, c.want)
		})
	}
	t.Run("launchers of an older release", func(t *testing.T) {
		s := newScene(t)
		launchertest.Serve(t, s.node.AddPod(t, pod), s.launcher)
		e := &end{t: t, node: s.node, launcher: newMovable(), store: s.store, pod: input.Pod}
		e.start()
		m := &move{t: t, from: e, to: e}
		m.offer = contract.MigrationOffer{Fingerprint: string(bytes.Repeat([]byte("a"), 64))}
		for _, err := range []error{offers(m), prepares(m)} {
			requireKind(t, err, contract.ErrorUnsuitable, true)
			require.ErrorContains(t, err, "was started by an older release")
		}
		require.True(t, m.inspect(e).Reached)
		require.False(t, m.inspect(e).Known)
	})
	t.Run("no identity", func(t *testing.T) {
		_, err := newMove(t).from.activities.OfferMigration(t.Context(), contract.OfferMigrationInput{})
		requireKind(t, err, contract.ErrorInvalid, true)
	})
}

func offers(m *move) error {
	_, err := m.from.activities.OfferMigration(m.t.Context(), contract.OfferMigrationInput{Migration: moved,
		VMI: input.VMI, Pod: m.from.pod, Expires: time.Now().Add(time.Hour)})
	return err
}

func prepares(m *move) error {
	_, err := m.to.activities.PrepareTarget(m.t.Context(), contract.PrepareTargetInput{Migration: moved,
		VMI: input.VMI, Pod: m.to.pod, Offer: m.offer, Expires: time.Now().Add(time.Hour)})
	return err
}

// TestMovesOverRequiredNetworkOnly: an end without the required network refuses the guest before anything is moved.
func TestMovesOverRequiredNetworkOnly(t *testing.T) {
	const network = "virtflow/moves"
	m := newMove(t)
	m.prepare()
	_, err := m.to.activities.PrepareTarget(t.Context(), contract.PrepareTargetInput{Migration: moved,
		VMI: input.VMI, Pod: m.to.pod, Offer: m.offer, Expires: m.expires, Network: network})
	requireKind(t, err, contract.ErrorUnsuitable, true)
	require.ErrorContains(t, err, "requests no network as migration0")

	in := m.input()
	in.Network = network
	session, outcome, err := m.from.mover.session(t.Context(), in)
	require.NoError(t, err)
	require.Nil(t, session)
	require.Equal(t, contract.ResultStayed, outcome.Result)
	require.Contains(t, outcome.Reason, "requests no network as migration0")

	// A target's node worker of an earlier version accepts the guest on any network.
	m.from.mover.Targets.Network = network
	m.from.mover.Targets.Addresses = func(string) ([]netip.Prefix, error) {
		return []netip.Prefix{netip.MustParsePrefix("192.168.9.4/24")}, nil
	}
	session, outcome, err = m.from.mover.session(t.Context(), in)
	require.NoError(t, err)
	require.Nil(t, session)
	require.Equal(t, contract.ResultStayed, outcome.Result)
	require.Contains(t, outcome.Reason, `accepts guests on the network "Pod", but the KubeVirt object requires virtflow/moves`)
	require.Empty(t, m.from.launcher.begun)
}

// TestUnsuitableTarget: the target is found unsuitable when it has the source's files: nothing was moved, and the
// outcome has the reason.
func TestUnsuitableTarget(t *testing.T) {
	m := newMove(t)
	m.prepare()
	const why = "containerDisk root has other content on this node: name it by digest"
	m.to.launcher.refuse = status.Error(codes.FailedPrecondition, why)
	outcome, err := m.follow(t.Context())
	require.NoError(t, err)
	require.Equal(t, contract.ResultStayed, outcome.Result)
	require.Contains(t, outcome.Reason, why)
	require.Empty(t, m.from.launcher.begun)
}

// TestShutdownWaitsForMoves: one that is under way ends as it would have, and none begins.
func TestShutdownWaitsForMoves(t *testing.T) {
	m := newMove(t)
	m.prepare()
	ended := make(chan contract.MigrationOutcome, 1)
	go func() {
		if outcome, err := m.follow(t.Context()); err == nil {
			ended <- outcome
		}
	}()
	m.begun()
	stopped := make(chan struct{})
	go func() {
		m.from.mover.Shutdown(context.Background(), deadline)
		close(stopped)
	}()
	require.Eventually(t, func() bool {
		_, err := m.from.mover.Sessions.Offer(targetPod, time.Now().Add(time.Minute))
		return errors.Is(err, migrate.ErrStopping)
	}, deadline, 5*time.Millisecond)
	require.True(t, m.inspect(m.from).Session)
	m.from.launcher.end(left())
	require.Equal(t, contract.ResultMoved, (<-ended).Result)
	<-stopped
	var app *temporal.ApplicationError
	require.ErrorAs(t, offers(m), &app)
	require.False(t, app.NonRetryable(), "the next run of the node worker offers it")
}

func sha(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}
