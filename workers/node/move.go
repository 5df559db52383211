package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	activities "github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/streams/migration"
	"github.com/virtflow/virtflow/workers/node/launchers"
	"github.com/virtflow/virtflow/workers/node/migrate"
)

const (
	// concurrentMoves limits how many guests leave this node at a time, concurrentPreparations how many are described,
	// or prepared as targets, and concurrentMoveCalls the other calls about moves; each is separate, as with starts and
	// operations. A namespace gets half, so all moves that are permitted at a time may be of one.
	concurrentMoves        = 2 * contract.MostMigrationsPerNode
	concurrentPreparations = 2 * contract.MostMigrationsPerNode
	concurrentMoveCalls    = 2 * contract.MostMigrationsPerNode
	// progressInterval is the time between two progress reports of a move to its activity.
	progressInterval = time.Second
	// endTimeout is how long a move without a session may take to end.
	endTimeout = time.Minute
	// abortTimeout is how long an abort is waited for.
	abortTimeout = 20 * time.Second
	// withdrawnFor is how long a withdrawn target is remembered.
	withdrawnFor = 10 * time.Minute
)

// Mover moves guests away from this node, and receives them. It is safe for concurrent use.
type Mover struct {
	Sessions *migrate.Sessions
	Targets  *migrate.Targets

	starter                    *Starter // connects to launchers and prepares pods
	moves, preparations, calls quota
	// withdrawn has the UIDs of pods whose target was withdrawn: a call to prepare one may still be under way.
	withdrawn sync.Map
}

var _ activities.Mover = (*Mover)(nil)

// NewMover returns a Mover. Two calls may follow the move of one pod, since an activity that has timed out may not have
// noticed.
func NewMover(s *Starter, sessions *migrate.Sessions, targets *migrate.Targets) *Mover {
	return &Mover{
		Sessions: sessions, Targets: targets, starter: s,
		moves:        quota{kind: "migration", most: concurrentMoves, inPod: 2},
		preparations: quota{kind: "preparation", most: concurrentPreparations, inPod: 2},
		calls:        quota{kind: "call", most: concurrentMoveCalls, inPod: 2},
	}
}

// begin validates a call about a migration and counts it in the quota of its pod. release ends that; log has the VMI,
// the pod and the migration.
func (m *Mover) begin(q *quota, uid string, vmi, pod contract.Object) (release func(), log zerolog.Logger, err error) {
	switch {
	case !launchers.IsValidPodUID(pod.UID):
		return nil, log, &activities.RefusedError{Message: fmt.Sprintf("%.64q is not the UID of a pod", pod.UID)}
	case !migration.ValidUID(uid):
		return nil, log, &activities.RefusedError{Message: fmt.Sprintf("%.64q is not the UID of a migration", uid)}
	}
	release, err = q.acquire(vmi, pod)
	return release, m.starter.Log.With().Str("namespace", vmi.Namespace).Str("name", vmi.Name).Str("uid", vmi.UID).
		Str("pod_uid", pod.UID).Str("migration_uid", uid).Logger(), err
}

// Offer describes the guest and makes the key of its source.
func (m *Mover) Offer(ctx context.Context, in contract.OfferMigrationInput) (contract.MigrationOffer, error) {
	var none contract.MigrationOffer
	release, log, err := m.begin(&m.preparations, in.Migration.UID, in.VMI, in.Pod)
	if err != nil {
		return none, err
	}
	defer release()
	begun := time.Now()
	launcher, err := m.starter.Dialer.Connect(ctx, in.Pod.UID)
	if err != nil {
		return none, err
	}
	defer launcher.Close()
	offer, err := launcher.DescribeMigration(ctx)
	if err != nil {
		return none, refusal(err)
	}
	fingerprint, err := m.Sessions.Offer(in.Migration.UID, in.Expires)
	switch {
	case errors.Is(err, migrate.ErrStopping): // the next run of the node worker offers it
		return none, err
	case err != nil:
		return none, &activities.RefusedError{Message: err.Error()}
	}
	offer.Fingerprint = string(fingerprint)
	if offer.Addresses, err = m.Targets.SourceAddresses(); err != nil {
		return none, err
	}
	log.Info().Int("disks", len(offer.Disks)).Dur("took", time.Since(begun)).Msg("offered guest for migration")
	return offer, nil
}

