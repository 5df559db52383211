package node

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/contract"
)

// Mover moves guests away from this node, and receives them. All methods fail with a RefusedError where no retry can
// help.
type Mover interface {
	// Offer makes the key of the source, and describes the guest.
	Offer(ctx context.Context, in contract.OfferMigrationInput) (contract.MigrationOffer, error)
	// PrepareTarget prepares to receive a migration.
	PrepareTarget(ctx context.Context, in contract.PrepareTargetInput) (contract.PreparedTarget, error)
	// Migrate moves a guest, or finds what does so or did, and returns when that has ended. progress is called each
	// second. The end of ctx ends the call only.
	Migrate(ctx context.Context, in contract.MigrateDomainInput, progress func(contract.MigrationProgress),
	) (contract.MigrationOutcome, error)
	// Abort has a migration abort. found reports whether there was something to abort.
	Abort(ctx context.Context, in contract.AbortMigrationInput) (found bool, err error)
	// Adjust changes one that is under way.
	Adjust(ctx context.Context, in contract.AdjustMigrationInput) error
	// FinishTarget lets the guest continue at the target, and returns the domain as it then is.
	FinishTarget(ctx context.Context, in contract.FinishTargetInput) (contract.DomainObservation, error)
	// WithdrawTarget ends a target. A RefusedError means that the guest may run there.
	WithdrawTarget(ctx context.Context, in contract.WithdrawTargetInput) error
	// Inspect reads the state at one end.
	Inspect(ctx context.Context, in contract.InspectMigrationInput) (contract.MigrationTruth, error)
}

// OfferMigration returns what is to be moved, and the key by which the source's node worker will be known. It is
// idempotent: asked again, one run of the node worker gives the same key. Errors: ErrorUnsuitable (not retryable),
// ErrorNoLauncher (retryable).
func (a *Activities) OfferMigration(
	ctx context.Context, in contract.OfferMigrationInput,
) (contract.MigrationOffer, error) {
	if err := checkNamed(in.Migration, in.VMI, in.Pod); err != nil {
		return contract.MigrationOffer{}, err
	}
	offer, err := a.Mover.Offer(ctx, in)
	return offer, failed(err, contract.ErrorUnsuitable)
}

// PrepareTarget makes the network of the target's pod and opens the node's port for the source. It is idempotent: what
// is prepared stays as it is. Errors: ErrorUnsuitable (not retryable), ErrorNoLauncher (retryable).
func (a *Activities) PrepareTarget(
	ctx context.Context, in contract.PrepareTargetInput,
) (contract.PreparedTarget, error) {
	if err := checkNamed(in.Migration, in.VMI, in.Pod); err != nil {
		return contract.PreparedTarget{}, err
	}
	prepared, err := a.Mover.PrepareTarget(ctx, in)
	return prepared, failed(err, contract.ErrorUnsuitable)
}

// MigrateDomain moves a guest. The move is not the activity's: an attempt that ends, for whatever reason, leaves it
// under way, and the next one follows it. Heartbeats are contract.MigrationProgress. Error: ErrorNoLauncher
// (retryable); how the move has ended is never an error.
func (a *Activities) MigrateDomain(
	ctx context.Context, in contract.MigrateDomainInput,
) (contract.MigrationOutcome, error) {
	if err := checkNamed(in.Migration, in.VMI, in.Pod); err != nil {
		return contract.MigrationOutcome{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-activity.GetWorkerStopChannel(ctx):
			cancel()
		case <-ctx.Done():
		}
	}()
	outcome, err := a.Mover.Migrate(ctx, in, func(p contract.MigrationProgress) { activity.RecordHeartbeat(ctx, p) })
	return outcome, failed(err, contract.ErrorInvalid)
}

// AbortMigration has a migration abort, or keeps one from beginning. It is idempotent. Error: ErrorNoLauncher
// (retryable).
func (a *Activities) AbortMigration(
	ctx context.Context, in contract.AbortMigrationInput,
) (contract.AbortMigrationResult, error) {
	if err := checkNamed(in.Migration, in.VMI, in.Pod); err != nil {
		return contract.AbortMigrationResult{}, err
	}
	found, err := a.Mover.Abort(ctx, in)
	return contract.AbortMigrationResult{Found: found}, failed(err, contract.ErrorInvalid)
}

// AdjustMigration changes a migration that is under way. It is idempotent. Errors: RefusedFailed (not retryable): the
// launcher refuses, for example because the migration is not in progress; ErrorNoLauncher (retryable).
func (a *Activities) AdjustMigration(ctx context.Context, in contract.AdjustMigrationInput) error {
	if err := checkNamed(in.Migration, in.VMI, in.Pod); err != nil {
		return err
	}
	return failed(a.Mover.Adjust(ctx, in), contract.RefusedFailed)
}

// FinishTarget lets the guest continue at the target. It is idempotent. Errors: RefusedFailed (not retryable): no such
// guest is there; ErrorNoLauncher (retryable).
func (a *Activities) FinishTarget(
	ctx context.Context, in contract.FinishTargetInput,
) (contract.FinishTargetResult, error) {
	if err := checkNamed(in.Migration, in.VMI, in.Pod); err != nil {
		return contract.FinishTargetResult{}, err
	}
	domain, err := a.Mover.FinishTarget(ctx, in)
	return contract.FinishTargetResult{Domain: domain}, failed(err, contract.RefusedFailed)
}

// WithdrawTarget ends the target's launcher and closes the port. It is idempotent. Error: ErrorNoLauncher (retryable).
func (a *Activities) WithdrawTarget(
	ctx context.Context, in contract.WithdrawTargetInput,
) (contract.WithdrawTargetResult, error) {
	if err := checkNamed(in.Migration, in.VMI, in.Pod); err != nil {
		return contract.WithdrawTargetResult{}, err
	}
	err := a.Mover.WithdrawTarget(ctx, in)
	var refused *RefusedError
	if errors.As(err, &refused) {
		return contract.WithdrawTargetResult{Refused: message(refused)}, nil
	}
	return contract.WithdrawTargetResult{}, failed(err, contract.ErrorInvalid)
}

// InspectMigration reads the state at one end of a migration. A launcher that cannot be reached is an answer.
func (a *Activities) InspectMigration(
	ctx context.Context, in contract.InspectMigrationInput,
) (contract.MigrationTruth, error) {
	if err := checkNamed(in.Migration, in.VMI, in.Pod); err != nil {
		return contract.MigrationTruth{}, err
	}
	truth, err := a.Mover.Inspect(ctx, in)
	truth.Why = message(errors.New(truth.Why))
	return truth, failed(err, contract.ErrorInvalid)
}

// checkNamed refuses an input that does not name the guest.
func checkNamed(migration, vmi, pod contract.Object) error {
	if migration.UID == "" || vmi.Name == "" || vmi.Namespace == "" || pod.UID == "" {
		return temporal.NewNonRetryableApplicationError(
			"moving a guest needs the UIDs of migration and pod, and the VMI's namespace and name",
			contract.ErrorInvalid, nil)
	}
	return nil
}

// failed returns the error of an activity whose refusals are of that kind.
func failed(err error, refusal string) error {
	var refused *RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return temporal.NewNonRetryableApplicationError(message(err), refusal, nil)
	}
	return temporal.NewApplicationError(message(err), contract.ErrorNoLauncher)
}
