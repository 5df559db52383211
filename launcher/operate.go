package launcher

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/agent"
	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/rpc"
)

const (
	// thawAgain is the time between attempts to thaw a guest whose freeze has expired.
	thawAgain = 10 * time.Second
	// arrivedFrozen is how long a guest stays frozen that was frozen when it was moved: KubeVirt's limit for a backup.
	arrivedFrozen = 5 * time.Minute
	// longestFreeze is the longest freeze that a caller may request.
	longestFreeze = 24 * time.Hour
)

// operations bounds the operations on the running domain.
type operations struct {
	// domain holds one value while an operation is in progress, and guest while the guest itself carries one out.
	domain, guest chan struct{}
	thawing       thawing
}

func newOperations() operations {
	return operations{domain: make(chan struct{}, 1), guest: make(chan struct{}, 1)}
}

// thawing thaws a frozen guest when its freeze expires without a request to thaw it.
type thawing struct {
	mu    sync.Mutex
	timer *time.Timer
	known bool // this launcher has frozen or thawed the guest
}

// set replaces the scheduled thaw; 0 cancels it.
func (t *thawing) set(after time.Duration, thaw func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = true
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if after > 0 {
		t.timer = time.AfterFunc(after, thaw)
	}
}

// adopt schedules the thaw of a guest that arrived frozen: the launcher that would have thawed it is at the source.
func (t *thawing) adopt(after time.Duration, thaw func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known {
		t.known, t.timer = true, time.AfterFunc(after, thaw)
	}
}

// isSuspended reports whether the guest is expected not to answer: a user has paused it, it is being moved, or its
// VMI's annotation disables its agent. A guest that an I/O error has paused is not suspended.
func (l *Launcher) isSuspended() bool {
	if skip, err := strconv.ParseBool(l.vmi.Annotations[v1.PauseGuestAgentProbesAnnotation]); err == nil && skip {
		return true
	}
	d := l.domain.Domain()
	paused := d.GetState() == rpc.DomainState_DOMAIN_STATE_PAUSED &&
		(d.GetPauseReason() == rpc.PauseReason_PAUSE_REASON_USER ||
			d.GetPauseReason() == rpc.PauseReason_PAUSE_REASON_MIGRATION)
	return paused || l.checkNotMoving() != nil
}

// operate implements the service's call. One operation of each kind runs at a time: when libvirt hangs, further callers
// get an error instead of waiting.
func (l *Launcher) operate(ctx context.Context, r *rpc.OperateRequest) (*rpc.Domain, error) {
	if r.GetOperation() == rpc.Operation_OPERATION_END {
		l.log.Info().Msg("received request of node worker to end")
		if r.GraceSeconds != nil {
			select {
			case l.grace.shortened <- contract.Grace(r.GraceSeconds):
			case <-ctx.Done():
				return nil, status.FromContextError(ctx.Err()).Err()
			}
		}
		l.end()
		return l.domain.Domain(), nil
	}
	if err := l.checkNotMoving(); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	slot := l.operations.domain
	if isDoneByGuest(r.GetOperation()) {
		slot = l.operations.guest
	}
	select {
	case slot <- struct{}{}:
	case <-ctx.Done():
		return nil, status.Error(codes.Unavailable, "an earlier operation on the guest is still in progress: try again")
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-slot }()
		done <- l.runOperation(ctx, r)
	}()
	select {
	case err := <-done:
		if err != nil {
			l.log.Warn().Err(err).Str("operation", r.GetOperation().String()).Msg("failed to operate on domain")
			return nil, status.Error(operationErrorCode(err), err.Error())
		}
		l.log.Info().Str("operation", r.GetOperation().String()).Msg("operated on domain")
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return l.waitShown(ctx, r.GetOperation()), nil
}

// guestAnswers returns the time that the guest has for its answer: that of ctx, which a backup for example makes
// longer.
func guestAnswers(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return rpc.GuestAnswers
	}
	return max(rpc.GuestAnswers, time.Until(deadline)-(rpc.OperationAnswered-rpc.GuestAnswers))
}

// isDoneByGuest reports whether the guest itself carries out the operation, and so may keep the caller waiting.
// Operations on the domain must not wait for it: a reset is for a guest that does not answer.
func isDoneByGuest(o rpc.Operation) bool {
	switch o {
	case rpc.Operation_OPERATION_SOFT_REBOOT, rpc.Operation_OPERATION_FREEZE, rpc.Operation_OPERATION_THAW:
		return true
	default:
		return false
	}
}

