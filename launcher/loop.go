package launcher

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/virtflow/virtflow/launcher/lifecycle"
)

const (
	// shutdownAgain is the time between two presses of the power button: a guest that is still booting ignores the
	// first.
	shutdownAgain = 5 * time.Second
	destroyAgain  = 2 * time.Second
	// destroyLimit is the time that libvirt has to end a domain before the launcher kills QEMU itself.
	destroyLimit = 20 * time.Second
)

// ending has the calls that end the guest. One of each runs at a time: a shutdown that hangs in libvirt must not block
// the destruction of the domain.
type ending struct {
	shutdown, destroy atomic.Bool
	again             <-chan time.Time // when the last one is repeated; nil: none was made
}

// loop feeds inputs into the lifecycle, one at a time, and carries out the resulting actions. It returns at the action
// that ends the launcher.
func (l *Launcher) loop(ctx, inner context.Context) {
	l.grace.length, l.grace.terminated = GracePeriod(l.vmi), ctx.Done()
	for l.machine.State() != lifecycle.Ended {
		in := l.nextInput()
		if in == "" {
			continue
		}
		action := l.apply(in)
		if l.machine.State() == lifecycle.Held && l.incoming.get().granted {
			action = l.apply(lifecycle.Granted) // the grant came before libvirt reported the guest
		}
		l.carryOut(inner, action)
		l.starting.answer(l.machine.State())
	}
}

// nextInput waits for something to happen, and returns the lifecycle's input for it; "" if it has none.
func (l *Launcher) nextInput() lifecycle.Input {
	select {
	case c := <-l.starting.calls:
		return l.acceptStart(c)
	case a := <-l.starting.ended:
		return l.startEnded(a)
	case s := <-l.hypervisor.Changes():
		return l.recordStatus(s)
	case <-l.hypervisor.Reboots():
		l.log.Debug().Msg("observed reboot of guest") // Debug: a guest may reboot without end
		l.poller.Rebooted()
	case <-l.grace.terminated:
		l.log.Info().Dur("grace", l.grace.length).Msg("received SIGTERM: the pod is terminating")
		return l.grace.begin()
	case to := <-l.grace.shortened:
		return l.grace.shorten(to)
	case <-l.grace.expired:
		return l.grace.expire()
	case <-l.ending.again:
		l.ending.again = nil
		return lifecycle.Again
	case <-l.resumption.due:
		l.resumeAfterError()
	case c := <-l.outgoing.calls:
		return l.acceptMove(c)
	case outcome := <-l.outgoing.ended:
		return l.outgoing.settle(outcome)
	case <-l.outgoing.endDue:
		l.outgoing.endDue = nil
		return l.outgoing.endSeen
	case c := <-l.incoming.calls:
		return l.acceptReceive(c)
	case a := <-l.incoming.prepared:
		return l.receiveEnded(a)
	case c := <-l.incoming.grants:
		return l.grant(c)
	case c := <-l.incoming.withdrawals:
		return l.withdraw(c)
	}
	return ""
}

// carryOut carries out an action, or has a goroutine do so.
func (l *Launcher) carryOut(inner context.Context, action lifecycle.Action) {
	switch action {
	case lifecycle.Start:
		go l.start(inner)
	case lifecycle.Shutdown:
		l.ending.again = time.After(shutdownAgain)
		l.act(&l.ending.shutdown, "failed to press power button", func() error {
			return l.hypervisor.Shutdown(inner)
		})
	case lifecycle.Destroy:
		l.ending.again = time.After(destroyAgain)
		l.act(&l.ending.destroy, "failed to destroy domain", func() error {
			limited, cancel := context.WithTimeout(inner, destroyLimit)
			defer cancel()
			return l.hypervisor.Destroy(limited)
		})
	case lifecycle.Receive:
		go l.receive(inner, l.incoming.pending.request)
	case lifecycle.Resume:
		go l.resumeReceived()
	case lifecycle.Leave:
		go l.runMove(inner, l.outgoing.session.Load())
	case lifecycle.Abort:
		l.ending.again = time.After(shutdownAgain)
		l.outgoing.session.Load().Abort("the pod is being terminated", false)
	case lifecycle.End:
	}
}

// apply feeds one input into the lifecycle and returns the action.
func (l *Launcher) apply(in lifecycle.Input) lifecycle.Action {
	before := l.machine.State()
	action := l.machine.Apply(in)
	if s := l.machine.State(); s != before || action != "" {
		l.log.Info().Str("input", string(in)).Str("from", string(before)).Str("to", string(s)).
			Str("action", string(action)).Msg("applied lifecycle input")
	}
	return action
}

// act runs a call that may take long. While one runs, further calls of its kind change nothing.
func (l *Launcher) act(busy *atomic.Bool, failed string, do func() error) {
	if !busy.CompareAndSwap(false, true) {
		return
	}
	go func() {
		if err := do(); err != nil {
			l.log.Warn().Err(err).Msg(failed)
		}
		busy.Store(false)
	}()
}