// PrepareTarget records whose launcher the pod has, prepares the pod's network, and opens the port for the source. The
// launcher itself is prepared when the source has sent what libvirt does not copy.
func (m *Mover) PrepareTarget(
	ctx context.Context, in contract.PrepareTargetInput,
) (contract.PreparedTarget, error) {
	var none contract.PreparedTarget
	release, log, err := m.begin(&m.preparations, in.Migration.UID, in.VMI, in.Pod)
	if err != nil {
		return none, err
	}
	defer release()
	s := m.starter
	done, err := s.lockPod(ctx, in.Pod.UID)
	if err != nil {
		return none, err
	}
	defer done()
	arriving := migrate.NewArriving(s.Dialer, in.Pod.UID, in.Migration.UID)
	arriving.Disks = in.Offer.Disks
	p := migrate.Preparation{
		UID: in.Migration.UID, Source: migration.Fingerprint(in.Offer.Fingerprint), Files: in.Offer.Files,
		Addresses: migrate.ParseAddresses(in.Offer.Addresses), Expires: in.Expires,
		IsPodGone: func() bool { return launchers.IsPodGone(s.Dialer.KubeletDir, in.Pod.UID) },
	}
	if err := p.Validate(); err != nil {
		return none, &activities.RefusedError{Message: err.Error()}
	}
	if _, err := m.Targets.RequiredAddress(in.Network); err != nil {
		return none, &activities.RefusedError{Message: err.Error()}
	}
	launcher, err := s.reach(ctx, in.Pod.UID)
	if err != nil {
		return none, err
	}
	defer launcher.Close()
	if err := checkExpected(ctx, launcher, in.Migration.UID); err != nil {
		return none, err
	}
	started, err := s.Forwarder.Starting(in.VMI, in.Pod)
	if err != nil {
		return none, err
	}
	defer started(nil)
	if arriving.Interfaces, err = s.Prepare(ctx, launcher); err != nil {
		return none, refusal(err)
	}
	p.Receiver = arriving
	prepared, err := m.Targets.Prepare(p)
	if err != nil {
		return none, err
	}
	if _, gone := m.withdrawn.Load(in.Pod.UID); gone {
		m.Targets.Remove(in.Migration.UID)
		return none, &activities.RefusedError{Message: "the target was withdrawn meanwhile"}
	}
	log.Info().Str("address", prepared.Address).Msg("prepared migration target")
	return contract.PreparedTarget{
		Address: prepared.Address, Fingerprint: string(prepared.Fingerprint), Network: string(prepared.Network),
	}, nil
}

// checkExpected refuses a launcher that has a guest, or waits for another one.
func checkExpected(ctx context.Context, l *launchers.Launcher, uid string) error {
	status, err := l.MigrationStatus(ctx)
	if err != nil {
		return refusal(err)
	}
	if status.Migration == uid && !status.Source {
		return nil
	}
	domain, err := l.Domain(ctx)
	switch {
	case err != nil:
		return err
	case domain.State != contract.DomainAbsent || status.Migration != "":
		return &activities.RefusedError{Message: "the launcher of the target has a guest, or waits for another one"}
	}
	return nil
}

// Migrate moves a guest by a session, which is not this call's: it continues after the end of ctx.
func (m *Mover) Migrate(
	ctx context.Context, in contract.MigrateDomainInput, progress func(contract.MigrationProgress),
) (contract.MigrationOutcome, error) {
	var none contract.MigrationOutcome
	release, _, err := m.begin(&m.moves, in.Migration.UID, in.VMI, in.Pod)
	if err != nil {
		return none, err
	}
	defer release()
	stop := runEvery(progressInterval, func() {
		var p contract.MigrationProgress
		if s := m.Sessions.Get(in.Migration.UID); s != nil {
			p = s.Progress()
		}
		p.UID = in.Migration.UID
		progress(p)
	})
	defer stop()
	session := m.Sessions.Get(in.Migration.UID)
	if session == nil {
		var ended *contract.MigrationOutcome
		if session, ended, err = m.session(ctx, in); err != nil {
			return none, err
		}
		if ended != nil {
			return *ended, nil
		}
	}
	select {
	case <-session.Done():
		return session.Outcome(), nil
	case <-ctx.Done():
		if !session.IsUnderWay() {
			return session.Outcome(), nil
		}
		return none, fmt.Errorf("the migration continues, but this call stopped following it: %w", context.Cause(ctx))
	}
}

