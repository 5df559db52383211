package forward

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"
	"go.temporal.io/api/serviceerror"
	"golang.org/x/time/rate"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workers/node/records"
)

const (
	// signalTimeout is for one attempt; the next may send something newer.
	signalTimeout = 10 * time.Second
	// The newest state of a launcher that reports changes more often is sent less often: a run of a workflow takes
	// 10,000 signals. budget.go has the limits over hours.
	signalsPerSecond, signalsAtOnce = 0.5, 10
)

// follower has what is known of one pod.
type follower struct {
	forwarder *Forwarder
	record    records.Record // Delivered is the outbox's
	log       zerolog.Logger
	out       *outbox
	order     int      // of recording; guarded by the Forwarder's lock
	following bool     // likewise
	launcher  Launcher // the connection that is watched, or nil; likewise
}

func newFollower(f *Forwarder, r records.Record) *follower {
	return &follower{
		forwarder: f,
		record:    r,
		out:       newOutbox(r.Delivered),
		log: f.Log.With().Str("namespace", r.VMI.Namespace).Str("name", r.VMI.Name).Str("uid", r.VMI.UID).
			Str("pod_uid", r.Pod.UID).Str("workflow_id", contract.VMIID(r.VMI.Namespace, r.VMI.Name)).Logger(),
	}
}

// follow watches the launcher and forwards its observations until ctx ends or nothing is left of the pod.
func (p *follower) follow(ctx context.Context) {
	watching, cancel := context.WithCancel(ctx)
	sending := make(chan struct{})
	go func() {
		defer close(sending)
		p.send(watching)
	}()
	p.watch(watching)
	cancel()
	<-sending
	if p.flush(ctx) {
		p.forwarder.forget(p)
	}
}

// watch reads from the launcher, and reconnects for as long as its pod exists. A pod whose guest has ended stays
// unreachable until it is deleted, so the back-off grows.
func (p *follower) watch(ctx context.Context) {
	f := p.forwarder
	for pauses := f.backoff(); ; {
		l, err := f.Connect(ctx, p.record.Pod.UID)
		if err == nil {
			p.setLauncher(l)
			err = l.Watch(ctx, func(d contract.DomainObservation) {
				pauses = f.backoff()
				p.out.offer(d)
			})
			p.setLauncher(nil)
			l.Close()
		}
		switch {
		case ctx.Err() != nil:
			return
		case f.IsPodGone(p.record.Pod.UID):
			return
		}
		wait := pauses.Step()
		p.log.Debug().Err(err).Dur("again_in", wait).Msg("failed to reach the launcher")
		if sleep(ctx, wait) != nil {
			return
		}
	}
}

// setLauncher records the connection that is watched; nil: there is none.
func (p *follower) setLauncher(l Launcher) {
	p.forwarder.mu.Lock()
	defer p.forwarder.mu.Unlock()
	p.launcher = l
}

// flush delivers what is left of a pod that is gone, and reports whether nothing is left to do for it. An entity that
// is gone too needs nothing; and the node gateway permits no more signals about a pod that has long been gone.
func (p *follower) flush(ctx context.Context) (finished bool) {
	for pauses := p.forwarder.backoff(); ctx.Err() == nil; {
		// The pod is gone, so no further observation of its guest can come.
		if sleep(ctx, min(endDebounce, p.out.wait())) != nil {
			return false
		}
		d, ok := p.out.nextDue()
		if !ok {
			return true
		}
		err := p.signal(ctx, d)
		if err == nil || errors.As(err, new(*serviceerror.NotFound)) ||
			errors.As(err, new(*serviceerror.PermissionDenied)) {
			return true
		}
		wait := pauses.Step()
		p.log.Warn().Err(err).Dur("again_in", wait).Str("state", string(d.State)).
			Msg("failed to send the last domain observation of a pod that is gone")
		if sleep(ctx, wait) != nil {
			return false
		}
	}
	return false
}

// send delivers what is in the outbox until ctx ends.
func (p *follower) send(ctx context.Context) {
	limiter := rate.NewLimiter(signalsPerSecond, signalsAtOnce)
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.out.changed:
		}
		for pauses := p.forwarder.backoff(); ; {
			if wait := p.out.wait(); wait > 0 {
				select {
				case <-ctx.Done():
					return
				case <-p.out.changed:
				case <-time.After(wait):
				}
				continue
			}
			if limiter.Wait(ctx) != nil {
				return
			}
			if p.out.wait() > 0 { // a newer observation has to wait
				continue
			}
			d, ok := p.out.nextDue()
			if !ok {
				break
			}
			err := p.signal(ctx, d)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return
			}
			wait := pauses.Step()
			p.log.Warn().Err(err).Dur("again_in", wait).Str("state", string(d.State)).
				Msg("failed to send domain observation")
			if sleep(ctx, wait) != nil {
				return
			}
		}
	}
}

func (p *follower) signal(ctx context.Context, d contract.DomainObservation) error {
	ctx, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	id := contract.VMIID(p.record.VMI.Namespace, p.record.VMI.Name)
	err := p.forwarder.Temporal.SignalWorkflow(ctx, id, "", contract.SignalObserveDomain, d)
	if err != nil {
		p.forwarder.signals.WithLabelValues(signalResult(err)).Inc()
		return err
	}
	p.forwarder.signals.WithLabelValues("sent").Inc()
	p.log.Info().Str("state", string(d.State)).Str("reason", d.Reason).Uint64("sequence", d.Sequence).
		Msg("sent domain observation")
	p.out.recordSent(d)
	p.recordDelivered(d)
	return nil
}

// recordDelivered saves what the entity was sent, so that this process does not send it again after a restart.
func (p *follower) recordDelivered(d contract.DomainObservation) {
	r := p.record
	r.Delivered = &d
	if err := p.forwarder.Records.Save(r); err != nil {
		p.log.Error().Err(err).Msg("failed to save delivered observation; it will be resent after restart")
	}
}

// signalResult returns the metric's label for the error of a signal.
func signalResult(err error) string {
	if errors.As(err, new(*serviceerror.NotFound)) {
		return "no_workflow"
	}
	return "failed"
}
