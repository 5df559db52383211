package launcher

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/launcher/agent"
	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/rpc"
)

const (
	// thawAgain is the pause between attempts to thaw a guest whose time has come.
	thawAgain = 10 * time.Second
	// arrivedFrozen is how long a guest that was moved while it was frozen stays so: KubeVirt's limit for a backup.
	arrivedFrozen = 5 * time.Minute
	// longestFreeze bounds what a caller may ask for.
	longestFreeze = 24 * time.Hour
)

// thawing lets a frozen guest go on by itself when nobody has thawed it in time.
type thawing struct {
	mu    sync.Mutex
	timer *time.Timer
	known bool // somebody here has frozen or thawed the guest
}

// set replaces what was to be done before; after 0 nothing is.
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

// adopt is for a guest that is frozen, and was not by anybody here: it was moved so, and whoever was to thaw it has
// stayed behind.
func (t *thawing) adopt(after time.Duration, thaw func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known {
		t.known, t.timer = true, time.AfterFunc(after, thaw)
	}
}

// operate is the service's call. One at a time of each sort: when libvirt hangs, callers are told so instead of piling
// up.
func (l *Launcher) operate(ctx context.Context, r *rpc.OperateRequest) (*rpc.Domain, error) {
	if r.GetOperation() == rpc.Operation_OPERATION_END {
		l.log.Info().Msg("told by the node's worker to end")
		l.end()
		return l.domain.Domain(), nil
	}
	if err := l.beingMoved(); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	slot := l.operating
	if byGuest(r.GetOperation()) {
		slot = l.asking
	}
	select {
	case slot <- struct{}{}:
	case <-ctx.Done():
		return nil, status.Error(codes.Unavailable, "an earlier operation on the guest has not ended yet")
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-slot }()
		done <- l.do(ctx, r)
	}()
	select {
	case err := <-done:
		l.log.Info().Err(err).Str("operation", r.GetOperation().String()).Msg("operation")
		if err != nil {
			return nil, status.Error(refusal(err), err.Error())
		}
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return l.shown(ctx, r.GetOperation()), nil
}

// guestAnswers is how long the guest may take: whoever has more time, as a backup does, gives it to the guest.
func guestAnswers(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return rpc.GuestAnswers
	}
	return max(rpc.GuestAnswers, time.Until(deadline)-(rpc.OperationAnswered-rpc.GuestAnswers))
}

// byGuest says that the guest itself has to do it, and so may keep the caller waiting. What is done to the guest must
// not wait for that: a reset is what one tries when the guest does not answer.
func byGuest(o rpc.Operation) bool {
	switch o {
	case rpc.Operation_OPERATION_SOFT_REBOOT, rpc.Operation_OPERATION_FREEZE, rpc.Operation_OPERATION_THAW:
		return true
	default:
		return false
	}
}

func (l *Launcher) do(ctx context.Context, r *rpc.OperateRequest) error {
	switch r.GetOperation() {
	case rpc.Operation_OPERATION_PAUSE:
		return l.hypervisor.Suspend()
	case rpc.Operation_OPERATION_UNPAUSE:
		return l.hypervisor.Resume()
	case rpc.Operation_OPERATION_RESET:
		if err := l.hypervisor.Reset(); err != nil {
			return err
		}
		l.thawing.set(0, nil) // another system boots, which nobody has frozen yet
		l.rebooted()
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
			// before: a freeze that takes too long for us may be done in the guest all the same
			l.thawing.set(after, l.thaw)
		}
		defer l.operated() // whatever came of it
		if err := agent.Freeze(l.hypervisor, guestAnswers(ctx)); err != nil {
			return err
		}
		if after == 0 {
			l.thawing.set(0, nil)
		}
		return nil
	case rpc.Operation_OPERATION_THAW:
		defer l.operated()
		if err := agent.Thaw(l.hypervisor, rpc.GuestAnswers); err != nil {
			return err
		}
		l.thawing.set(0, nil) // after: where nobody has thawed it, it still has to thaw by itself
		return nil
	case rpc.Operation_OPERATION_RESIZE:
		return l.resize(r.GetClaims())
	default:
		return errUnknownOperation
	}
}

// thaw is the guest's own thawing, which is tried again for as long as the guest runs.
func (l *Launcher) thaw() {
	defer l.operated()
	err := agent.Thaw(l.hypervisor, rpc.GuestAnswers)
	if err == nil {
		return
	}
	l.log.Error().Err(err).Msg("the guest's file systems do not thaw by themselves")
	switch l.domain.Domain().GetState() {
	case rpc.DomainState_DOMAIN_STATE_RUNNING, rpc.DomainState_DOMAIN_STATE_PAUSED:
		l.thawing.set(thawAgain, l.thaw)
	default:
	}
}

var errUnknownOperation = errors.New("this launcher does not know that operation") //nolint:gochecknoglobals // a constant error

// refusal sorts an error: whether trying again may help.
func refusal(err error) codes.Code {
	if errors.Is(err, guest.ErrUnavailable) {
		return codes.Unavailable
	}
	return codes.FailedPrecondition
}

// shown waits, not for long, until the state says what was done.
func (l *Launcher) shown(ctx context.Context, o rpc.Operation) *rpc.Domain {
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
