package forward

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"
	"go.temporal.io/api/serviceerror"
	"golang.org/x/time/rate"

	"github.com/virtflow/virtflow/workers/node/records"
	"github.com/virtflow/virtflow/workflows/contract"
)

const (
	// signalTimeout is for one try; what is sent in the next may be newer.
	signalTimeout = 10 * time.Second
	// A launcher that changes its mind more often than this is told of less often: a run of a workflow takes 10,000
	// signals.
	signalsPerSecond, signalsAtOnce = 0.5, 10
)

// follower is what is known of one pod.
type follower struct {
	forwarder *Forwarder
	record    records.Record // Delivered is the outbox's
	log       zerolog.Logger
	out       *outbox
	following bool // guarded by the Forwarder's lock
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

// follow watches the launcher and passes on what it says until ctx ends or nothing is left of the pod.
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

// watch reads from the launcher, connecting again as long as its pod is there. A pod whose guest has ended stays
// unreachable until it is deleted, so the waits grow.
func (p *follower) watch(ctx context.Context) {
	f := p.forwarder
	for pauses := f.pauses(); ; {
		l, err := f.Connect(ctx, p.record.Pod.UID)
		if err == nil {
			err = l.Watch(ctx, func(d contract.DomainObservation) {
				pauses = f.pauses()
				p.out.offer(d)
			})
			l.Close()
		}
		switch {
		case ctx.Err() != nil:
			return
		case f.PodGone(p.record.Pod.UID):
			return
		}
		wait := pauses.Step()
		p.log.Debug().Err(err).Dur("again_in", wait).Msg("the launcher is not there")
		if pause(ctx, wait) != nil {
			return
		}
	}
}

// flush delivers what is left of a pod that is gone, and says whether nothing is left to do for it. An entity that is
// gone too needs to know nothing; and of a pod that has been gone for long the node gateway takes no more news.
func (p *follower) flush(ctx context.Context) (finished bool) {
	for pauses := p.forwarder.pauses(); ctx.Err() == nil; {
		if pause(ctx, p.out.wait()) != nil {
			return false
		}
		d, ok := p.out.next()
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
			Msg("telling how the domain of a pod that is gone was last")
		if pause(ctx, wait) != nil {
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
		for pauses := p.forwarder.pauses(); ; {
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
			d, ok := p.out.next()
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
			p.log.Warn().Err(err).Dur("again_in", wait).Str("state", string(d.State)).Msg("telling how the domain is")
			if pause(ctx, wait) != nil {
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
		p.forwarder.signals.WithLabelValues(result(err)).Inc()
		return err
	}
	p.forwarder.signals.WithLabelValues("sent").Inc()
	p.log.Info().Str("state", string(d.State)).Str("reason", d.Reason).Uint64("sequence", d.Sequence).
		Msg("told how the domain is")
	p.out.sent(d)
	p.remember(d)
	return nil
}

// remember keeps what the entity was told, so that a restart of this process does not tell it again.
func (p *follower) remember(d contract.DomainObservation) {
	r := p.record
	r.Delivered = &d
	if err := p.forwarder.Records.Save(r); err != nil {
		p.log.Error().Err(err).Msg("after a restart the entity will be told the same again")
	}
}

func result(err error) string {
	if errors.As(err, new(*serviceerror.NotFound)) {
		return "no_workflow"
	}
	return "failed"
}
