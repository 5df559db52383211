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

	"github.com/virtflow/virtflow/internal/streams/migration"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workflows/contract"
)

const (
	// prepareTimeout is how long the target may take to be ready once it has the files: it reads its disks' images.
	prepareTimeout = 5 * time.Minute
	// resumeTimeout is how long the target is asked to let the guest go on; after that the workflow asks it. The guest
	// stands still meanwhile.
	resumeTimeout = 30 * time.Second
	// lingering is how long libvirt's own connections may take to end when the guest goes on at the target: libvirt is
	// still tidying up at the source, and one that is cut would look like a failure to it. Nobody waits for that.
	lingering = 5 * time.Second
	// withdrawTimeout is how long the target may take to hear that nobody comes. The workflow tells it as well.
	withdrawTimeout = 10 * time.Second
	// abortPatience is how long libvirt may take to abort before its streams are cut, which it takes for an abort as
	// well.
	abortPatience = 10 * time.Second
	// retryInterval is how long to wait before a launcher or a node is asked again, streamInterval before a launcher is
	// for a stream. It has none before it was asked to migrate, and then libvirt waits for the first.
	retryInterval, streamInterval = 200 * time.Millisecond, 25 * time.Millisecond
)

// Source is the launcher that a guest leaves.
type Source interface {
	Launcher
	// Files are those that the target needs and libvirt does not copy.
	Files(ctx context.Context) ([]migration.Content, error)
	// Migrate has the launcher move the guest, or follows what it does already, and returns how that ended. An error
	// says that this is not known.
	Migrate(ctx context.Context, progress func(contract.MigrationProgress)) (Departure, error)
	// Abort has it abort that. Without an error, found says whether there was something to abort.
	Abort(ctx context.Context, why string) (found bool, err error)
}

// Departure is how it ended at the source, as the launcher says.
type Departure = launchers.Departure

// Session is one guest's way to another node. It is safe for concurrent use.
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
	ctx      context.Context //nolint:containedctx // that of the session's own life
	cancel   context.CancelCauseFunc
	done     chan struct{}

	mu        sync.Mutex
	migrating bool   // the launcher was asked to move the guest
	aborted   string // why, when that came before it was asked; "": nobody has
	carried   *carried
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

// Outcome is how it has ended, once it has.
func (s *Session) Outcome() contract.MigrationOutcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outcome
}

// Progress is what the launcher said last; zero: nothing yet.
func (s *Session) Progress() contract.MigrationProgress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress
}

// UnderWay says that it has not ended.
func (s *Session) UnderWay() bool {
	_, over := s.ended()
	return !over
}

func (s *Session) ended() (at time.Time, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endedAt, !s.endedAt.IsZero()
}

// Abort has the migration abort and returns when the session has ended, whatever its outcome then is: past a certain
// point the guest leaves all the same.
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
		select { // the launcher may have been asked to migrate and not to have heard of it yet
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

func (s *Session) setCarried(c *carried) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carried = c
}

// cut ends the streams that there are.
func (s *Session) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.carried != nil {
		s.log.Warn().Msg("the migration is not aborted in time; cutting its streams")
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
		Msg("a migration has ended at its source")
	tidy()
	s.cancel(nil)
}

// move returns how the migration has ended, and what is left to be done then.
func (s *Session) move(ctx context.Context) (o contract.MigrationOutcome, tidy func()) {
	control, err := s.prepare(ctx)
	if err != nil {
		return s.stayed(err), func() {}
	}
	carried := s.carryStreams(ctx)
	if !s.mayMigrate() {
		o = s.stayed(nil)
		s.withdraw(ctx, control, o.Reason)
		return o, func() { carried.end(0) }
	}
	s.setCarried(carried)
	left, err := s.source.Migrate(ctx, s.note)
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
		return o, func() { carried.end(lingering) }
	}
	o.Result, o.Target, o.Stats.DowntimeMs = contract.ResultMoved, &resumed.Domain, downtime
	// What has been sent and not what libvirt has counted: a copy may have ended before it was asked once.
	o.Stats.Bytes = max(o.Stats.Bytes, s.sent.Load())
	return o, func() {
		carried.end(lingering)
		control.Close() // and the target cuts what is left
	}
}

