package migrate

import (
	"context"
	"errors"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/streams/migration"
	"github.com/virtflow/virtflow/workers/node/launchers"
)

// Arriving is the launcher of a pod that receives a guest.
type Arriving struct {
	Streams
	// Interfaces are prepared for the guest in the pod.
	Interfaces []launchers.Interface
	// Disks are those of the source.
	Disks []contract.MigrationDisk
}

// NewArriving returns the target of a migration.
func NewArriving(d launchers.Dialer, pod, uid string) Arriving {
	return Arriving{Streams: Streams{Dialer: d, Pod: pod, Migration: uid, Side: launchers.SideTarget}}
}

var _ Receiver = Arriving{}

// Prepare implements Receiver.
func (a Arriving) Prepare(ctx context.Context, files []migration.Content) error {
	return a.retry(ctx, prepareTimeout, func(ctx context.Context, l *launchers.Launcher) error {
		_, err := l.PrepareTarget(ctx, launchers.Target{
			Migration: a.Migration, Interfaces: a.Interfaces, Disks: a.Disks, Files: files,
		})
		return err
	})
}

// Resume implements Receiver.
func (a Arriving) Resume(ctx context.Context, p migration.Proof) (d contract.DomainObservation, err error) {
	err = a.retry(ctx, resumeTimeout, func(ctx context.Context, l *launchers.Launcher) error {
		d, err = l.FinishMigration(ctx, a.Migration, p)
		return err
	})
	return d, err
}

// Withdraw implements Receiver. A launcher that does not run has no guest, and gets none any more.
func (a Arriving) Withdraw(ctx context.Context, _ string) error {
	err := a.retry(ctx, withdrawTimeout, func(ctx context.Context, l *launchers.Launcher) error {
		return l.WithdrawTarget(ctx, a.Migration)
	})
	if errors.Is(err, launchers.ErrAbsent) {
		return nil
	}
	return err
}

// retry calls the launcher until it succeeds or refuses, or is gone.
func (a Arriving) retry(
	ctx context.Context, limit time.Duration, ask func(context.Context, *launchers.Launcher) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		l, err := a.Dialer.Connect(ctx, a.Pod)
		if err == nil {
			err = ask(ctx, l)
			l.Close()
		}
		if err == nil || errors.As(err, new(*launchers.RefusedError)) || errors.Is(err, launchers.ErrAbsent) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryInterval):
		}
	}
}