// runEvery calls do at once, and then at each interval, until stop is called. When stop returns, do has ended.
func runEvery(interval time.Duration, do func()) (stop func()) {
	do()
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				do()
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}

// session begins a session, or returns the outcome of a migration that has none any more, which its launcher knows.
func (m *Mover) session(
	ctx context.Context, in contract.MigrateDomainInput,
) (*migrate.Session, *contract.MigrationOutcome, error) {
	leaving := migrate.NewLeaving(m.starter.Dialer, in.Pod.UID, in.Migration.UID, launchers.MoveOptions{
		MigrationConfiguration: in.Configuration, CompletionSeconds: in.CompletionSeconds,
	})
	known, err := leaving.Begun(ctx)
	switch {
	case errors.Is(err, launchers.ErrAbsent):
		return nil, &contract.MigrationOutcome{Result: contract.ResultLost, Reason: err.Error()}, nil
	case err != nil:
		return nil, nil, refusal(err)
	case known != nil:
		if other := m.Sessions.Get(in.Migration.UID); other != nil { // begun since
			return other, nil, nil
		}
		ctx, cancel := context.WithTimeout(ctx, endTimeout)
		defer cancel()
		outcome, err := leaving.End(ctx)
		if err != nil {
			outcome = contract.MigrationOutcome{Result: contract.ResultLost, Reason: err.Error()}
		}
		return nil, &outcome, nil
	}
	from, err := m.Targets.RequiredAddress(in.Network)
	if err != nil {
		return nil, &contract.MigrationOutcome{Result: contract.ResultStayed, Reason: err.Error()}, nil
	}
	// A node worker of an earlier version does not know that a network may be required.
	if at := in.Target.Network; in.Network != "" && at != string(migrate.NetworkMigration) {
		return nil, &contract.MigrationOutcome{Result: contract.ResultStayed, Reason: fmt.Sprintf(
			"the target's node worker accepts guests on the network %.32q, but the KubeVirt object "+
				"requires %s: update it", at, in.Network)}, nil
	}
	session, err := m.Sessions.Begin(in.Migration.UID, in.VMI, migration.Peer{
		Address: in.Target.Address, Fingerprint: migration.Fingerprint(in.Target.Fingerprint), From: from,
	}, leaving)
	if errors.Is(err, migrate.ErrNotOffered) {
		return nil, &contract.MigrationOutcome{Result: contract.ResultStayed,
			Reason: "the source's node worker was restarted before the guest was moved"}, nil
	}
	return session, nil, err
}

// Abort has a migration abort, and waits briefly for its end. One that has not begun cannot begin any more.
func (m *Mover) Abort(ctx context.Context, in contract.AbortMigrationInput) (found bool, err error) {
	release, log, err := m.begin(&m.calls, in.Migration.UID, in.VMI, in.Pod)
	if err != nil {
		return false, err
	}
	defer release()
	log.Info().Str("why", in.Why).Msg("aborting migration")
	m.Sessions.Revoke(in.Migration.UID)
	if s := m.Sessions.Get(in.Migration.UID); s != nil {
		if !s.IsUnderWay() {
			return false, nil
		}
		ctx, cancel := context.WithTimeout(ctx, abortTimeout)
		defer cancel()
		if err := s.Abort(ctx, in.Why); err != nil {
			return true, err
		}
		return true, nil
	}
	found, err = migrate.NewLeaving(m.starter.Dialer, in.Pod.UID, in.Migration.UID, launchers.MoveOptions{}).
		Abort(ctx, in.Why)
	if errors.Is(err, launchers.ErrAbsent) || errors.As(err, new(*launchers.RefusedError)) {
		return false, nil // nothing moves there
	}
	return found, err
}

// Adjust changes a migration that is under way.
func (m *Mover) Adjust(ctx context.Context, in contract.AdjustMigrationInput) error {
	release, log, err := m.begin(&m.calls, in.Migration.UID, in.VMI, in.Pod)
	if err != nil {
		return err
	}
	defer release()
	launcher, err := m.starter.Dialer.Connect(ctx, in.Pod.UID)
	if err != nil {
		return err
	}
	defer launcher.Close()
	if in.Bandwidth > 0 {
		err = launcher.LimitMigration(ctx, in.Migration.UID, in.Bandwidth)
	}
	if err == nil && in.Pause {
		err = launcher.PauseMigration(ctx, in.Migration.UID)
	}
	if err != nil {
		log.Warn().Err(err).Int64("bandwidth", in.Bandwidth).Bool("pause", in.Pause).Msg("failed to change migration")
		return refusal(err)
	}
	log.Info().Int64("bandwidth", in.Bandwidth).Bool("pause", in.Pause).
		Msg("changed migration's bandwidth or paused its guest")
	return nil
}