// stayed is the outcome of a migration that the launcher was not asked for.
func (s *Session) stayed(err error) contract.MigrationOutcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aborted != "" {
		return contract.MigrationOutcome{Result: contract.ResultStayed, Reason: s.aborted, Aborted: true}
	}
	return contract.MigrationOutcome{Result: contract.ResultStayed, Reason: err.Error()}
}

// mayMigrate says whether nobody has asked for an abort. From now on only the launcher can.
func (s *Session) mayMigrate() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.migrating = s.aborted == ""
	return s.migrating
}

// note takes what the launcher says. It aborts by itself, too; a libvirt that waits for a target that is gone ends then
// only when its streams are cut.
func (s *Session) note(p contract.MigrationProgress) {
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

// prepare has the target made ready.
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

// withdraw tells the target that nobody comes. It is told even when ctx has ended.
func (s *Session) withdraw(ctx context.Context, control *migration.Controller, why string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	if err := control.Withdraw(ctx, why); err != nil {
		s.log.Warn().Err(err).Msg("the target was not told that the guest stays")
	}
	control.Close()
}

// resume has the guest go on at the target, over another connection where the one that was there is broken; it returns
// the one that is not. downtime is for how long the guest stood still, in milliseconds; 0: not known.
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
		s.log.Warn().Err(err).Msg("the target does not answer whether the guest goes on; asking again")
		select {
		case <-ctx.Done():
			return out, 0, nil, err
		case <-time.After(retryInterval):
		}
	}
}

// downtimeOf is for how long a guest stood still, in milliseconds and by the source's clock: what the target took lies
// in the middle between question and answer.
func downtimeOf(stopped, asked, answered time.Time, took time.Duration) int64 {
	if stopped.IsZero() {
		return 0
	}
	way := max(0, answered.Sub(asked)-took) / 2 //nolint:mnd // half of there and back
	return max(0, asked.Add(way+took).Sub(stopped).Milliseconds())
}

// carried are the streams of a session.
type carried struct {
	ask, cut        context.CancelFunc
	asking, streams sync.WaitGroup
}

// end asks the launcher for no stream any more, waits so long for those that there are to end by themselves, and cuts
// the rest. It returns when nothing is left.
func (c *carried) end(limit time.Duration) {
	c.ask()
	c.asking.Wait()
	late := time.AfterFunc(limit, c.cut)
	defer late.Stop()
	c.streams.Wait()
	c.cut()
}

// carryStreams carries what libvirt and QEMU open.
func (s *Session) carryStreams(ctx context.Context) *carried {
	ctx, cut := context.WithCancel(ctx)
	asking, ask := context.WithCancel(ctx)
	all := &carried{ask: ask, cut: cut}
	open := make(chan struct{}, migration.MaxStreams)
	for _, c := range migration.Streams() {
		all.asking.Go(func() {
			for asking.Err() == nil {
				stream, err := s.source.Stream(asking, c)
				if err != nil {
					s.log.Debug().Err(err).Str("channel", string(c)).
						Msg("the launcher hands over no stream; asking again")
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

// carry returns when the stream has reached the target's launcher: QEMU takes the first connection of a memory's
// several for the main one, so their order has to be the same at both ends. ended is called when the stream has.
func (c *carried) carry(
	ctx context.Context, s *Session, channel migration.Channel, stream *net.UnixConn, ended func(),
) {
	dialing, cancel := context.WithTimeout(ctx, answerLimit)
	conn, err := s.identity.Dial(dialing, s.target, channel)
	cancel()
	if err != nil {
		s.log.Warn().Err(err).Str("channel", string(channel)).Msg("a stream of a migration does not reach the target")
		migration.Cut(stream) // which libvirt notices
		ended()
		return
	}
	var to migration.Stream = conn
	if channel == migration.Disks {
		to = &prompt{Conn: conn, limit: answerLimit}
	}
	c.streams.Go(func() {
		defer ended()
		carry(ctx, s.log, channel, counted{stream, s.traffic, &s.sent}, to)
	})
}

// answerLimit is how long a target may take to take a stream, and to say the first word of a disk's. QEMU waits for
// that with all else at a standstill, the guest included.
const answerLimit = 5 * time.Second

// prompt is a connection whose other end has to say something soon.
type prompt struct {
	*tls.Conn
	limit time.Duration
	said  bool
}

// Read fails when nothing has ever been said within the limit.
func (p *prompt) Read(b []byte) (int, error) {
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
