package migrate

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/streams/migration"
)

// network is TCP between two node workers that a test can cut.
type network struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

// between puts a network before the target of a rig.
func between(t testing.TB, r *rig) *network {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &network{Listener: l}
	t.Cleanup(func() { l.Close(); n.cut() })
	target := r.peer.Address
	go func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", target)
			if err != nil {
				a.Close()
				continue
			}
			n.mu.Lock()
			n.conns = append(n.conns, a, b)
			n.mu.Unlock()
			go func() { _, _ = migration.Pipe(context.Background(), a.(*net.TCPConn), b.(*net.TCPConn)) }()
		}
	}()
	r.peer.Address = l.Addr().String()
	return n
}

// cut cuts everything that is open; what is dialled later goes through.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		migration.Cut(c)
	}
	n.conns = nil
}

const soon = time.Hour

// waits is a launcher that copies until the test ends the copy.
func (s *source) waits() (begun chan struct{}, end chan Departure) {
	begun, end = make(chan struct{}), make(chan Departure)
	s.migrate = func(ctx context.Context, _ func(contract.MigrationProgress)) (Departure, error) {
		close(begun)
		select {
		case d := <-end:
			return d, nil
		case <-ctx.Done():
			return Departure{}, context.Cause(ctx)
		}
	}
	return begun, end
}

func left() Departure { return Departure{Left: &migration.Proof{By: contract.ProofLibvirt}} }

// TestSessionOutlivesCalls: each call finds the same one, also when it has ended, and one that was not offered
// here is not begun.
func TestSessionOutlivesCalls(t *testing.T) {
	noLeaks(t)
	r := newRig(t, first)
	_, err := r.sessions.Begin(first, web, migration.Peer{}, r.source)
	require.ErrorIs(t, err, ErrNotOffered)
	require.Nil(t, r.sessions.Get(first))
	expires := time.Now().Add(soon)
	r.prepare(t, expires)
	again, err := r.sessions.Offer(first, expires)
	require.NoError(t, err)
	require.Equal(t, r.sessions.offers[first].Fingerprint(), again)
	_, err = r.sessions.Offer(second, expires)
	require.NoError(t, err)
	longer, err := r.sessions.Offer(second, expires.Add(soon))
	require.NoError(t, err)
	require.Equal(t, r.sessions.offers[second].Fingerprint(), longer)
	require.WithinDuration(t, expires.Add(soon), r.sessions.offers[second].Expires, time.Second,
		"a key that would not last is replaced")
	begun, end := r.source.waits()
	s := r.begin(t)
	<-begun
	require.Same(t, s, r.begin(t)) // a second activity
	require.Same(t, s, r.sessions.Get(first))
	end <- left()
	require.Equal(t, contract.ResultMoved, ended(t, s).Result)
	require.Same(t, s, r.begin(t))
	require.Equal(t, contract.ResultMoved, r.begin(t).Outcome().Result)

	r.sessions.mu.Lock()
	r.sessions.forget(time.Now().Add(remembered + time.Minute))
	r.sessions.mu.Unlock()
	require.Nil(t, r.sessions.Get(first))
}

// TestOutcomes: an outcome follows from the launcher's report and the target's answer.
func TestOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		departure Departure
		err       error
		resume    error
		want      contract.MigrationOutcome
		withdrawn []string
	}{
		"left": {departure: left(), want: contract.MigrationOutcome{Result: contract.ResultMoved, Proof: left().Left,
			Target: &contract.DomainObservation{PodUID: pod, State: contract.DomainRunning}}},
		"left, and the target does not resume": {departure: left(), resume: errors.New("its QEMU has ended"),
			want: contract.MigrationOutcome{Result: contract.ResultSourceOff, Proof: left().Left,
				Reason: "refused by the other node worker: its QEMU has ended"}},
		"stayed": {departure: Departure{Reason: "no progress", Aborted: true},
			want:      contract.MigrationOutcome{Result: contract.ResultStayed, Reason: "no progress", Aborted: true},
			withdrawn: []string{"no progress"}},
		"ended by itself": {departure: Departure{Reason: "powered off", Ended: true},
			want:      contract.MigrationOutcome{Result: contract.ResultGuestEnded, Reason: "powered off"},
			withdrawn: []string{"powered off"}},
		"outcome unknown": {err: errGone,
			want: contract.MigrationOutcome{Result: contract.ResultLost, Reason: errGone.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			r := newRig(t, first)
			r.source.migrate = func(context.Context, func(contract.MigrationProgress)) (Departure, error) {
				return c.departure, c.err
			}
			r.receiver.resume = func(migration.Proof) (contract.DomainObservation, error) {
				return contract.DomainObservation{PodUID: pod, State: contract.DomainRunning}, c.resume
			}
			r.prepare(t, time.Now().Add(soon))
			require.Equal(t, c.want, ended(t, r.begin(t)))
			require.Equal(t, c.withdrawn, r.receiver.withdrawn)
			// A target that was sent nothing stays: the workflow decides what becomes of it.
			over := c.want.Result != contract.ResultSourceOff && c.want.Result != contract.ResultLost
			waitFor(t, "the target is forgotten, or not", func() bool { return over != listening(t, r.peer.Address) })
		})
	}
}

