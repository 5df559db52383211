package migrate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/streams/migration"
	"github.com/virtflow/virtflow/workers/node/launchers"
)

const (
	// prepareTimeout is how long the target may take to be ready once it has the files: it reads its disks' images.
	prepareTimeout = 5 * time.Minute
	// resumeTimeout is how long the session asks the target to resume the guest; after that the workflow asks. The
	// guest is paused in that time.
	resumeTimeout = 30 * time.Second
	// lingerTimeout is how long libvirt's own connections may take to end when the guest resumes at the target: libvirt
	// is still cleaning up at the source, and would take a cut one for a failure. Nothing waits for them.
	lingerTimeout = 5 * time.Second
	// withdrawTimeout limits the request that withdraws the target. The workflow sends it as well.
	withdrawTimeout = 10 * time.Second
	// abortPatience is how long libvirt may take to abort before its streams are cut, which it also takes for an abort.
	abortPatience = 10 * time.Second
	// retryInterval is the time before a launcher or a node is called again, streamInterval before a launcher is called
	// for a stream. It has none before it is asked to migrate, and then libvirt waits for the first.
	retryInterval, streamInterval = 200 * time.Millisecond, 25 * time.Millisecond
)

// Source is the launcher that a guest leaves.
type Source interface {
	Launcher
	// Files returns what the target needs and libvirt does not copy.
	Files(ctx context.Context) ([]migration.Content, error)
	// Migrate has the launcher move the guest, or follows a move that is under way, and returns how it ended. After an
	// error the outcome is unknown.
	Migrate(ctx context.Context, progress func(contract.MigrationProgress)) (Departure, error)
	// Abort has the launcher abort. Without an error, found reports whether there was something to abort.
	Abort(ctx context.Context, why string) (found bool, err error)
}

// Departure is how the move ended at the source, by the launcher's account.
type Departure = launchers.Departure

// Session moves one guest to another node. It is safe for concurrent use.
type Session struct {
	uid      string
	vmi      contract.Object
	identity *migration.Identity
	target   migration.Peer
	source   Source
	traffic  traffic
	sent     atomic.Int64  // bytes
	patience time.Duration // how long libvirt may take to abort
	log      zerolog.Logger
	ctx      context.Context
	cancel   context.CancelCauseFunc
	done     chan struct{}

	mu        sync.Mutex
	migrating bool   // the launcher was asked to move the guest
	aborted   string // the reason of an abort that came before; "": none
	carried   *carriedStreams
	progress  contract.MigrationProgress
	outcome   contract.MigrationOutcome
	endedAt   time.Time
}

func newSession(
	log zerolog.Logger, uid string, identity *migration.Identity, target migration.Peer, source Source,
) *Session {
	s := &Session{uid: uid, identity: identity, target: target, source: source, patience: abortPatience,
		log: log.With().Str("migration_uid", uid).Logger(), done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Outcome returns how the session has ended, once it has.
func (s *Session) Outcome() contract.MigrationOutcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outcome
}

// Progress returns the last progress of the launcher; zero: none yet.
func (s *Session) Progress() contract.MigrationProgress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress
}

// IsUnderWay reports whether the session has not ended.
func (s *Session) IsUnderWay() bool {
	_, over := s.endTime()
	return !over
}

// endTime returns when the session ended; over is false while it is under way.
func (s *Session) endTime() (at time.Time, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endedAt, !s.endedAt.IsZero()
}

// Abort has the migration abort and returns when the session has ended, with any outcome: past a certain point the
// guest leaves all the same.
func (s *Session) Abort(ctx context.Context, why string) error {
	s.mu.Lock()
	asked := s.migrating && s.endedAt.IsZero()
	if !asked && s.aborted == "" {
		s.aborted = why
		s.cancel(fmt.Errorf("aborted: %s", why))
	}
	s.mu.Unlock()
	for asked {
		found, err := s.source.Abort(ctx, why)
		if err == nil && found {
			break
		}
		select { // the request to migrate may not have reached the launcher yet
		case <-s.done:
			return nil
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(retryInterval):
		}
	}
	late := time.AfterFunc(s.patience, s.cut)
	defer late.Stop()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Session) setCarried(c *carriedStreams) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carried = c
}

// cut closes all streams.
func (s *Session) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.carried != nil {
		s.log.Warn().Msg("failed to abort the migration in time; cutting its streams")
		s.carried.cut()
	}
}

