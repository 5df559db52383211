package node

import (
	"context"
	"errors"
	"slices"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/workflows/contract"
)

// maxMessage is how much of an error travels into a history, in bytes.
const maxMessage = 1 << 10

// RefusedError marks an error that another try cannot help: the launcher was reached, and the domain does not start.
type RefusedError struct{ Message string }

func (e *RefusedError) Error() string { return e.Message }

// NotBegunError marks an error before which nothing was asked of the launcher: the operation was surely not done.
type NotBegunError struct{ Err error }

func (e *NotBegunError) Error() string { return e.Err.Error() }

// Unwrap returns why.
func (e *NotBegunError) Unwrap() error { return e.Err }

// Starter starts domains on this node.
type Starter interface {
	// StartDomain prepares the network of the pod and has its launcher start the domain. It fails with a RefusedError
	// when that cannot succeed.
	StartDomain(ctx context.Context, in contract.StartDomainInput) (contract.DomainObservation, error)
}

// Operator does operations on running domains on this node.
type Operator interface {
	// Operate does one thing to the running domain of a pod. It fails with a RefusedError when the guest does not allow
	// it, and with a NotBegunError when its launcher was not even asked.
	Operate(ctx context.Context, in contract.OperateDomainInput) (contract.DomainObservation, error)
}

// Activities are registered with a node's worker under the names of package contract.
type Activities struct {
	Starter  Starter
	Operator Operator
	Mover    Mover
	// Report is what this run of the worker says of its host.
	Report func() contract.NodeReport
}

// ReportNode answers what the host is like. It only reads.
func (a *Activities) ReportNode(context.Context) (contract.ReportNodeResult, error) {
	return contract.ReportNodeResult{Report: a.Report()}, nil
}

// StartDomain starts the domain of a VMI in its launcher's pod. It is idempotent: what is prepared stays as it is, and
// a launcher whose domain runs says so. Errors: ErrorStartFailed (not retryable), ErrorNoLauncher (retryable).
func (a *Activities) StartDomain(
	ctx context.Context, in contract.StartDomainInput,
) (contract.StartDomainResult, error) {
	if in.VMI.Name == "" || in.VMI.Namespace == "" || in.Pod.UID == "" {
		return contract.StartDomainResult{}, temporal.NewNonRetryableApplicationError(
			"starting a domain needs the VMI's namespace and name and the pod's UID", contract.ErrorInvalid, nil)
	}
	domain, err := a.Starter.StartDomain(ctx, in)
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		return contract.StartDomainResult{},
			temporal.NewNonRetryableApplicationError(message(err), contract.ErrorStartFailed, nil)
	case err != nil:
		return contract.StartDomainResult{}, temporal.NewApplicationError(message(err), contract.ErrorNoLauncher)
	}
	return contract.StartDomainResult{Domain: domain}, nil
}

// OperateDomain does one operation on the running domain of a launcher's pod. Pausing, resuming, freezing and thawing
// are idempotent; a reset or a reboot is not, and is not tried again by whoever calls this. Errors: RefusedFailed (not
// retryable), ErrorNotBegun (not retryable, at the first attempt: whoever waits hears at once that it was not done),
// ErrorNoLauncher (retryable).
func (a *Activities) OperateDomain(
	ctx context.Context, in contract.OperateDomainInput,
) (contract.OperateDomainResult, error) {
	if in.Pod.UID == "" {
		return contract.OperateDomainResult{},
			temporal.NewNonRetryableApplicationError("operating a domain needs the pod's UID", contract.ErrorInvalid,
				nil)
	}
	domain, err := a.Operator.Operate(ctx, in)
	var refused *RefusedError
	var idle *NotBegunError
	switch {
	case errors.As(err, &idle) && first(ctx) && somebodyWaits(in.Operation):
		return contract.OperateDomainResult{},
			temporal.NewNonRetryableApplicationError(message(err), contract.ErrorNotBegun, nil)
	case errors.As(err, &refused):
		return contract.OperateDomainResult{},
			temporal.NewNonRetryableApplicationError(message(err), contract.RefusedFailed, nil)
	case err != nil:
		return contract.OperateDomainResult{}, temporal.NewApplicationError(message(err), contract.ErrorNoLauncher)
	}
	return contract.OperateDomainResult{Domain: domain}, nil
}

// somebodyWaits says that an operation is a user's.
func somebodyWaits(o contract.Operation) bool {
	return slices.Contains(contract.InstanceOperations(), o)
}

// first says that no attempt went before, which may have done what this one did not begin.
func first(ctx context.Context) bool {
	return !activity.IsActivity(ctx) || activity.GetInfo(ctx).Attempt <= 1
}

func message(err error) string {
	return contract.Cut(err.Error(), maxMessage)
}