// TestNothingHasBegun: what fails before the launcher was asked to migrate leaves the guest where it is.
func TestNothingHasBegun(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, r *rig)
		want  string
	}{
		"the port is closed": {func(_ *testing.T, r *rig) { r.targets.Remove(first) }, "connection refused"},
		"another target": {func(t *testing.T, r *rig) { r.peer.Fingerprint = r.sessions.offers[first].Fingerprint() },
			"does not match the migration's fingerprint"},
		"other files": {func(t *testing.T, r *rig) {
			r.source.files = []migration.Content{migration.NewContent("cloudinit.iso", []byte("changed"))}
		}, "not those that the migration has"},
		"other bytes": {func(t *testing.T, r *rig) { r.source.files[0].Data = []byte("CIDATA2") },
			"does not match the migration's digest"},
		"the target's launcher": {func(t *testing.T, r *rig) {
			r.receiver.prepare = func([]migration.Content) error { return errors.New("no space left") }
		}, "no space left"},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			r := newRig(t, first)
			r.source.files = []migration.Content{migration.NewContent("cloudinit.iso", []byte("CIDATA1"))}
			r.source.migrate = func(context.Context, func(contract.MigrationProgress)) (Departure, error) {
				t.Error("the launcher was asked to migrate")
				return Departure{}, errGone
			}
			r.prepare(t, time.Now().Add(soon))
			c.spoil(t, r)
			outcome := ended(t, r.begin(t))
			require.Equal(t, contract.ResultStayed, outcome.Result)
			require.Contains(t, outcome.Reason, c.want)
			require.Empty(t, r.receiver.proofs)
		})
	}
}

// TestResumesAfterControlChannelWasCut: the guest resumes at the target whether the question or the answer was lost.
func TestResumesAfterControlChannelWasCut(t *testing.T) {
	for name, lost := range map[string]bool{"before the question": false, "before the answer": true} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			r := newRig(t, first)
			r.prepare(t, time.Now().Add(soon))
			n := between(t, r)
			begun, end := r.source.waits()
			var once sync.Once
			r.receiver.resume = func(migration.Proof) (contract.DomainObservation, error) {
				if lost {
					once.Do(n.cut)
				}
				return contract.DomainObservation{State: contract.DomainRunning}, nil
			}
			s := r.begin(t)
			<-begun
			if !lost {
				n.cut()
			}
			end <- left()
			outcome := ended(t, s)
			require.Equal(t, contract.ResultMoved, outcome.Result, outcome.Reason)
		})
	}
}

// TestCutStream: QEMU at both ends sees the end, by whatever the stream was cut.
func TestCutStream(t *testing.T) {
	for name, cut := range map[string]func(r *rig, n *network, s *Session){
		"by the network":              func(_ *rig, n *network, _ *Session) { n.cut() },
		"by the target's node worker": func(r *rig, _ *network, _ *Session) { r.targets.Remove(first) },
		"by the source's node worker": func(_ *rig, _ *network, s *Session) { s.cancel(errGone) },
		"by the end of the time there": func(r *rig, _ *network, _ *Session) {
			r.targets.remove(r.targets.byUID[first], errExpired)
		},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			r := newRig(t, first)
			r.prepare(t, time.Now().Add(soon))
			n := between(t, r)
			begun, end := r.source.waits()
			s := r.begin(t)
			<-begun
			from := r.source.dial(t, migration.Memory)
			to := r.receiver.accept(t, migration.Memory)
			_, err := from.Write(make([]byte, 1<<20))
			require.NoError(t, err)
			_, err = io.ReadFull(to, make([]byte, 1<<20))
			require.NoError(t, err)
			cut(r, n, s)
			gone(t, from)
			gone(t, to)
			select { // libvirt has noticed
			case end <- Departure{Reason: "the stream has ended"}:
			case <-s.Done():
			}
			require.Contains(t, []contract.MigrationResult{contract.ResultStayed, contract.ResultLost},
				ended(t, s).Result)
			require.Empty(t, r.receiver.proofs)
		})
	}
}

