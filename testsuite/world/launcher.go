package world

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/launcher/lifecycle"
	"github.com/virtflow/virtflow/workers/node/forward"
)

// Guest configures the guest of one VM.
type Guest struct {
	Boots         time.Duration // time until its domain runs; 0: 400 ms
	ShutsDownIn   time.Duration // after the power button; 0: 2 s, negative: never
	Refused       string        // the error with which libvirt refuses the domain
	PanicsAfter   time.Duration // 0: never
	PowersOff     time.Duration // by itself, this long after its start; 0: never
	AgentConnects time.Duration // 0: never
	Copies        time.Duration // duration of the copy in a migration; 0: 1.5 s
	Unmovable     string        // the reason for which its launcher cannot migrate it
}

const (
	// socketWait is how long a node worker waits for a launcher that does not answer.
	socketWait = 5 * time.Second
	reportLag  = 13 * time.Millisecond
	exitLag    = 40 * time.Millisecond
)

// launcher simulates a launcher pod's process: the real state machine of its life, and a simulated guest.
type launcher struct {
	world     *World
	host      *host
	namespace string
	vmi       string // name
	vmiUID    string
	podUID    string
	grace     time.Duration // the guest's
	guest     Guest

	machine    *lifecycle.Machine
	running    bool // QEMU is there
	dead       bool // the process is gone
	message    string
	domain     contract.DomainObservation
	followed   bool // a node worker follows it
	reported   *contract.DomainObservation
	reportedAt time.Time
	hangs      bool      // it answers no operation
	thaws      time.Time // when the guest thaws by itself; zero: it does not
	thawing    int       // counts the requests to thaw

	// move is the last migration from here, incoming the one to here; nil: none has begun.
	move, incoming *move
	limit          time.Duration // of a migration that was requested
	// receives is the UID of the migration whose guest this launcher was asked to receive; prepared: it is ready to.
	// The guest may resume here once granted, and has once resumed, unless it staysPaused.
	receives                                string
	prepared, granted, resumed, staysPaused bool
}

func (l *launcher) key() string { return l.namespace + "/" + l.vmi }

// after calls f later, unless the launcher or its node is gone by then.
func (l *launcher) after(d time.Duration, f func()) {
	l.world.after(d, func() {
		if !l.dead {
			f()
		}
	})
}

// input feeds the state machine and carries out its action.
func (l *launcher) input(in lifecycle.Input) {
	if l.dead {
		return
	}
	action := l.machine.Apply(in)
	l.world.tracef("launcher %s on %s: %s -> %s (%s)", l.key(), l.host.name, in, l.machine.State(), action)
	switch action {
	case lifecycle.Start:
		l.start()
	case lifecycle.Shutdown:
		if l.guest.ShutsDownIn >= 0 {
			wait := l.guest.ShutsDownIn
			if wait == 0 {
				wait = 2 * time.Second
			}
			l.change(contract.DomainShutdown, "")
			l.after(wait, func() { l.guestOff(lifecycle.GuestOff, contract.DomainShutoff, contract.ReasonShutdown) })
		}
	case lifecycle.Destroy:
		l.after(100*time.Millisecond, func() {
			l.guestOff(lifecycle.GuestKilled, contract.DomainShutoff, contract.ReasonDestroyed)
		})
	case lifecycle.Receive:
		l.after(receives, func() {
			if l.host.unfit == "" {
				l.prepared = true
				return
			}
			l.message = l.host.unfit
			l.input(lifecycle.ReceiveFailed)
		})
	case lifecycle.Leave:
		l.move.begin(l.limit)
	case lifecycle.Abort:
		l.move.abort("the pod is to end", false)
	case lifecycle.Resume:
		l.resume()
	case lifecycle.End:
		if l.machine.Reason() == contract.ReasonNotReceived {
			l.change(contract.DomainShutoff, contract.ReasonNotReceived)
		}
		l.after(exitLag, l.exit)
	}
}

func (l *launcher) start() {
	boots := l.guest.Boots
	if boots == 0 {
		boots = 400 * time.Millisecond
	}
	l.after(boots, func() {
		if l.guest.Refused != "" {
			l.message = l.guest.Refused
			l.input(lifecycle.StartRefused)
			return
		}
		l.running = true
		l.world.domainStarted(l)
		l.change(contract.DomainRunning, "")
		l.input(lifecycle.StartDone)
		if d := l.guest.PanicsAfter; d > 0 {
			l.after(d, l.panics)
		}
		if d := l.guest.PowersOff; d > 0 {
			l.after(d, l.powersOff)
		}
		if d := l.guest.AgentConnects; d > 0 {
			l.after(d, func() {
				if l.running {
					l.domain.AgentConnected = true
					l.change(l.domain.State, l.domain.Reason)
				}
			})
		}
	})
}

func (l *launcher) panics() {
	l.guestOff(lifecycle.GuestCrashed, contract.DomainCrashed, contract.ReasonCrashed)
}

func (l *launcher) powersOff() {
	l.guestOff(lifecycle.GuestOff, contract.DomainShutoff, contract.ReasonShutdown)
}

// guestOff ends QEMU.
func (l *launcher) guestOff(in lifecycle.Input, state contract.DomainState, reason string) {
	if !l.running {
		return
	}
	if m := l.move; m != nil && m.stage != copying && !m.isOver() && in != lifecycle.GuestKilled {
		return // the guest is paused for the switch-over
	}
	l.running = false
	l.world.domainEnded(l)
	l.change(state, reason)
	if l.move != nil {
		l.move.ended(endedOff)
	}
	l.input(in)
}

