package migrate

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/internal/streams/migration"
	"github.com/virtflow/virtflow/workers/node/launchers"
)

// launcherTimeout is how long the target's launcher may take to connect to libvirt or QEMU beside it.
const launcherTimeout = 5 * time.Second

// Launcher hands over the streams of a guest that is moved.
type Launcher interface {
	// Stream returns a connected stream: at the source the next that libvirt or QEMU opens, for which it waits until
	// ctx ends; at the target a new one.
	Stream(ctx context.Context, c migration.Channel) (*net.UnixConn, error)
}

// Streams gets the streams of one migration from the launcher of a pod.
type Streams struct {
	Dialer    launchers.Dialer
	Pod       string // UID
	Migration string // UID
	Side      launchers.Side
}

// Stream implements Launcher.
func (s Streams) Stream(ctx context.Context, c migration.Channel) (*net.UnixConn, error) {
	return s.Dialer.Stream(ctx, s.Pod,
		launchers.StreamRequest{Migration: s.Migration, Channel: string(c), Side: s.Side})
}

// target is a migration that may arrive.
type target struct {
	Preparation
	log      zerolog.Logger
	traffic  traffic
	identity *migration.Identity
	ctx      context.Context // its streams end with it
	cancel   context.CancelCauseFunc
	expiry   *time.Timer

	mu      sync.Mutex
	streams int
	control context.CancelCauseFunc // ends the control channel; nil: there is none
	work    sync.WaitGroup          // its streams
}

func newTarget(log zerolog.Logger, p Preparation, identity *migration.Identity) *target {
	t := &target{Preparation: p, identity: identity, log: log.With().Str("migration_uid", p.UID).Logger()}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	return t
}

// renew sends what comes from now on to the launcher of a newer preparation. The expiry stays.
func (t *target) renew(p Preparation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Files, t.Receiver = p.Files, p.Receiver
}

// end cuts its streams; no stream can join afterwards.
func (t *target) end(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel(why)
	t.expiry.Stop()
}

// accept accepts a connection of a target that find returns.
func accept(
	ctx context.Context, conn net.Conn, find func(uid string) *target,
) (*tls.Conn, migration.Channel, error) {
	return migration.Accept(ctx, conn, func(uid string) *tls.Config {
		if t := find(uid); t != nil {
			return t.identity.Server(t.Source)
		}
		return nil
	})
}

// serve answers a request for a channel, carries its bytes until it ends, and then reports whether the migration is
// over.
func (t *target) serve(conn *tls.Conn, c migration.Channel) (over bool) {
	leave, err := t.join(c)
	if err != nil {
		t.refuse(conn, c, err)
		return false
	}
	defer leave()
	if c == migration.Control {
		return t.serveControl(conn)
	}
	t.mu.Lock()
	receiver := t.Receiver
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.ctx, launcherTimeout)
	stream, err := receiver.Stream(ctx, c)
	cancel()
	if err != nil {
		t.refuse(conn, c, err)
		return false
	}
	if err := grant(conn); err != nil {
		migration.Cut(conn)
		migration.Cut(stream)
		return false
	}
	carry(t.ctx, t.log, c, conn, countedStream{stream, t.traffic, nil})
	return false
}

func (t *target) serveControl(conn *tls.Conn) (over bool) {
	ctx, cancel := context.WithCancelCause(t.ctx)
	defer cancel(nil)
	t.mu.Lock()
	before, files, receiver := t.control, t.Files, t.Receiver
	t.control = cancel
	t.mu.Unlock()
	if before != nil {
		before(errTakeOver) // the source has lost that connection, or it would not ask for another
	}
	if err := grant(conn); err != nil {
		migration.Cut(conn)
		return false
	}
	over, err := migration.Serve(ctx, conn, files, receiver)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	t.log.Info().Err(err).Bool("complete", over).Msg("observed end of the migration's control channel from the source")
	return over
}

// join counts one more stream, until leave is called. There is always one control channel, so it is not counted.
func (t *target) join(c migration.Channel) (leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return nil, context.Cause(t.ctx)
	}
	n := 1
	if c == migration.Control {
		n = 0
	}
	if t.streams+n > migration.MaxStreams {
		return nil, errTooMany
	}
	t.streams += n
	t.work.Add(1)
	return func() {
		t.mu.Lock()
		t.streams -= n
		t.mu.Unlock()
		t.work.Done()
	}, nil
}

func (t *target) refuse(conn *tls.Conn, c migration.Channel, err error) {
	t.log.Warn().Err(err).Str("channel", string(c)).Msg("refused a stream of a migration")
	_ = migration.Refuse(conn, err.Error()) // within conn's deadline
	conn.Close()
}

// grant answers that the channel's bytes follow, for which there is no deadline.
func grant(conn *tls.Conn) error {
	if err := migration.Grant(conn); err != nil {
		return fmt.Errorf("granting a stream: %w", err)
	}
	return conn.SetDeadline(time.Time{})
}

// carry carries a stream's bytes until it ends. A migration that fails ends with a cut stream, and some daemons end
// every connection like that.
func carry(ctx context.Context, log zerolog.Logger, c migration.Channel, a, b migration.Stream) {
	begun := time.Now()
	log.Debug().Str("channel", string(c)).Msg("began a stream of a migration")
	moved, err := migration.Pipe(ctx, a, b)
	log.Info().Err(err).Str("channel", string(c)).Int64("there", moved.There).Int64("back", moved.Back).
		Dur("took", time.Since(begun)).Msg("ended a stream of a migration")
}