// TestCutsStreamsWhenAbortHangs: the streams are cut when libvirt does not abort, which it takes for an abort as well.
// Who has it abort makes no difference: a call here, or the launcher by itself.
func TestCutsStreamsWhenAbortHangs(t *testing.T) {
	for name, abort := range map[string]func(*testing.T, *Session){
		"by a call":         func(t *testing.T, s *Session) { require.NoError(t, s.Abort(t.Context(), "why")) },
		"of the launcher's": func(_ *testing.T, s *Session) { s.observe(contract.MigrationProgress{Aborting: "why"}) },
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			r := newRig(t, first)
			r.source.abort = func(string) (bool, error) { return true, nil }
			r.prepare(t, time.Now().Add(soon))
			begun, end := r.source.waits()
			s := r.begin(t)
			s.patience = 10 * time.Millisecond
			<-begun
			from := r.source.dial(t, migration.Memory)
			r.receiver.accept(t, migration.Memory)
			var aborted sync.WaitGroup
			aborted.Go(func() { abort(t, s) })
			gone(t, from)
			end <- Departure{Reason: "why", Aborted: true}
			aborted.Wait()
			require.Equal(t, contract.ResultStayed, ended(t, s).Result)
		})
	}
}

// TestStreamWithoutTarget: QEMU at the source gets the error at once.
func TestStreamWithoutTarget(t *testing.T) {
	noLeaks(t)
	r := newRig(t, first)
	r.prepare(t, time.Now().Add(soon))
	begun, end := r.source.waits()
	s := r.begin(t)
	<-begun
	r.targets.Remove(first)
	gone(t, r.source.dial(t, migration.Memory))
	end <- Departure{Reason: "the stream has ended"}
	require.Equal(t, contract.ResultStayed, ended(t, s).Result)
}

// TestKeepsConnectionUntilLibvirtEndsIt: the guest runs at the target, which the outcome reports at once, and libvirt's
// connection lives until libvirt ends it.
func TestKeepsConnectionUntilLibvirtEndsIt(t *testing.T) {
	noLeaks(t)
	r := newRig(t, first)
	r.prepare(t, time.Now().Add(soon))
	begun, end := r.source.waits()
	s := r.begin(t)
	<-begun
	from := r.source.dial(t, migration.Libvirt)
	to := r.receiver.accept(t, migration.Libvirt)
	end <- left()
	require.Equal(t, contract.ResultMoved, ended(t, s).Result)
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		_, err := way[0].Write([]byte("close"))
		require.NoError(t, err)
		_, err = io.ReadFull(way[1], make([]byte, 5))
		require.NoError(t, err)
	}
	require.True(t, listening(t, r.peer.Address))
	require.NoError(t, from.Close())
	gone(t, to)
	require.NoError(t, to.Close())
	waitFor(t, "the port is closed", func() bool { return !listening(t, r.peer.Address) })
}

// TestLimitsStreams: the source does not even dial for them.
func TestLimitsStreams(t *testing.T) {
	noLeaks(t)
	r := newRig(t, first)
	r.prepare(t, time.Now().Add(soon))
	begun, end := r.source.waits()
	s := r.begin(t)
	<-begun
	for range migration.MaxStreams {
		r.source.dial(t, migration.Memory)
		r.receiver.accept(t, migration.Memory)
	}
	gone(t, r.source.dial(t, migration.Disks))
	end <- left()
	require.Equal(t, contract.ResultMoved, ended(t, s).Result)
}

