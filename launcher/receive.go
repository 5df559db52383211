package launcher

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/launcher/disk"
	"github.com/virtflow/virtflow/launcher/domain"
	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/lifecycle"
	"github.com/virtflow/virtflow/launcher/rpc"
)

const (
	// farewell is how long libvirt outlives a guest that did not arrive. The source's libvirt is still connected, and
	// would report the lost connection as the reason of the failed move.
	farewell = time.Second
	// resumeAgain is the time between attempts to resume a guest that was received: it stands still meanwhile.
	resumeAgain = 100 * time.Millisecond
	// grantPoll is how often a caller that waits for the guest's resumption checks it.
	grantPoll = 5 * time.Millisecond
)

// receiving is the state of a migration at its target.
type receiving struct {
	migration string // "": none was requested
	prepared  bool
	// asked is true once a migration was requested. Such a launcher starts no guest of its own, because the guest may
	// run elsewhere.
	asked   bool
	held    bool // the guest has arrived completely
	granted bool // the guest may run here
	resumed bool // it runs, or stays paused as its user requested
	paused  bool // by its user
}

// isArriving reports whether a guest is expected, or has arrived and does not run yet.
func (r receiving) isArriving() bool { return r.migration != "" && !r.resumed }

func (r receiving) status() *rpc.MigrationStatusResponse {
	if r.migration == "" {
		return &rpc.MigrationStatusResponse{}
	}
	return &rpc.MigrationStatusResponse{
		Migration: r.migration, Role: rpc.MigrationRole_MIGRATION_ROLE_TARGET, UnderWay: !r.held && !r.granted,
		Held: r.held && !r.granted, Granted: r.granted, Resumed: r.resumed,
	}
}

// incomingGuest is a guest to prepare for, with the files that its source carries.
type incomingGuest struct {
	target *rpc.Target
	files  io.Reader
}

// incoming is a migration at its target.
type incoming struct {
	calls       chan call[incomingGuest]
	prepared    chan attempt
	grants      chan call[*rpc.FinishMigrationRequest]
	withdrawals chan call[*rpc.WithdrawTargetRequest]
	pending     call[incomingGuest] // that is being prepared for; of the loop

	mu    sync.Mutex
	state receiving
}

func newIncoming() incoming {
	return incoming{
		calls: make(chan call[incomingGuest]), prepared: make(chan attempt, 1),
		grants:      make(chan call[*rpc.FinishMigrationRequest]),
		withdrawals: make(chan call[*rpc.WithdrawTargetRequest]),
	}
}

func (i *incoming) get() receiving {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.state
}

func (i *incoming) update(change func(*receiving)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change(&i.state)
}

// Prepare implements the service's call.
func (l *Launcher) Prepare(ctx context.Context, t *rpc.Target, files io.Reader) (*rpc.Domain, error) {
	if t.GetMigration() == "" {
		return nil, status.Error(codes.InvalidArgument, "the migration has no UID")
	}
	if err := ask(ctx, l.over, l.incoming.calls, incomingGuest{target: t, files: files}); err != nil {
		return nil, err
	}
	return l.domain.Domain(), nil
}

// acceptReceive checks a request in the loop, and answers a refused one.
func (l *Launcher) acceptReceive(c call[incomingGuest]) lifecycle.Input {
	t, asked := l.incoming.get(), c.request.target
	switch {
	case l.machine.State() == lifecycle.Idle:
		interfaces, err := preparedInterfaces(l.vmi, asked.GetInterfaces())
		if err != nil {
			c.answer <- status.Error(receiveCode(err), err.Error())
			return ""
		}
		l.preparation.interfaces = interfaces
		l.incoming.update(func(t *receiving) { *t = receiving{migration: asked.GetMigration(), asked: true} })
		l.incoming.pending = c
		return lifecycle.ReceiveAsked
	case t.migration == asked.GetMigration() && t.prepared:
		c.answer <- nil
	case t.migration == asked.GetMigration():
		c.answer <- status.Error(codes.Unavailable, "the preparation is already in progress: try again")
	default:
		c.answer <- status.Error(codes.FailedPrecondition, "this launcher has a guest, or is receiving another one")
	}
	return ""
}

// receive prepares to receive a guest. It runs beside the loop.
func (l *Launcher) receive(ctx context.Context, g incomingGuest) {
	begun := time.Now()
	b, err := l.tryReceive(ctx, g.target, g.files)
	log := l.log.With().Dur("took", time.Since(begun)).Str("migration", g.target.GetMigration()).Logger()
	if err == nil {
		log.Info().Msg("prepared to receive guest")
	} else {
		log.Warn().Err(err).Msg("failed to prepare to receive guest")
	}
	l.incoming.prepared <- attempt{built: b, err: err}
}

func (l *Launcher) tryReceive(ctx context.Context, t *rpc.Target, files io.Reader) (*built, error) {
	plan, err := l.plan(l.vmi)
	if err != nil {
		return nil, err
	}
	for _, f := range t.GetFiles() {
		if err := disk.Receive(plan, f.GetName(), f.GetSize(), f.GetSha256(), files); err != nil {
			return nil, err
		}
	}
	plan = disk.Received(plan)
	for _, d := range t.GetDisks() {
		if !d.GetCopied() {
			continue
		}
		if err := disk.Await(plan, d.GetName(), d.GetSizeBytes()); err != nil {
			return nil, err
		}
	}
	if err := l.prepareIncomingState(); err != nil {
		return nil, err
	}
	b, err := l.build(ctx, plan)
	if err != nil {
		return nil, err
	}
	l.fixCarried(b, t)
	disks, err := l.migrationDisks(b)
	if err != nil {
		return nil, err
	}
	if err := compareDisks(t.GetDisks(), disks); err != nil {
		return nil, err
	}
	l.followConsole(ctx, true)
	return b, l.handover.Target(t.GetMigration())
}

