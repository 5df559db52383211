package world

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/activities/node"
	"github.com/virtflow/virtflow/crdwatch"
	"github.com/virtflow/virtflow/launcher/lifecycle"
	"github.com/virtflow/virtflow/workers/node/forward"
	"github.com/virtflow/virtflow/workflows/contract"
)

// Guest is how the guest of one VM behaves.
type Guest struct {
	Boots         time.Duration // until its domain runs; 0: 400 ms
	ShutsDownIn   time.Duration // after the power button; 0: 2 s, negative: never
	Refused       string        // libvirt refuses the domain, for this reason
	PanicsAfter   time.Duration // 0: never
	PowersOff     time.Duration // by itself, so long after its start; 0: never
	AgentConnects time.Duration // 0: never
	Copies        time.Duration // until all of it is at another launcher; 0: 1.5 s
	Unmovable     string        // its launcher cannot move it, for this reason
}

const (
	// socketWait is how long a node worker waits for a launcher that it does not reach.
	socketWait = 5 * time.Second
	reportLag  = 13 * time.Millisecond
	exitLag    = 40 * time.Millisecond
)

// launcher is what runs in a launcher pod: the real table of its life, and a guest that is played.
type launcher struct {
	world     *World
	host      *host
	namespace string
	vmi       string // name
	vmiUID    string
	podUID    string
	grace     time.Duration // the guest's
	guest     Guest

	machine  *lifecycle.Machine
	running  bool // QEMU is there
	dead     bool // the process is gone
	message  string
	domain   contract.DomainObservation
	followed bool // a node worker knows it
	told     *contract.DomainObservation
	toldAt   time.Time
	hangs    bool      // it answers no operation
	thaws    time.Time // when the guest thaws by itself; zero: not
	thawing  int       // counts the requests about that

	// move is the last one from here, and incoming the one to here; nil: none has begun.
	move, incoming *move
	limit          time.Duration // of a move that was asked for
	// receives is the UID of the migration that this launcher was asked to receive a guest of, and prepared says that
	// it can. The guest may go on here from granted on, and does from resumed on, unless it staysPaused.
	receives                                string
	prepared, granted, resumed, staysPaused bool
}

func (l *launcher) key() string { return l.namespace + "/" + l.vmi }

// after does something later, unless the launcher or its machine is gone by then.
func (l *launcher) after(d time.Duration, f func()) {
	l.world.after(d, func() {
		if !l.dead {
			f()
		}
	})
}

// input feeds the table and does what it says.
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
			l.after(wait, func() { l.off(lifecycle.GuestOff, contract.DomainShutoff, contract.ReasonShutdown) })
		}
	case lifecycle.Destroy:
		l.after(100*time.Millisecond, func() {
			l.off(lifecycle.GuestKilled, contract.DomainShutoff, contract.ReasonDestroyed)
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
	l.off(lifecycle.GuestCrashed, contract.DomainCrashed, contract.ReasonCrashed)
}

func (l *launcher) powersOff() {
	l.off(lifecycle.GuestOff, contract.DomainShutoff, contract.ReasonShutdown)
}

// off is the end of QEMU.
func (l *launcher) off(in lifecycle.Input, state contract.DomainState, reason string) {
	if !l.running {
		return
	}
	if m := l.move; m != nil && m.stage != copying && !m.over() && in != lifecycle.GuestKilled {
		return // it stands still
	}
	l.running = false
	l.world.domainEnded(l)
	l.change(state, reason)
	if l.move != nil {
		l.move.ended(endedOff)
	}
	l.input(in)
}

// change is a new state of the domain, of which the node's worker hears.
func (l *launcher) change(state contract.DomainState, reason string) {
	l.domain.PodUID, l.domain.State, l.domain.Reason = l.podUID, state, reason
	l.domain.Sequence++
	l.domain.MachineType, l.domain.GuestMemory = "pc-q35-7.2", 128<<20
	l.world.after(reportLag+forward.HoldOff(l.domain), l.report)
}

// again tells the entity once more what it was told since then.
func (l *launcher) again(since time.Time) {
	if l.told != nil && !l.toldAt.Before(since) {
		l.told = nil
		l.report()
	}
}

// report tells the entity what it does not know yet, if there is a worker that can.
func (l *launcher) report() {
	if !l.followed || l.dead && l.domain.State == contract.DomainAbsent || !l.world.workerPolls(l.host.name) {
		return
	}
	d := l.domain
	if l.told != nil && (l.told.Sequence >= d.Sequence || l.told.State == d.State && l.told.Reason == d.Reason &&
		l.told.AgentConnected == d.AgentConnected && l.told.Frozen == d.Frozen && l.told.Migration == d.Migration) {
		return
	}
	l.told, l.toldAt = &d, l.world.Now()
	l.world.delivery.dispatch(&crdwatch.Delivery{
		Workflow: contract.VMIID(l.namespace, l.vmi), Signal: contract.SignalObserveDomain, UID: l.podUID,
		Kind: kindDomain, Payload: d,
	})
}

// terminate is SIGTERM.
func (l *launcher) terminate(now bool) {
	if now || l.grace == 0 {
		l.input(lifecycle.StopNow)
		return
	}
	l.input(lifecycle.Stop)
	l.after(l.grace, func() { l.input(lifecycle.GracePeriodExpired) })
}

// kill is SIGKILL: nobody leaves a message.
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
	l.ends()
}

// ends is a target's end: the guest that was on its way stays where it is, unless the source is told already that it
// has arrived.
func (l *launcher) ends() {
	if m := l.incoming; m != nil && m.stage != arrived {
		m.sever(cutLag, "the target has ended")
	}
}

// exit ends the container.
func (l *launcher) exit() {
	l.dead = true
	l.ends()
	m, err := json.Marshal(contract.TerminationMessage{Reason: l.machine.Reason(), Message: l.message,
		Ran: l.machine.Ran(), Paused: l.machine.Reason() == contract.ReasonMigrated && l.move != nil && l.move.paused})
	if err != nil {
		panic(err)
	}
	l.host.exited(l, int32(lifecycle.ExitCode(l.machine.Reason())), string(m)) //nolint:gosec // 0 or 1
}

// starter is the node worker's side of StartDomain once the launcher has answered.
type starter struct {
	domain contract.DomainObservation
	err    error
}

// StartDomain answers as the launcher did.
func (s starter) StartDomain(context.Context, contract.StartDomainInput) (contract.DomainObservation, error) {
	return s.domain, s.err
}

// startDomain is the activity on a node: its worker finds the launcher, asks it, and waits.
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
	if in.Booted && l.machine.State() == lifecycle.Idle { // its container was started anew
		l.input(lifecycle.Stop)
		return starter{domain: contract.DomainObservation{PodUID: l.podUID, Sequence: 1, State: contract.DomainCrashed,
			Reason: contract.ReasonCrashed}}
	}
	l.input(lifecycle.StartAsked)
	for {
		switch l.machine.State() {
		case lifecycle.Running, lifecycle.Stopping, lifecycle.Killing:
			d := l.domain
			l.told, l.toldAt = &d, l.world.Now()
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
