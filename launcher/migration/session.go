package migration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/rpc"
)

const (
	sampleInterval = 400 * time.Millisecond
	// lookInterval is between two looks at a domain whose migration has ended, until what became of it is certain.
	lookInterval = 50 * time.Millisecond
	// followLimit is how long a migration goes on that nobody follows: its streams end with the node's worker.
	followLimit = 15 * time.Second
	// answerLimit is how long libvirt may take to say how a dead QEMU has ended.
	answerLimit = 5 * time.Second
)

// Hypervisor is what a session needs of libvirt.
type Hypervisor interface {
	// Migrate returns when the move has ended, whichever way.
	Migrate(move guest.Move) error
	AbortMigration() error
	SetMigrationBandwidth(bytes int64) error
	SetMigrationDowntime(limit time.Duration) error
	// Copying is how far the move is; false: it does not copy.
	Copying() (guest.Copying, bool, error)
	// Phase of the move, as libvirt has written it down.
	Phase() string
	// StoppedAt is when the guest last stood still because it was about to leave, in milliseconds since 1970; 0: never.
	StoppedAt() int64
	// Ended is closed when QEMU is dead, unless ctx ends before.
	Ended(ctx context.Context) (<-chan struct{}, error)
	// Look reads the domain's state.
	Look() (guest.Status, error)
	Suspend() error
	Resume() error
}

// Session is one move of the guest, seen from its source.
type Session struct {
	// Migration is the UID of the VirtualMachineInstanceMigration.
	Migration string

	hypervisor Hypervisor
	move       guest.Move
	options    *rpc.MigrationOptions
	paused     bool // by the user, before it began
	log        zerolog.Logger
	begun      time.Time
	// The samples' own.
	monitor Monitor

	tuning   sync.Mutex    // held while libvirt is told, so that the last word is the last to arrive
	downtime time.Duration // how long libvirt knows that the guest may stand still
	fixed    bool          // somebody has said how long

	mu        sync.Mutex
	progress  *rpc.MigrationProgress
	outcome   *rpc.MigrationEvent // nil: it goes on
	changed   chan struct{}       // closed and replaced with each change
	followers int
	alone     time.Time // since when there are none
	aborted   string    // why
	asked     bool      // aborted because somebody asked for it
	disrupted bool      // the guest was paused so that it ends
	aborting  bool      // a call is under way
}

// NewSession prepares a move. paused: the user has paused the guest, which stays so.
func NewSession(
	uid string, h Hypervisor, move guest.Move, options *rpc.MigrationOptions, paused bool, log zerolog.Logger,
) *Session {
	now := time.Now()
	return &Session{
		Migration: uid, hypervisor: h, move: move, options: options, paused: paused, log: log, begun: now, alone: now,
		changed: make(chan struct{}), monitor: Monitor{Limits: Limits{
			Completion: time.Duration(options.GetCompletionSeconds()) * time.Second,
			Progress:   time.Duration(options.GetProgressSeconds()) * time.Second,
			Disruption: options.GetAllowDisruption(),
		}},
		progress: &rpc.MigrationProgress{
			Migration: uid, Role: rpc.MigrationRole_MIGRATION_ROLE_SOURCE, Since: now.UnixMilli(),
			Mode: rpc.MigrationMode_MIGRATION_MODE_PRE_COPY,
		},
	}
}

// Run moves the guest and returns how that ended, which is certain then. It ends with ctx at the latest, without an
// outcome. libvirt's part in it may go on when the guest has left.
func (s *Session) Run(ctx context.Context) *rpc.MigrationEvent {
	outcome := s.run(ctx)
	if outcome == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcome = outcome
	s.wake()
	return outcome
}

func (s *Session) run(ctx context.Context) *rpc.MigrationEvent {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	dead, err := s.hypervisor.Ended(watching)
	if err != nil {
		// It only takes longer then: libvirt's word will do.
		s.log.Warn().Err(err).Msg("the end of QEMU cannot be seen")
	}
	returned := make(chan error, 1)
	go func() {
		s.limitDowntime(0) // before: of a small guest the first round is the last
		returned <- s.hypervisor.Migrate(s.move)
	}()
	// Beside this: libvirt answers nothing about a domain while it waits for the end of its QEMU, and that end is what
	// the target waits for.
	go s.samples(watching)
	select {
	case <-dead:
		return s.ended(ctx)
	case err := <-returned:
		return s.settle(ctx, dead, err)
	case <-ctx.Done():
		return nil
	}
}

