package launcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/internal/kvm"
	"github.com/virtflow/virtflow/launcher/disk"
	"github.com/virtflow/virtflow/launcher/domain"
	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/lifecycle"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// starting has the calls for the domain, which share one attempt.
type starting struct {
	calls chan call[[]*rpc.PodInterface]
	ended chan attempt

	// The following belong to the loop.
	waiting []chan error // for the attempt in progress
	err     error        // of the last attempt
}

func newStarting() starting {
	return starting{calls: make(chan call[[]*rpc.PodInterface]), ended: make(chan attempt, 1)}
}

// attempt is the result of an attempt to start the domain, or to prepare to receive it.
type attempt struct {
	built *built
	err   error
}

// startDomain implements the service's call. Any number of callers share one attempt.
func (l *Launcher) startDomain(ctx context.Context, interfaces []*rpc.PodInterface) (*rpc.Domain, error) {
	if err := ask(ctx, l.over, l.starting.calls, interfaces); err != nil && !errors.Is(err, errEnding) {
		return nil, err
	}
	return l.domain.Domain(), nil
}

// acceptStart records the caller, who gets the result from answer.
func (l *Launcher) acceptStart(c call[[]*rpc.PodInterface]) lifecycle.Input {
	if t := l.incoming.get(); t.asked && !t.granted {
		c.answer <- status.Error(codes.FailedPrecondition, "this launcher receives its guest from another node")
		return ""
	}
	if l.machine.State() == lifecycle.Idle {
		interfaces, err := preparedInterfaces(l.vmi, c.request)
		if err != nil {
			c.answer <- status.Error(startErrorCode(err), err.Error())
			return ""
		}
		l.preparation.interfaces, l.starting.err = interfaces, nil
	}
	l.starting.waiting = append(l.starting.waiting, c.answer)
	return lifecycle.StartAsked
}

// answer sends the result to the callers, once no attempt is in progress.
func (s *starting) answer(state lifecycle.State) {
	switch state { //nolint:exhaustive // all others have an answer
	case lifecycle.Starting, lifecycle.Abandoning, lifecycle.AbandoningNow:
		return
	}
	for _, w := range s.waiting {
		w <- s.err
	}
	s.waiting = nil
}

// startEnded records the result of a start attempt, and returns the lifecycle's input that follows from it.
func (l *Launcher) startEnded(a attempt) lifecycle.Input {
	if l.starting.err = nil; a.err == nil {
		l.recordBuilt(a.built, func(d *rpc.Domain) {
			switch {
			case d.GetState() != rpc.DomainState_DOMAIN_STATE_ABSENT:
			case domain.StartPaused(l.vmi):
				d.State, d.PauseReason = rpc.DomainState_DOMAIN_STATE_PAUSED, rpc.PauseReason_PAUSE_REASON_USER
			default:
				d.State = rpc.DomainState_DOMAIN_STATE_RUNNING
			}
		})
		return lifecycle.StartDone
	}
	code := startErrorCode(a.err)
	l.starting.err = status.Error(code, a.err.Error())
	l.log.Error().Err(a.err).Stringer("code", code).Msg("failed to start domain")
	if code == codes.Unavailable {
		return lifecycle.StartRetryable
	}
	l.message = a.err.Error()
	return lifecycle.StartRefused
}

// startErrorCode returns INVALID_ARGUMENT where a person has to change the VMI or its images, FAILED_PRECONDITION where
// this node cannot run it, and UNAVAILABLE where another attempt may succeed.
func startErrorCode(err error) codes.Code {
	var invalid *domain.InvalidError
	var image *disk.Error
	switch {
	case errors.As(err, &invalid), errors.As(err, &image):
		return codes.InvalidArgument
	case errors.Is(err, guest.ErrUnavailable), errors.Is(err, kvm.ErrNoAnswer), errors.Is(err, errOldWorker),
		errors.Is(err, disk.ErrNotGiven):
		return codes.Unavailable
	default:
		return codes.FailedPrecondition
	}
}

// start prepares everything and starts the domain. It runs beside the loop, one at a time.
func (l *Launcher) start(ctx context.Context) {
	begun := time.Now()
	b, err := l.tryStart(ctx)
	l.log.Info().Dur("took", time.Since(begun)).Bool("ok", err == nil).Msg("finished guest start")
	l.starting.ended <- attempt{built: b, err: err}
}

func (l *Launcher) tryStart(ctx context.Context) (*built, error) {
	plan, err := l.plan(l.vmi)
	if err != nil {
		return nil, err
	}
	if err := l.prepareState(); err != nil {
		return nil, err
	}
	b, err := l.build(ctx, plan)
	if err != nil {
		return nil, err
	}
	xml, err := b.domain.Marshal()
	if err != nil {
		return nil, fmt.Errorf("writing the domain's XML: %w", err)
	}
	l.log.Debug().Str("xml", xml).Msg("built domain")
	l.followConsole(ctx, false)
	b.report.MachineType, err = l.hypervisor.Start(xml, domain.StartPaused(l.vmi))
	if err != nil {
		return nil, err
	}
	return b, nil
}