// FinishTarget resumes the guest, and closes the port for its migration, since the source has nothing more to send.
func (m *Mover) FinishTarget(
	ctx context.Context, in contract.FinishTargetInput,
) (contract.DomainObservation, error) {
	release, log, err := m.begin(&m.calls, in.Migration.UID, in.VMI, in.Pod)
	if err != nil {
		return contract.DomainObservation{}, err
	}
	defer release()
	domain, err := migrate.NewArriving(m.starter.Dialer, in.Pod.UID, in.Migration.UID).Resume(ctx, in.Proof)
	if err != nil {
		log.Warn().Err(err).Str("proof", in.Proof.By).Msg("failed to resume guest at migration target")
		return contract.DomainObservation{}, refusal(err)
	}
	log.Info().Str("proof", in.Proof.By).Msg("resumed guest at migration target")
	m.Targets.Remove(in.Migration.UID)
	return domain, nil
}

// WithdrawTarget ends a target whose guest has not resumed there, and closes the port for its migration.
func (m *Mover) WithdrawTarget(ctx context.Context, in contract.WithdrawTargetInput) error {
	release, log, err := m.begin(&m.calls, in.Migration.UID, in.VMI, in.Pod)
	if err != nil {
		return err
	}
	defer release()
	err = migrate.NewArriving(m.starter.Dialer, in.Pod.UID, in.Migration.UID).Withdraw(ctx, "")
	if err != nil {
		log.Warn().Err(err).Msg("failed to withdraw migration target")
		return refusal(err)
	}
	log.Info().Msg("withdrew migration target")
	m.withdrawn.Store(in.Pod.UID, nil)
	time.AfterFunc(withdrawnFor, func() { m.withdrawn.Delete(in.Pod.UID) })
	m.Targets.Remove(in.Migration.UID)
	return nil
}

// Inspect reads the state at one end.
func (m *Mover) Inspect(ctx context.Context, in contract.InspectMigrationInput) (contract.MigrationTruth, error) {
	var truth contract.MigrationTruth
	release, _, err := m.begin(&m.calls, in.Migration.UID, in.VMI, in.Pod)
	if err != nil {
		return truth, err
	}
	defer release()
	if session := m.Sessions.Get(in.Migration.UID); session != nil {
		if truth.Session = session.IsUnderWay(); !truth.Session {
			outcome := session.Outcome()
			truth.Outcome = &outcome
		}
	}
	launcher, err := m.starter.Dialer.Connect(ctx, in.Pod.UID)
	if err != nil {
		truth.Why = err.Error()
		return truth, nil
	}
	defer launcher.Close()
	domain, err := launcher.Domain(ctx)
	if err != nil {
		truth.Why = err.Error()
		return truth, nil
	}
	status, err := launcher.MigrationStatus(ctx)
	if err != nil && !errors.As(err, new(*launchers.RefusedError)) { // that one takes part in none
		truth.Why = err.Error()
		return truth, nil
	}
	truth.Reached, truth.Domain = true, domain
	if status.Migration != in.Migration.UID {
		return truth, nil
	}
	truth.Known, truth.UnderWay, truth.Phase = true, status.UnderWay, status.Phase
	truth.Held, truth.Granted, truth.Resumed = status.Held, status.Granted, status.Resumed
	if truth.Outcome == nil && status.Departure != nil {
		outcome := migrate.Outcome(*status.Departure)
		truth.Outcome = &outcome
	}
	return truth, nil
}

// Shutdown begins no migration any more and returns when those under way have ended. It aborts those that take longer
// than limit, and closes what is prepared.
func (m *Mover) Shutdown(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var both sync.WaitGroup
	both.Go(func() { m.Sessions.Shutdown(ctx) })
	both.Go(func() { m.Targets.Shutdown(ctx) })
	both.Wait()
}

// refusal converts an error that no retry can help to the type that activities return for it.
func refusal(err error) error {
	var refused *launchers.RefusedError
	if errors.As(err, &refused) {
		return &activities.RefusedError{Message: refused.Message}
	}
	return err
}