// ended finds out what became of the guest whose QEMU is dead. Where the target had confirmed before, libvirt was about
// to kill QEMU, and the guest is the target's, however QEMU has died.
func (s *Session) ended(ctx context.Context) *rpc.MigrationEvent {
	phase := s.hypervisor.Phase()
	s.log.Info().Str("migration", s.Migration).Str("phase", phase).Msg("QEMU is dead")
	if phase == guest.PhaseConfirmed {
		return s.left(rpc.MigrationProof_MIGRATION_PROOF_PROCESS)
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	for ctx.Err() == nil {
		state := make(chan guest.State, 1)
		go func() { // libvirt may hang
			st, err := s.hypervisor.Look()
			if err != nil {
				st.State = guest.Absent
			}
			state <- st.State
		}()
		select {
		case st := <-state:
			if st == guest.Migrated {
				return s.left(rpc.MigrationProof_MIGRATION_PROOF_LIBVIRT)
			}
			if st.Ended() {
				return guestEnded(st)
			}
		case <-ctx.Done():
		}
		time.Sleep(lookInterval)
	}
	return guestEnded(guest.Gone)
}

// settle finds out what is true once libvirt has returned: neither its success nor its error says where the guest is.
// Nor does the domain's state while libvirt still has a job, as after a restart.
func (s *Session) settle(ctx context.Context, dead <-chan struct{}, returned error) *rpc.MigrationEvent {
	s.log.Info().Err(returned).Str("migration", s.Migration).Msg("libvirt's migration has ended")
	for {
		select {
		case <-dead:
			return s.ended(ctx)
		case <-ctx.Done():
			return nil
		default:
		}
		st, err := s.hypervisor.Look()
		phase := s.hypervisor.Phase()
		switch {
		case err != nil:
		case st.State == guest.Migrated:
			return s.left(rpc.MigrationProof_MIGRATION_PROOF_LIBVIRT)
		case st.State.Ended():
			return guestEnded(st.State)
		case phase != "": // libvirt is not done
		case st.State != guest.Paused, s.paused, st.PauseReason != guest.ByMigration && !s.resumes(st):
			return s.stayed(returned)
		default:
			// Paused, and nothing is under way that would go on: libvirt has left it to us, or we have paused it. No
			// proof was given, so the guest is nowhere else.
			if err := s.hypervisor.Resume(); err != nil && !errors.Is(err, guest.ErrUnavailable) {
				s.log.Warn().Err(err).Msg("the guest that stays does not go on")
			}
		}
		time.Sleep(lookInterval)
	}
}

// resumes says that a guest that stays is paused only because this session has paused it.
func (s *Session) resumes(st guest.Status) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.disrupted && !s.paused && st.State == guest.Paused && st.PauseReason == guest.ByUser
}