func (s *Session) run(results *prometheus.CounterVec) {
	ctx, stop := context.WithDeadlineCause(s.ctx, s.identity.Expires, errExpired)
	defer stop()
	begun := time.Now()
	outcome, tidy := s.move(ctx)
	s.mu.Lock()
	s.outcome, s.endedAt = outcome, time.Now()
	s.mu.Unlock()
	results.WithLabelValues(string(outcome.Result)).Inc()
	close(s.done)
	s.log.Info().Str("state", string(outcome.Result)).Str("reason", outcome.Reason).Dur("took", time.Since(begun)).
		Msg("ended a migration at its source")
	tidy()
	s.cancel(nil)
}

// move returns the outcome of the migration, and what remains to be cleaned up then.
func (s *Session) move(ctx context.Context) (o contract.MigrationOutcome, tidy func()) {
	control, err := s.prepare(ctx)
	if err != nil {
		return s.stayedOutcome(err), func() {}
	}
	carried := s.carryStreams(ctx)
	if !s.beginMigrating() {
		o = s.stayedOutcome(nil)
		s.withdraw(ctx, control, o.Reason)
		return o, func() { carried.end(0) }
	}
	s.setCarried(carried)
	left, err := s.source.Migrate(ctx, s.observe)
	o = Outcome(left)
	switch {
	case err != nil:
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
		return contract.MigrationOutcome{Result: contract.ResultLost, Reason: err.Error()}, func() {
			carried.end(0)
			control.Close()
		}
	case left.Left == nil:
		s.withdraw(ctx, control, left.Reason)
		return o, func() { carried.end(0) }
	}
	resumed, downtime, control, err := s.resume(ctx, control, left)
	if err != nil {
		o.Reason = err.Error()
		return o, func() { carried.end(lingerTimeout) }
	}
	o.Result, o.Target, o.Stats.DowntimeMs = contract.ResultMoved, &resumed.Domain, downtime
	// The bytes sent, not libvirt's count, which a short copy may end without.
	o.Stats.Bytes = max(o.Stats.Bytes, s.sent.Load())
	return o, func() {
		carried.end(lingerTimeout)
		control.Close() // and the target cuts what is left
	}
}

// stayedOutcome returns the outcome of a migration that the launcher was not asked for.
func (s *Session) stayedOutcome(err error) contract.MigrationOutcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aborted != "" {
		return contract.MigrationOutcome{Result: contract.ResultStayed, Reason: s.aborted, Aborted: true}
	}
	return contract.MigrationOutcome{Result: contract.ResultStayed, Reason: err.Error()}
}

// beginMigrating reports whether no abort was requested. From then on only the launcher can abort.
func (s *Session) beginMigrating() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.migrating = s.aborted == ""
	return s.migrating
}

// observe takes the launcher's progress. The launcher also aborts by itself; then a libvirt that waits for a target
// that is gone ends only when its streams are cut.
func (s *Session) observe(p contract.MigrationProgress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Aborting != "" && s.progress.Aborting == "" {
		late := time.AfterFunc(s.patience, s.cut)
		context.AfterFunc(s.ctx, func() { late.Stop() })
	}
	s.progress = p
}

func (s *Session) dialControl(ctx context.Context) (*migration.Controller, error) {
	conn, err := s.identity.Dial(ctx, s.target, migration.Control)
	if err != nil {
		return nil, err
	}
	return migration.NewController(conn), nil
}

// prepare has the target prepared.
func (s *Session) prepare(ctx context.Context) (*migration.Controller, error) {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	files, err := s.source.Files(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading what libvirt does not copy: %w", err)
	}
	control, err := s.dialControl(ctx)
	if err != nil {
		return nil, err
	}
	if err := control.Prepare(ctx, files); err != nil {
		control.Close()
		return nil, err
	}
	return control, nil
}

// withdraw requests that the target stops waiting for the guest, also when ctx has ended.
func (s *Session) withdraw(ctx context.Context, control *migration.Controller, why string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	if err := control.Withdraw(ctx, why); err != nil {
		s.log.Warn().Err(err).Msg("failed to withdraw migration target")
	}
	control.Close()
}