// runOperation has the hypervisor, or the guest's agent, carry out an operation.
func (l *Launcher) runOperation(ctx context.Context, r *rpc.OperateRequest) error {
	switch r.GetOperation() {
	case rpc.Operation_OPERATION_PAUSE:
		return l.hypervisor.Suspend()
	case rpc.Operation_OPERATION_UNPAUSE:
		return l.hypervisor.Resume()
	case rpc.Operation_OPERATION_RESET:
		if err := l.hypervisor.Reset(); err != nil {
			return err
		}
		l.operations.thawing.set(0, nil) // the guest boots again, and is not frozen
		l.poller.Rebooted()
		return nil
	case rpc.Operation_OPERATION_SOFT_REBOOT:
		if l.domain.Domain().GetAgentConnected() {
			return agent.Reboot(l.hypervisor)
		}
		return l.hypervisor.Reboot()
	case rpc.Operation_OPERATION_FREEZE:
		after := min(time.Duration(max(0, min(r.GetThawAfterSeconds(), int64(longestFreeze/time.Second))))*time.Second,
			longestFreeze)
		if after > 0 {
			// Scheduled first: a freeze that times out here may still succeed in the guest.
			l.operations.thawing.set(after, l.thaw)
		}
		defer l.poller.Operated() // also after a failure
		if err := agent.Freeze(l.hypervisor, guestAnswers(ctx)); err != nil {
			return fmt.Errorf("command Freeze failed: %w", err)
		}
		if after == 0 {
			l.operations.thawing.set(0, nil)
		}
		return nil
	case rpc.Operation_OPERATION_THAW:
		defer l.poller.Operated()
		if err := agent.Thaw(l.hypervisor, rpc.GuestAnswers); err != nil {
			return fmt.Errorf("command Unfreeze failed: %w", err)
		}
		l.operations.thawing.set(0, nil) // only now: after a failed thaw the scheduled one is still needed
		return nil
	case rpc.Operation_OPERATION_RESIZE:
		return l.resize(r.GetClaims())
	default:
		return errUnknownOperation
	}
}

// thaw is the scheduled thaw. It is tried again for as long as the guest runs.
func (l *Launcher) thaw() {
	defer l.poller.Operated()
	err := agent.Thaw(l.hypervisor, rpc.GuestAnswers)
	if err == nil {
		return
	}
	l.log.Error().Err(err).Msg("failed to thaw guest after its freeze expired")
	switch l.domain.Domain().GetState() {
	case rpc.DomainState_DOMAIN_STATE_RUNNING, rpc.DomainState_DOMAIN_STATE_PAUSED:
		l.operations.thawing.set(thawAgain, l.thaw)
	default:
	}
}

var errUnknownOperation = errors.New("this launcher does not support that operation")

// operationErrorCode returns the gRPC code of an error: whether another attempt may succeed.
func operationErrorCode(err error) codes.Code {
	if errors.Is(err, guest.ErrUnavailable) {
		return codes.Unavailable
	}
	return codes.FailedPrecondition
}

// waitShown waits briefly until the domain's state shows the effect of the operation.
func (l *Launcher) waitShown(ctx context.Context, o rpc.Operation) *rpc.Domain {
	shows := func(*rpc.Domain) bool { return true }
	switch o {
	case rpc.Operation_OPERATION_PAUSE:
		shows = func(d *rpc.Domain) bool { return d.GetState() == rpc.DomainState_DOMAIN_STATE_PAUSED }
	case rpc.Operation_OPERATION_UNPAUSE:
		shows = func(d *rpc.Domain) bool { return d.GetState() == rpc.DomainState_DOMAIN_STATE_RUNNING }
	case rpc.Operation_OPERATION_FREEZE:
		shows = (*rpc.Domain).GetFrozen
	case rpc.Operation_OPERATION_THAW, rpc.Operation_OPERATION_RESET:
		shows = func(d *rpc.Domain) bool { return !d.GetFrozen() }
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, rpc.OutcomeShows)
	defer cancel()
	d := l.domain.Domain()
	for !shows(d) {
		next, err := l.domain.Next(ctx, d.GetSequence())
		if err != nil || next == nil {
			break
		}
		d = next
	}
	return d
}