// TestAbort: a migration is aborted at each point: before the launcher was asked to migrate, while it migrates, and
// when it is too late.
func TestAbort(t *testing.T) {
	t.Run("before", func(t *testing.T) {
		noLeaks(t)
		r := newRig(t, first)
		r.prepare(t, time.Now().Add(soon))
		asked, release := make(chan struct{}), make(chan struct{})
		t.Cleanup(func() { close(release) })
		r.receiver.prepare = func([]migration.Content) error { close(asked); <-release; return nil }
		s := r.begin(t)
		<-asked
		require.NoError(t, s.Abort(t.Context(), "cancelled by its user"))
		require.Equal(t, contract.MigrationOutcome{Result: contract.ResultStayed, Reason: "cancelled by its user",
			Aborted: true}, s.Outcome())
	})
	t.Run("while", func(t *testing.T) {
		noLeaks(t)
		r := newRig(t, first)
		r.prepare(t, time.Now().Add(soon))
		begun, end := r.source.waits()
		tries := 0
		r.source.abort = func(why string) (bool, error) {
			switch tries++; tries {
			case 1:
				return false, errGone
			case 2:
				return false, nil // it has not received the migration yet
			}
			go func() { end <- Departure{Reason: why, Aborted: true} }()
			return true, nil
		}
		s := r.begin(t)
		<-begun
		require.NoError(t, s.Abort(t.Context(), "cancelled by its user"))
		require.Equal(t, contract.MigrationOutcome{Result: contract.ResultStayed, Reason: "cancelled by its user",
			Aborted: true}, s.Outcome())
		require.Equal(t, []string{"cancelled by its user"}, r.receiver.withdrawn)
	})
	t.Run("too late", func(t *testing.T) {
		noLeaks(t)
		r := newRig(t, first)
		r.prepare(t, time.Now().Add(soon))
		begun, end := r.source.waits()
		r.source.abort = func(string) (bool, error) {
			go func() { end <- left() }()
			return true, nil
		}
		s := r.begin(t)
		<-begun
		require.NoError(t, s.Abort(t.Context(), "cancelled by its user"))
		require.Equal(t, contract.ResultMoved, s.Outcome().Result)
		require.NoError(t, s.Abort(t.Context(), "again"), "there is nothing to abort any more")
	})
	t.Run("a launcher that does not answer", func(t *testing.T) {
		noLeaks(t)
		r := newRig(t, first)
		r.prepare(t, time.Now().Add(soon))
		begun, end := r.source.waits()
		s := r.begin(t)
		<-begun
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, s.Abort(ctx, "cancelled by its user"), errGone)
		end <- left()
		require.Equal(t, contract.ResultMoved, ended(t, s).Result)
	})
}

// TestSessionDeadline: a session ends when its key expires.
func TestSessionDeadline(t *testing.T) {
	noLeaks(t)
	r := newRig(t, first)
	r.prepare(t, time.Now().Add(2*time.Second))
	_, _ = r.source.waits()
	outcome := ended(t, r.begin(t))
	require.Equal(t, contract.ResultLost, outcome.Result)
	require.Contains(t, outcome.Reason, errExpired.Error())
	waitFor(t, "the target's is as well", func() bool { return !listening(t, r.peer.Address) })
}

// TestSessionsShutDown: nothing new is begun, what is there is waited for, then its launcher aborts.
func TestSessionsShutDown(t *testing.T) {
	noLeaks(t)
	r := newRig(t, first)
	r.prepare(t, time.Now().Add(soon))
	begun, end := r.source.waits()
	r.source.abort = func(why string) (bool, error) {
		go func() { end <- Departure{Reason: why, Aborted: true} }()
		return true, nil
	}
	s := r.begin(t)
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		r.sessions.Shutdown(ctx)
		close(over)
	}()
	waitFor(t, "nothing is offered any more", func() bool {
		_, err := r.sessions.Offer(second, time.Now().Add(soon))
		return errors.Is(err, ErrStopping)
	})
	_, err := r.sessions.Begin(second, web, r.peer, r.source)
	require.ErrorIs(t, err, ErrStopping)
	require.Same(t, s, r.begin(t))
	select {
	case <-over:
		t.Fatal("it was not waited for")
	default:
	}
	cancel()
	<-over
	require.Equal(t, contract.MigrationOutcome{Result: contract.ResultStayed, Reason: ErrStopping.Error(),
		Aborted: true}, ended(t, s))
	require.Equal(t, []string{ErrStopping.Error()}, r.receiver.withdrawn)
}

func TestDowntime(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(1_000_000).Add(time.Duration(ms) * time.Millisecond) }
	for name, c := range map[string]struct {
		stopped, asked, answered int
		took                     time.Duration
		want                     int64
	}{
		"the way back does not count":        {0, 100, 150, 40 * time.Millisecond, 145},
		"an instant answer":                  {0, 100, 100, 0, 100},
		"a target that says nonsense":        {0, 100, 120, time.Minute, 100 + 60_000},
		"a clock that was set in the middle": {500, 100, 120, 10 * time.Millisecond, 0},
	} {
		require.Equal(t, c.want, downtimeOf(at(c.stopped), at(c.asked), at(c.answered), c.took), name)
	}
	require.Zero(t, downtimeOf(time.Time{}, at(0), at(1), 0))
}