// change sets a new state of the domain, which the node worker reports.
func (l *launcher) change(state contract.DomainState, reason string) {
	l.domain.PodUID, l.domain.State, l.domain.Reason = l.podUID, state, reason
	l.domain.Sequence++
	l.domain.MachineType, l.domain.GuestMemory = "pc-q35-7.2", 128<<20
	l.world.after(reportLag+forward.Debounce(l.domain), l.report)
}

// redeliver reports the domain's state again if it was reported since then.
func (l *launcher) redeliver(since time.Time) {
	if l.reported != nil && !l.reportedAt.Before(since) {
		l.reported = nil
		l.report()
	}
}

// report sends the domain's state to the entity if it has changed since the last report and a node worker polls.
func (l *launcher) report() {
	if !l.followed || l.dead && l.domain.State == contract.DomainAbsent || !l.world.isWorkerPolling(l.host.name) {
		return
	}
	d := l.domain
	if r := l.reported; r != nil && (r.Sequence >= d.Sequence || r.State == d.State && r.Reason == d.Reason &&
		r.AgentConnected == d.AgentConnected && r.Frozen == d.Frozen && r.Migration == d.Migration) {
		return
	}
	l.reported, l.reportedAt = &d, l.world.Now()
	l.world.delivery.dispatch(&delivery.Delivery{
		Workflow: contract.VMIID(l.namespace, l.vmi), Signal: contract.SignalObserveDomain, UID: l.podUID,
		Kind: kindDomain, Payload: d,
	})
}

// terminate handles SIGTERM.
func (l *launcher) terminate(now bool) {
	if now || l.grace == 0 {
		l.input(lifecycle.StopNow)
		return
	}
	l.input(lifecycle.Stop)
	l.after(l.grace, func() { l.input(lifecycle.GracePeriodExpired) })
}

// shorten reduces the grace period of a guest that is shutting down.
func (l *launcher) shorten(grace time.Duration) {
	if grace >= l.grace {
		return
	}
	l.grace = grace
	if grace == 0 {
		l.input(lifecycle.StopNow)
		return
	}
	l.after(grace, func() { l.input(lifecycle.GracePeriodExpired) })
}

// kill handles SIGKILL: there is no termination message.
func (l *launcher) kill() {
	if l.dead {
		return
	}
	l.dead = true
	if l.running {
		l.running = false
		l.world.domainEnded(l)
	}
	if l.move != nil {
		l.move.ended(vanished)
	}
	l.severIncoming()
}

// severIncoming ends a migration to this launcher: the guest stays at its source, unless the source knows already that
// it has arrived.
func (l *launcher) severIncoming() {
	if m := l.incoming; m != nil && m.stage != arrived {
		m.sever(cutLag, "the target has ended")
	}
}

// exit ends the container.
func (l *launcher) exit() {
	l.dead = true
	l.severIncoming()
	m, err := json.Marshal(contract.TerminationMessage{Reason: l.machine.Reason(), Message: l.message,
		Ran: l.machine.Ran(), Paused: l.machine.Reason() == contract.ReasonMigrated && l.move != nil && l.move.paused})
	if err != nil {
		panic(err)
	}
	l.host.exited(l, int32(lifecycle.ExitCode(l.machine.Reason())), string(m))
}

// starter is a node.Starter with the launcher's answer.
type starter struct {
	domain contract.DomainObservation
	err    error
}

// StartDomain returns the launcher's answer.
func (s starter) StartDomain(context.Context, contract.StartDomainInput) (contract.DomainObservation, error) {
	return s.domain, s.err
}

// startDomain simulates the activity on a node: the node worker finds the launcher, asks it to start the domain, and
// waits.
func (r *attempts) startDomain() (any, error) {
	in, ok := r.input.Interface().(contract.StartDomainInput)
	if !ok {
		panic("StartDomain has another input")
	}
	s := r.askLauncher(in)
	out, err := (&node.Activities{Starter: s}).StartDomain(context.Background(), in)
	if err != nil {
		fc := temporal.GetDefaultFailureConverter()
		return nil, fc.FailureToError(fc.ErrorToFailure(err))
	}
	return out, nil
}

func (r *attempts) askLauncher(in contract.StartDomainInput) starter {
	absent := starter{err: errNoLauncher}
	until := r.now().Add(socketWait)
	var l *launcher
	for {
		if l = r.world.launcherOf(in.Pod.UID); l != nil && !l.dead {
			break
		}
		if !r.now().Before(until) {
			return absent
		}
		r.pause(250 * time.Millisecond)
	}
	l.followed = true
	if why := r.world.NoTap; why != "" {
		return starter{err: errors.New("preparing the pod's network: " + why)}
	}
	if l.receives != "" && !l.granted {
		return starter{err: &node.RefusedError{Message: "this launcher is to receive its guest from another node"}}
	}
	if in.Booted && l.machine.State() == lifecycle.Idle { // its container was restarted
		l.input(lifecycle.Stop)
		return starter{domain: contract.DomainObservation{PodUID: l.podUID, Sequence: 1, State: contract.DomainCrashed,
			Reason: contract.ReasonCrashed}}
	}
	l.input(lifecycle.StartAsked)
	for {
		switch l.machine.State() {
		case lifecycle.Running, lifecycle.Stopping, lifecycle.Killing:
			d := l.domain
			l.reported, l.reportedAt = &d, l.world.Now()
			return starter{domain: d}
		case lifecycle.Ended:
			if l.message != "" {
				return starter{err: &node.RefusedError{Message: l.message}}
			}
			return absent
		case lifecycle.Idle:
			return absent
		case lifecycle.Starting, lifecycle.Abandoning, lifecycle.AbandoningNow, lifecycle.Receiving, lifecycle.Held,
			lifecycle.Leaving, lifecycle.LeavingStop:
		}
		if l.dead {
			return absent
		}
		r.pause(50 * time.Millisecond)
	}
}