// receiveEnded records and answers the result of the preparation, and returns the lifecycle input that follows from it.
func (l *Launcher) receiveEnded(a attempt) lifecycle.Input {
	if a.err != nil {
		l.incoming.update(func(t *receiving) { *t = receiving{asked: true} })
		l.incoming.pending.answer <- status.Error(receiveCode(a.err), a.err.Error())
		return lifecycle.ReceiveFailed
	}
	l.recordBuilt(a.built, func(*rpc.Domain) {})
	l.incoming.update(func(t *receiving) { t.prepared = true })
	l.incoming.pending.answer <- nil
	return ""
}

func receiveCode(err error) codes.Code {
	var invalid *domain.InvalidError
	switch {
	case errors.Is(err, guest.ErrUnavailable), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errOldWorker),
		errors.Is(err, disk.ErrNotGiven):
		return codes.Unavailable
	case errors.As(err, &invalid):
		return codes.InvalidArgument
	}
	return codes.FailedPrecondition
}

// recordArrival records that a guest has been received completely: libvirt then leaves it paused, as after a user's
// pause.
func (l *Launcher) recordArrival(s guest.Status) lifecycle.Input {
	if s.State != guest.Paused || s.PauseReason != guest.ByUser {
		return ""
	}
	l.incoming.update(func(t *receiving) { t.held = true })
	l.handover.Close()
	return lifecycle.Arrived
}

// Finish implements the service's call.
func (l *Launcher) Finish(ctx context.Context, r *rpc.FinishMigrationRequest) (*rpc.Domain, error) {
	if r.GetProof() == rpc.MigrationProof_MIGRATION_PROOF_UNSPECIFIED {
		return nil, status.Error(codes.FailedPrecondition, "nothing proves that the guest has stopped at its source")
	}
	if err := ask(ctx, l.over, l.incoming.grants, r); err != nil {
		return nil, err
	}
	for !l.incoming.get().resumed {
		select {
		case <-time.After(grantPoll):
		case <-l.over:
			return nil, status.Error(codes.FailedPrecondition, "the guest has ended")
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	if l.incoming.get().paused {
		return l.domain.Domain(), nil
	}
	// The next caller must not get the pause that has just ended.
	return l.waitShown(ctx, rpc.Operation_OPERATION_UNPAUSE), nil
}

// grant handles a request in the loop. One that arrives before libvirt has reported the guest waits for that report.
func (l *Launcher) grant(c call[*rpc.FinishMigrationRequest]) lifecycle.Input {
	t := l.incoming.get()
	if t.migration == "" || t.migration != c.request.GetMigration() {
		c.answer <- status.Error(codes.FailedPrecondition, "this launcher has no guest of that migration")
		return ""
	}
	if !t.granted {
		l.incoming.update(func(t *receiving) { t.granted, t.paused = true, c.request.GetPaused() })
		l.log.Info().Str("migration", t.migration).Bool("held", t.held).Msg("received grant to resume guest")
	}
	c.answer <- nil
	if l.machine.State() == lifecycle.Held {
		return lifecycle.Granted
	}
	return ""
}

// resumeGuest prepares the guest's persistent state and resumes it, unless its user has paused it.
func (l *Launcher) resumeGuest(paused bool) error {
	if err := l.adoptState(); err != nil || paused {
		return err
	}
	return l.hypervisor.Resume()
}

// resumeReceived resumes a guest that was received. It runs beside the loop.
func (l *Launcher) resumeReceived() {
	for t := l.incoming.get(); ; {
		err := l.resumeGuest(t.paused)
		if err == nil {
			break
		}
		l.log.Error().Err(err).Msg("failed to resume received guest")
		select {
		case <-time.After(resumeAgain):
		case <-l.over:
			return
		}
	}
	l.incoming.update(func(t *receiving) { t.resumed = true })
	l.log.Info().Msg("resumed received guest")
}

// Withdraw implements the service's call.
func (l *Launcher) Withdraw(ctx context.Context, r *rpc.WithdrawTargetRequest) (*rpc.WithdrawTargetResponse, error) {
	err := ask(ctx, l.over, l.incoming.withdrawals, r)
	if err != nil && !errors.Is(err, errEnding) { // one that has ended has resumed no guest since
		return nil, err
	}
	return &rpc.WithdrawTargetResponse{}, nil
}

// withdraw handles a request in the loop.
func (l *Launcher) withdraw(c call[*rpc.WithdrawTargetRequest]) lifecycle.Input {
	t, idle := l.incoming.get(), l.machine.State() == lifecycle.Idle
	switch {
	case t.granted:
		c.answer <- status.Error(codes.FailedPrecondition, "the guest may already run here")
		return ""
	case t.migration != "" && t.migration != c.request.GetMigration(), !idle && t.migration == "":
		c.answer <- status.Error(codes.FailedPrecondition, "this launcher expects no guest of that migration")
		return ""
	case idle:
		l.end()
	}
	c.answer <- nil
	return lifecycle.Withdraw
}

// checkNotMoving returns an error while the guest is being moved, which forbids other operations.
func (l *Launcher) checkNotMoving() error {
	if l.incoming.get().isArriving() {
		return errors.New("the guest is being received from another node")
	}
	if l.outgoing.current() != nil {
		return errors.New("the guest is being migrated to another node")
	}
	return nil
}
