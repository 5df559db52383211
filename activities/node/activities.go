package node

import (
	"context"
	"errors"
	"slices"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/contract"
)

// maxMessage limits the part of an error that goes into a history, in bytes.
const maxMessage = 1 << 10

// RefusedError is the error that no retry can help: the launcher was reached, and the domain does not start.
type RefusedError struct{ Message string }

func (e *RefusedError) Error() string { return e.Message }

// NotBegunError is an error before which the launcher was asked for nothing: the operation was certainly not done.
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
	// Report returns the host as this process found it.
	Report func() contract.NodeReport
}

// ReportNode returns the report of the host. It only reads.
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
// are idempotent; a reset or a reboot is not, and callers do not try it again. Errors: RefusedFailed (not retryable),
// ErrorNotBegun (not retryable, at the first attempt: the waiting user learns at once that it was not done),
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
	case errors.As(err, &idle) && isFirstAttempt(ctx) && isUserOperation(in.Operation):
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

// isUserOperation reports whether an operation is a user's, who waits for it.
func isUserOperation(o contract.Operation) bool {
	return slices.Contains(contract.InstanceOperations(), o)
}

// isFirstAttempt reports whether no attempt went before, which may have done what this one did not begin.
func isFirstAttempt(ctx context.Context) bool {
	return !activity.IsActivity(ctx) || activity.GetInfo(ctx).Attempt <= 1
}

func message(err error) string {
	return contract.Cut(err.Error(), maxMessage)
}