// samples looks how far it is until ctx ends.
func (s *Session) samples(ctx context.Context) {
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.sample(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// sample looks how far it is, and does what the monitor says.
func (s *Session) sample(ctx context.Context) {
	c, ok, err := s.hypervisor.Copying()
	if ctx.Err() != nil {
		return
	}
	if err != nil && !errors.Is(err, guest.ErrUnavailable) {
		s.log.Debug().Err(err).Msg("how far the migration is, is not known")
	}
	if ok {
		s.limitDowntime(c.Iteration)
	}
	now := time.Now()
	s.mu.Lock()
	if ok {
		p := proto.CloneOf(s.progress)
		p.Total, p.Processed, p.Remaining = c.Total, c.Processed, c.Remaining
		p.DirtyRate, p.Rate, p.Iteration = c.DirtyRate, c.Rate, int32(c.Iteration) //nolint:gosec // counts rounds
		p.DowntimeMs = c.DowntimeMs
		if !proto.Equal(p, s.progress) {
			s.progress = p
			s.wake()
		}
	}
	alone := s.followers == 0 && now.Sub(s.alone) > followLimit
	s.mu.Unlock()
	decision := s.monitor.Look(now.Sub(s.begun), c, ok)
	switch {
	case decision.Abort != "":
		s.Abort(decision.Abort, false)
	case alone:
		s.Abort("nobody follows it", false)
	case decision.Pause:
		if err := s.Disrupt(); err != nil {
			s.log.Warn().Err(err).Msg("the guest is not paused for its migration")
		}
	}
}

// limitDowntime tells libvirt how long the guest may stand still in that round, unless somebody has said it.
func (s *Session) limitDowntime(iteration int) {
	limit := downtimeLimit(time.Duration(s.options.GetMaxDowntimeMs())*time.Millisecond, iteration)
	s.tuning.Lock()
	defer s.tuning.Unlock()
	if s.fixed || s.downtime == limit {
		return
	}
	if err := s.hypervisor.SetMigrationDowntime(limit); err != nil { // the next look tries it again
		s.log.Warn().Err(err).Dur("limit", limit).Msg("libvirt does not learn how long the guest may stand still")
		return
	}
	s.downtime = limit
}

// SetDowntime is how long the guest may stand still, from now on and in each round.
func (s *Session) SetDowntime(limit time.Duration) error {
	s.tuning.Lock()
	defer s.tuning.Unlock()
	if err := s.hypervisor.SetMigrationDowntime(limit); err != nil {
		return err
	}
	s.fixed = true
	return nil
}

// Abort has libvirt abort the move. The outcome says whether that came in time. asked: by somebody outside.
func (s *Session) Abort(why string, asked bool) {
	s.mu.Lock()
	if s.aborted == "" {
		s.aborted, s.asked = why, asked
		s.progress = proto.CloneOf(s.progress)
		s.progress.Aborting = why
		s.wake()
	}
	busy := s.aborting || s.outcome != nil
	s.aborting = true
	s.mu.Unlock()
	if busy {
		return
	}
	s.log.Info().Str("migration", s.Migration).Str("why", why).Msg("aborting the migration")
	go func() {
		if err := s.hypervisor.AbortMigration(); err != nil {
			s.log.Warn().Err(err).Msg("the migration is not aborted")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.aborting = false
	}()
}

// Disrupt pauses the guest, so that the rest is copied without changing.
func (s *Session) Disrupt() error {
	s.mu.Lock()
	s.disrupted = true
	s.progress = proto.CloneOf(s.progress)
	s.progress.Mode = rpc.MigrationMode_MIGRATION_MODE_PAUSED
	s.wake()
	s.mu.Unlock()
	return s.hypervisor.Suspend()
}

// Progress is the newest.
func (s *Session) Progress() *rpc.MigrationProgress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress
}

// Outcome is how it ended; nil: it goes on.
func (s *Session) Outcome() *rpc.MigrationEvent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outcome
}

// Follow tells how the move goes until it has ended or ctx does.
func (s *Session) Follow(ctx context.Context, send func(*rpc.MigrationEvent) error) error {
	s.mu.Lock()
	s.followers++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.followers--
		s.alone = time.Now()
	}()
	for {
		s.mu.Lock()
		progress, outcome, changed := s.progress, s.outcome, s.changed
		s.mu.Unlock()
		if outcome != nil {
			return send(outcome)
		}
		if err := send(&rpc.MigrationEvent{Event: &rpc.MigrationEvent_Progress{Progress: progress}}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wake has mu.
func (s *Session) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Paused says that the user had paused the guest before.
func (s *Session) Paused() bool { return s.paused }

func (s *Session) left(proof rpc.MigrationProof) *rpc.MigrationEvent {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := &rpc.MigrationLeft{Proof: proof, Paused: s.paused, Stats: &rpc.MigrationStats{
		TotalMs: time.Since(s.begun).Milliseconds(), Bytes: s.progress.GetProcessed(),
		Iterations: int64(s.progress.GetIteration()), Mode: s.progress.GetMode(),
	}}
	if at := s.hypervisor.StoppedAt(); at >= s.begun.UnixMilli() {
		left.StoppedAt = at
	}
	return &rpc.MigrationEvent{Event: &rpc.MigrationEvent_Left{Left: left}}
}

func (s *Session) stayed(returned error) *rpc.MigrationEvent {
	s.mu.Lock()
	defer s.mu.Unlock()
	stayed := &rpc.MigrationStayed{Reason: s.aborted, Aborted: s.asked}
	if stayed.Reason == "" {
		stayed.Reason = "libvirt has resumed the guest at its source"
		if returned != nil {
			stayed.Reason = fmt.Sprint(returned)
		}
	}
	return &rpc.MigrationEvent{Event: &rpc.MigrationEvent_Stayed{Stayed: stayed}}
}

func guestEnded(how guest.State) *rpc.MigrationEvent {
	return &rpc.MigrationEvent{Event: &rpc.MigrationEvent_Ended{Ended: &rpc.MigrationGuestEnded{Reason: string(how)}}}
}