// resume has the guest resume at the target, over another connection if the first one is broken; it returns the one
// that works. downtime is for how long the guest was paused, in milliseconds; 0: unknown.
func (s *Session) resume(ctx context.Context, control *migration.Controller, left Departure) (
	out migration.Resumed, downtime int64, open *migration.Controller, err error,
) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumeTimeout)
	defer cancel()
	for {
		if control == nil {
			control, err = s.dialControl(ctx)
		}
		if control != nil {
			asked := time.Now()
			out, err = control.Resume(ctx, *left.Left)
			if err == nil {
				return out, downtimeOf(left.StoppedAt, asked, time.Now(), out.Took), control, nil
			}
			control.Close()
			control = nil
		}
		var refused *migration.RefusedError
		if errors.As(err, &refused) {
			return out, 0, nil, err
		}
		s.log.Warn().Err(err).Msg("failed to resume the guest at the target; it will be retried")
		select {
		case <-ctx.Done():
			return out, 0, nil, err
		case <-time.After(retryInterval):
		}
	}
}

// downtimeOf returns for how long a guest was paused, in milliseconds and by the source's clock: the time that the
// target took is in the middle between request and answer.
func downtimeOf(stopped, asked, answered time.Time, took time.Duration) int64 {
	if stopped.IsZero() {
		return 0
	}
	way := max(0, answered.Sub(asked)-took) / 2
	return max(0, asked.Add(way+took).Sub(stopped).Milliseconds())
}

// carriedStreams has the streams of a session.
type carriedStreams struct {
	ask, cut        context.CancelFunc
	asking, streams sync.WaitGroup
}

// end stops asking the launcher for streams, waits up to limit for the open ones to end by themselves, and cuts the
// rest. It returns when none is left.
func (c *carriedStreams) end(limit time.Duration) {
	c.ask()
	c.asking.Wait()
	late := time.AfterFunc(limit, c.cut)
	defer late.Stop()
	c.streams.Wait()
	c.cut()
}

// carryStreams carries the streams that libvirt and QEMU open.
func (s *Session) carryStreams(ctx context.Context) *carriedStreams {
	ctx, cut := context.WithCancel(ctx)
	asking, ask := context.WithCancel(ctx)
	all := &carriedStreams{ask: ask, cut: cut}
	open := make(chan struct{}, migration.MaxStreams)
	for _, c := range migration.Streams() {
		all.asking.Go(func() {
			for asking.Err() == nil {
				stream, err := s.source.Stream(asking, c)
				if err != nil {
					s.log.Debug().Err(err).Str("channel", string(c)).
						Msg("failed to get a stream from the launcher; it will be retried")
					select {
					case <-asking.Done():
					case <-time.After(streamInterval):
					}
					continue
				}
				select {
				case open <- struct{}{}:
					all.carry(ctx, s, c, stream, func() { <-open })
				default:
					s.log.Warn().Err(errTooMany).Str("channel", string(c)).Msg("refused a stream of a migration")
					migration.Cut(stream)
				}
			}
		})
	}
	return all
}

// carry returns when the stream has reached the target's launcher: QEMU takes the first of several memory connections
// for the main one, so their order has to be the same at both ends. ended is called when the stream has ended.
func (c *carriedStreams) carry(
	ctx context.Context, s *Session, channel migration.Channel, stream *net.UnixConn, ended func(),
) {
	dialing, cancel := context.WithTimeout(ctx, answerLimit)
	conn, err := s.identity.Dial(dialing, s.target, channel)
	cancel()
	if err != nil {
		s.log.Warn().Err(err).Str("channel", string(channel)).Msg("failed to connect a stream with the target")
		migration.Cut(stream) // which libvirt notices
		ended()
		return
	}
	var to migration.Stream = conn
	if channel == migration.Disks {
		to = &deadlineConn{Conn: conn, limit: answerLimit}
	}
	c.streams.Go(func() {
		defer ended()
		carry(ctx, s.log, channel, countedStream{stream, s.traffic, &s.sent}, to)
	})
}

// answerLimit is how long a target may take to accept a stream, and to send the first bytes of a disk's. QEMU waits for
// that with everything else stopped, the guest included.
const answerLimit = 5 * time.Second

// deadlineConn is a connection whose other end has to send something soon.
type deadlineConn struct {
	*tls.Conn
	limit time.Duration
	said  bool
}

// Read fails if nothing has ever been received within the limit.
func (p *deadlineConn) Read(b []byte) (int, error) {
	if p.said {
		return p.Conn.Read(b)
	}
	if err := p.SetReadDeadline(time.Now().Add(p.limit)); err != nil {
		return 0, err
	}
	n, err := p.Conn.Read(b)
	if n > 0 {
		p.said = true
		err = errors.Join(err, p.SetReadDeadline(time.Time{}))
	}
	return n, err
}
