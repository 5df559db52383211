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
	// lookInterval is the time between two reads of a domain whose migration has ended, until the outcome is certain.
	lookInterval = 50 * time.Millisecond
	// followLimit is how long a migration continues without a follower: its streams end with the node worker.
	followLimit = 15 * time.Second
	// answerLimit is the time that libvirt has to report how a dead QEMU has ended.
	answerLimit = 5 * time.Second
)

// Hypervisor has the calls to libvirt that a session makes.
type Hypervisor interface {
	// Migrate returns when the move has ended, in success or failure.
	Migrate(move guest.Move) error
	AbortMigration() error
	SetMigrationBandwidth(bytes int64) error
	SetMigrationDowntime(limit time.Duration) error
	// Copying returns the progress of the copy; false if none is running.
	Copying() (guest.Copying, bool, error)
	// Phase returns the phase of the move, from libvirt's status file.
	Phase() string
	// StoppedAt returns when the guest last stopped in order to leave, in milliseconds since 1970; 0 if it never did.
	StoppedAt() int64
	// Ended returns a channel that is closed when QEMU is dead, unless ctx ends before.
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
	paused     bool // by the user, before the move began
	log        zerolog.Logger
	begun      time.Time
	// The following belong to the sampling.
	monitor Monitor

	tuning   sync.Mutex    // held during the call to libvirt, so that calls arrive in order
	downtime time.Duration // the downtime limit that libvirt has
	fixed    bool          // a caller has set the limit

	mu        sync.Mutex
	progress  *rpc.MigrationProgress
	outcome   *rpc.MigrationEvent // nil: it is in progress
	changed   chan struct{}       // closed and replaced with each change
	followers int
	// lastFollowed is when the last follower left, or the session began: it counts while followers is 0.
	lastFollowed time.Time
	aborted      string // why
	asked        bool   // a caller requested the abort
	disrupted    bool   // the guest was paused so that the move ends
	aborting     bool   // a call to libvirt is running
}

// NewSession prepares a move. paused means that the user has paused the guest; it then stays paused.
func NewSession(
	uid string, h Hypervisor, move guest.Move, options *rpc.MigrationOptions, paused bool, log zerolog.Logger,
) *Session {
	now := time.Now()
	return &Session{
		Migration: uid, hypervisor: h, move: move, options: options, paused: paused, log: log, begun: now,
		lastFollowed: now, changed: make(chan struct{}), monitor: Monitor{Limits: Limits{
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

// Run moves the guest and returns the outcome, once that is certain. When ctx ends first, it returns without one.
// libvirt's call may still be running when the guest has left.
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
		// The move then takes longer, because it waits for libvirt to return.
		s.log.Warn().Err(err).Msg("failed to watch for the end of QEMU")
	}
	returned := make(chan error, 1)
	go func() {
		s.limitDowntime(0) // set before the copy begins: for a small guest the first round is the last
		returned <- s.hypervisor.Migrate(s.move)
	}()
	// In parallel: libvirt answers nothing about a domain while it waits for the end of its QEMU, and the target waits
	// for that end.
	go s.sampleUntilDone(watching)
	select {
	case <-dead:
		return s.outcomeAfterEnd(ctx)
	case err := <-returned:
		return s.settleOutcome(ctx, dead, err)
	case <-ctx.Done():
		return nil
	}
}

// outcomeAfterEnd determines the outcome for a guest whose QEMU is dead. If the target had confirmed before, libvirt
// was about to kill QEMU, and the guest is the target's, however QEMU has died.
func (s *Session) outcomeAfterEnd(ctx context.Context) *rpc.MigrationEvent {
	phase := s.hypervisor.Phase()
	s.log.Info().Str("migration", s.Migration).Str("phase", phase).Msg("observed end of QEMU")
	if phase == guest.PhaseConfirmed {
		return s.leftEvent(rpc.MigrationProof_MIGRATION_PROOF_PROCESS)
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
				return s.leftEvent(rpc.MigrationProof_MIGRATION_PROOF_LIBVIRT)
			}
			if st.Ended() {
				return endedEvent(st)
			}
		case <-ctx.Done():
		}
		time.Sleep(lookInterval)
	}
	return endedEvent(guest.Gone)
}

// settleOutcome determines the outcome once libvirt has returned: neither its success nor its error proves where the
// guest is. Nor does the domain's state while libvirt still has a job, as after its restart.
func (s *Session) settleOutcome(ctx context.Context, dead <-chan struct{}, returned error) *rpc.MigrationEvent {
	s.log.Info().Err(returned).Str("migration", s.Migration).Msg("returned from libvirt's migration")
	for {
		select {
		case <-dead:
			return s.outcomeAfterEnd(ctx)
		case <-ctx.Done():
			return nil
		default:
		}
		st, err := s.hypervisor.Look()
		phase := s.hypervisor.Phase()
		switch {
		case err != nil:
		case st.State == guest.Migrated:
			return s.leftEvent(rpc.MigrationProof_MIGRATION_PROOF_LIBVIRT)
		case st.State.Ended():
			return endedEvent(st.State)
		case phase != "": // libvirt's job has not ended
		case st.State != guest.Paused, s.paused, st.PauseReason != guest.ByMigration && !s.isToResume(st):
			return s.stayedEvent(returned)
		default:
			// The guest is paused, and no job will resume it: either libvirt has left that to the session, or the
			// session has paused it. No proof was given, so the guest is nowhere else.
			if err := s.hypervisor.Resume(); err != nil && !errors.Is(err, guest.ErrUnavailable) {
				s.log.Warn().Err(err).Msg("failed to resume guest at its source")
			}
		}
		time.Sleep(lookInterval)
	}
}

