package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/streams/migration"
	"github.com/virtflow/virtflow/workers/node/launchers"
)

// launcherSilence is how long a launcher that moves its guest may be unreachable before the outcome counts as unknown
// here.
const launcherSilence = 15 * time.Second

// Leaving is the launcher of a pod whose guest leaves this node.
type Leaving struct {
	Streams
	Options launchers.MoveOptions
}

// NewLeaving returns the source of a migration.
func NewLeaving(d launchers.Dialer, pod, uid string, options launchers.MoveOptions) Leaving {
	return Leaving{
		Streams: Streams{Dialer: d, Pod: pod, Migration: uid, Side: launchers.SideSource}, Options: options,
	}
}

var _ Source = Leaving{}

// Files implements Source.
func (l Leaving) Files(ctx context.Context) ([]migration.Content, error) {
	launcher, err := l.Dialer.Connect(ctx, l.Pod)
	if err != nil {
		return nil, err
	}
	defer launcher.Close()
	offer, err := launcher.DescribeMigration(ctx)
	if err != nil {
		return nil, err
	}
	var out []migration.Content
	for _, f := range offer.Files {
		c, err := launcher.ReadFile(ctx, f)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// Migrate implements Source. It reconnects when the connection breaks: the launcher continues in that time, though not
// for long when no connection follows it.
func (l Leaving) Migrate(
	ctx context.Context, progress func(contract.MigrationProgress),
) (Departure, error) {
	begun, answered := false, time.Now()
	for {
		d, err := l.follow(ctx, func(p contract.MigrationProgress) {
			begun, answered = true, time.Now()
			progress(p)
		})
		var refused *launchers.RefusedError
		switch {
		case err == nil:
			return d, nil
		case errors.As(err, &refused) && !begun: // nothing was moved
			return Departure{Reason: refused.Message}, nil
		case ctx.Err() != nil || errors.As(err, &refused) || time.Since(answered) > launcherSilence:
			return Departure{}, err
		}
		select {
		case <-ctx.Done():
			return Departure{}, err
		case <-time.After(retryInterval):
		}
	}
}

func (l Leaving) follow(ctx context.Context, progress func(contract.MigrationProgress)) (Departure, error) {
	launcher, err := l.Dialer.Connect(ctx, l.Pod)
	if err != nil {
		return Departure{}, err
	}
	defer launcher.Close()
	return launcher.Migrate(ctx, l.Migration, l.Options, progress)
}

// Abort implements Source.
func (l Leaving) Abort(ctx context.Context, why string) (found bool, err error) {
	launcher, err := l.Dialer.Connect(ctx, l.Pod)
	if err != nil {
		return false, err
	}
	defer launcher.Close()
	return launcher.AbortMigration(ctx, l.Migration, why)
}

// Begun returns the progress of a migration that the launcher was asked for, by any caller; nil: it never was.
func (l Leaving) Begun(ctx context.Context) (*launchers.MigrationStatus, error) {
	launcher, err := l.Dialer.Connect(ctx, l.Pod)
	if err != nil {
		return nil, err
	}
	defer launcher.Close()
	s, err := launcher.MigrationStatus(ctx)
	if err != nil || s.Migration != l.Migration || !s.Source {
		return nil, err
	}
	return &s, nil
}

// End ends a migration without a session: its streams are gone, so it cannot succeed any more, unless it has already.
func (l Leaving) End(ctx context.Context) (contract.MigrationOutcome, error) {
	for {
		s, err := l.Begun(ctx)
		switch {
		case err != nil:
			return contract.MigrationOutcome{}, err
		case s == nil:
			return contract.MigrationOutcome{}, fmt.Errorf("the launcher of pod %s has lost the migration", l.Pod)
		case s.Departure != nil:
			return Outcome(*s.Departure), nil
		}
		if _, err := l.Abort(ctx, "the node's worker that carried it was restarted"); err != nil {
			return contract.MigrationOutcome{}, err
		}
		select {
		case <-ctx.Done():
			return contract.MigrationOutcome{}, context.Cause(ctx)
		case <-time.After(retryInterval):
		}
	}
}

// Outcome returns what the source knows of a migration that has ended: not whether the target's guest has resumed.
func Outcome(d Departure) contract.MigrationOutcome {
	o := contract.MigrationOutcome{
		Result: contract.ResultStayed, Reason: d.Reason, Aborted: d.Aborted, Stats: d.Stats, Mode: d.Mode,
		Proof: d.Left,
	}
	switch {
	case d.Left != nil:
		o.Result = contract.ResultSourceOff
	case d.Ended:
		o.Result = contract.ResultGuestEnded
	}
	return o
}