// isToResume reports whether a guest that stays is paused only because this session has paused it.
func (s *Session) isToResume(st guest.Status) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.disrupted && !s.paused && st.State == guest.Paused && st.PauseReason == guest.ByUser
}

// sampleUntilDone samples the progress until ctx ends.
func (s *Session) sampleUntilDone(ctx context.Context) {
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

// sample reads the progress once, and applies the monitor's decision.
func (s *Session) sample(ctx context.Context) {
	c, ok, err := s.hypervisor.Copying()
	if ctx.Err() != nil {
		return
	}
	if err != nil && !errors.Is(err, guest.ErrUnavailable) {
		s.log.Debug().Err(err).Msg("failed to read progress of migration")
	}
	if ok {
		s.limitDowntime(c.Iteration)
	}
	now := time.Now()
	s.mu.Lock()
	if ok {
		p := proto.CloneOf(s.progress)
		p.Total, p.Processed, p.Remaining = c.Total, c.Processed, c.Remaining
		p.DirtyRate, p.Rate, p.Iteration = c.DirtyRate, c.Rate, int32(c.Iteration)
		p.DowntimeMs = c.DowntimeMs
		if !proto.Equal(p, s.progress) {
			s.progress = p
			s.wake()
		}
	}
	abandoned := s.followers == 0 && now.Sub(s.lastFollowed) > followLimit
	s.mu.Unlock()
	decision := s.monitor.Look(now.Sub(s.begun), c, ok)
	switch {
	case decision.Abort != "":
		s.Abort(decision.Abort, false)
	case abandoned:
		s.Abort(fmt.Sprintf("no node worker has followed the migration for %s", followLimit), false)
	case decision.Pause:
		if err := s.Disrupt(); err != nil {
			s.log.Warn().Err(err).Msg("failed to pause guest for its migration")
		}
	}
}

// limitDowntime sets libvirt's limit for the guest's downtime in that round, unless a caller has set one.
func (s *Session) limitDowntime(iteration int) {
	limit := downtimeLimit(time.Duration(s.options.GetMaxDowntimeMs())*time.Millisecond, iteration)
	s.tuning.Lock()
	defer s.tuning.Unlock()
	if s.fixed || s.downtime == limit {
		return
	}
	if err := s.hypervisor.SetMigrationDowntime(limit); err != nil { // the next sample tries again
		s.log.Warn().Err(err).Dur("limit", limit).Msg("failed to set downtime limit in libvirt")
		return
	}
	s.downtime = limit
}

// SetDowntime sets the downtime limit, from now on and for every round.
func (s *Session) SetDowntime(limit time.Duration) error {
	s.tuning.Lock()
	defer s.tuning.Unlock()
	if err := s.hypervisor.SetMigrationDowntime(limit); err != nil {
		return err
	}
	s.fixed = true
	return nil
}

// Abort has libvirt abort the move. Only the outcome shows whether that came in time. asked means that a caller
// requested it.
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
	s.log.Info().Str("migration", s.Migration).Str("why", why).Msg("aborting migration")
	go func() {
		if err := s.hypervisor.AbortMigration(); err != nil {
			s.log.Warn().Err(err).Msg("failed to abort migration")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.aborting = false
	}()
}

// Disrupt pauses the guest, so that its memory stops changing while the rest is copied.
func (s *Session) Disrupt() error {
	s.mu.Lock()
	s.disrupted = true
	s.progress = proto.CloneOf(s.progress)
	s.progress.Mode = rpc.MigrationMode_MIGRATION_MODE_PAUSED
	s.wake()
	s.mu.Unlock()
	return s.hypervisor.Suspend()
}

// Progress returns the newest progress.
func (s *Session) Progress() *rpc.MigrationProgress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress
}

// Outcome returns the outcome; nil while the move is in progress.
func (s *Session) Outcome() *rpc.MigrationEvent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outcome
}

// Follow sends the progress of the move until it or ctx has ended.
func (s *Session) Follow(ctx context.Context, send func(*rpc.MigrationEvent) error) error {
	s.mu.Lock()
	s.followers++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.followers--
		s.lastFollowed = time.Now()
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

// wake notifies the followers of a change. The caller holds mu.
func (s *Session) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Paused reports whether the user had paused the guest before.
func (s *Session) Paused() bool { return s.paused }

// leftEvent returns the event that the guest has left its source, with the proof.
func (s *Session) leftEvent(proof rpc.MigrationProof) *rpc.MigrationEvent {
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

// stayedEvent returns the event that the guest stays at its source: with the reason of an abort, or libvirt's error.
func (s *Session) stayedEvent(returned error) *rpc.MigrationEvent {
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

// endedEvent returns the event that the guest has ended at its source.
func endedEvent(how guest.State) *rpc.MigrationEvent {
	return &rpc.MigrationEvent{Event: &rpc.MigrationEvent_Ended{Ended: &rpc.MigrationGuestEnded{Reason: string(how)}}}
}
