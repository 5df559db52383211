package launcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/kvm"
	"github.com/virtflow/virtflow/launcher/agent"
	"github.com/virtflow/virtflow/launcher/credentials"
	"github.com/virtflow/virtflow/launcher/disk"
	"github.com/virtflow/virtflow/launcher/domainstate"
	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/lifecycle"
	"github.com/virtflow/virtflow/launcher/migration"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/launcher/server"
	"github.com/virtflow/virtflow/launcher/virtiofs"
	"github.com/virtflow/virtflow/workflows/contract"
)

const (
	// shutdownAgain is when the power button is pressed again: a guest that is still booting does not hear the first
	// press.
	shutdownAgain = 5 * time.Second
	destroyAgain  = 2 * time.Second
	// destroyLimit is how long libvirt has to end a domain before QEMU is killed without it.
	destroyLimit = 20 * time.Second
	// libvirtLimit is how long the daemon has for its first answer.
	libvirtLimit = 2 * time.Minute
	// libvirtFarewell is how long it has to end when everything else has.
	libvirtFarewell = 3 * time.Second
)

// Launcher runs one VM. Make it with New and call Run once.
type Launcher struct {
	cfg        Config
	vmi        *v1.VirtualMachineInstance
	hypervisor Hypervisor
	disks      *disk.Preparer
	daemons    *virtiofs.Daemons
	kvm        kvm.Trial
	log        zerolog.Logger

	domain  *domainstate.Store
	starts  chan startRequest
	started chan startResult
	over    chan struct{} // closed when nothing more is started
	end     func()        // does what a signal to end does
	// Each holds one while such a call is under way. Two, because a shutdown that hangs in libvirt must not keep the
	// domain.
	stopping chan struct{}
	killing  chan struct{}
	resuming chan struct{}
	// operating holds one while an operation on the running domain is under way, asking one that the guest has to do by
	// itself.
	operating chan struct{}
	asking    chan struct{}
	thawing   thawing

	// The loop's own.
	agent func(connected bool) // tells the poller
	// operated has the poller look whether the guest is frozen.
	operated func()
	// rebooted has it forget that the guest is frozen.
	rebooted func()
	machine  *lifecycle.Machine
	// resumption is of a guest that an I/O error paused.
	resumption resumption
	waiting    []chan error // callers of a start that is under way
	startErr   error        // how the last start failed
	message    string       // why a start was refused

	// The start's own, of which there is one at a time.
	interfaces []*rpc.PodInterface
	dhcp       map[string]bool
	console    bool

	moves       chan moveRequest
	left        chan *rpc.MigrationEvent
	receives    chan receiveRequest
	prepared    chan received
	grants      chan targetRequest
	withdrawals chan targetRequest
	handover    *migration.Handover
	hashing     sync.Mutex
	digests     map[string][]byte // of images, by their volumes' names, and of kernelBoot

	moving    sync.Mutex // guards what follows
	made      *built
	session   *migration.Session
	receiving receiving

	// The loop's own.
	toReceive receiveRequest
	// endSeen is the end of a guest that was being moved, and endDue when it counts without the session's word.
	endSeen lifecycle.Input
	endDue  <-chan time.Time

	background sync.WaitGroup
}

// Tools are the launcher's hands.
type Tools struct {
	Hypervisor Hypervisor
	Disks      *disk.Preparer
	// FileSystems are the daemons of those that the guest has by virtiofs.
	FileSystems *virtiofs.Daemons
	// KVM says whether KVM truly works, and why not.
	KVM kvm.Trial
}

// New makes the launcher of one VMI.
func New(cfg Config, vmi *v1.VirtualMachineInstance, tools Tools, log zerolog.Logger) *Launcher {
	return &Launcher{
		cfg: cfg, vmi: vmi, log: log,
		hypervisor: tools.Hypervisor, disks: tools.Disks, daemons: tools.FileSystems, kvm: tools.KVM,
		machine: lifecycle.New(), domain: domainstate.New(), dhcp: map[string]bool{}, end: func() {},
		starts: make(chan startRequest), started: make(chan startResult, 1), over: make(chan struct{}),
		stopping: make(chan struct{}, 1), killing: make(chan struct{}, 1), resuming: make(chan struct{}, 1),
		operating: make(chan struct{}, 1), asking: make(chan struct{}, 1),
		moves: make(chan moveRequest), left: make(chan *rpc.MigrationEvent, 1),
		receives: make(chan receiveRequest), prepared: make(chan received, 1),
		grants: make(chan targetRequest), withdrawals: make(chan targetRequest),
		handover: migration.NewHandover(cfg.migration(), cfg.Libvirt, log), digests: map[string][]byte{},
	}
}

// Run works until the guest has ended, or until ctx ends and the guest has been shut down. A nil error is an end that
// makes the pod succeed.
func (l *Launcher) Run(ctx context.Context) error {
	ctx, l.end = context.WithCancel(ctx)
	defer l.end()
	// What the launcher needs to shut its guest down must outlive the signal to do so.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	libvirt := make(chan error, 1)
	go func() { libvirt <- l.hypervisor.Run(inner) }()

	details := agent.NewDetails(l.hypervisor)
	poller := agent.NewPoller(l.hypervisor, agent.KubeVirtIntervals(),
		func(connected bool, info *rpc.GuestInfo, frozen bool) {
			l.agentTold(connected, info, frozen)
			if connected && !frozen {
				details.Learn()
			}
		}, l.log)
	l.agent, l.operated, l.rebooted = poller.Connected, poller.Operated, poller.Rebooted
	keys, passwords := credentials.ByAgent(l.vmi.Spec.AccessCredentials)
	poller.Needs(agent.Needs{Keys: len(keys) > 0, Passwords: len(passwords) > 0})
	go poller.Run(inner) // not waited for: it hangs where libvirt does
	go credentials.NewSyncer(l.vmi.Spec.AccessCredentials, l.cfg.AccessCredentials, l.hypervisor,
		credentials.KubeVirtIntervals(), l.guestState, l.credentialsTold, l.log).Run(inner) // likewise

	srv := server.New(l.cfg.Version, l.startDomain, l.domain, server.Guest{
		Agent: l.hypervisor, Details: details, Screen: l.hypervisor, Devices: l.cfg.devices(),
	})
	srv.Operator, srv.Mover, srv.Wanted = l.operate, l, l.networks
	err := l.ready(ctx, libvirt)
	if err == nil {
		err = l.handover.Listen(l.cfg.migrationSocket())
	}
	if err == nil {
		err = srv.Listen(l.cfg.Socket)
	}
	if err != nil {
		l.message = err.Error()
		l.machine.Apply(lifecycle.StartAsked)
		l.machine.Apply(lifecycle.StartRefused)
	} else {
		l.log.Info().Str("socket", l.cfg.Socket).Msg("serving")
		l.loop(ctx, inner)
	}
	err = l.finish()
	close(l.over)
	l.domain.Close()
	srv.Stop()
	l.handover.Stop()
	stop()
	select {
	case <-libvirt: //nolint:errcheck // it was told to end
	case <-time.After(libvirtFarewell):
		// It hangs, and ends with the container.
	}
	l.background.Wait()
	return err
}

// ready waits for libvirt; being told to end meanwhile is no error.
func (l *Launcher) ready(ctx context.Context, libvirt chan error) error {
	select {
	case <-l.hypervisor.Ready():
		return nil
	case err := <-libvirt:
		libvirt <- err // Run waits for it again
		return fmt.Errorf("setting libvirt up: %w", err)
	case <-time.After(libvirtLimit):
		return errors.New("libvirtd did not answer; its messages are in this container's log")
	case <-ctx.Done():
		return nil
	}
}

// loop feeds the lifecycle with what happens, one thing at a time, and does what it says. It returns when that is to
// end.
func (l *Launcher) loop(ctx, inner context.Context) {
	grace := GracePeriod(l.vmi)
	stop := ctx.Done()
	var again, expired <-chan time.Time
	for l.machine.State() != lifecycle.Ended {
		var in lifecycle.Input
		select {
		case r := <-l.starts:
			in = l.asked(r)
		case r := <-l.started:
			in = l.startEnded(r)
		case s := <-l.hypervisor.Changes():
			in = l.changed(s)
		case <-l.hypervisor.Reboots():
			l.log.Debug().Msg("the guest boots again") // as often as a guest likes
			l.rebooted()
		case <-stop:
			stop, in = nil, lifecycle.Stop
			if grace == 0 {
				in = lifecycle.StopNow
			}
			expired = time.After(grace)
			l.log.Info().Dur("grace", grace).Msg("the pod is to end")
		case <-expired:
			expired, in = nil, lifecycle.GracePeriodExpired
		case <-l.resumption.due:
			l.resumption.tried()
			if l.beingMoved() != nil {
				continue
			}
			l.act(l.resuming, "the guest that an I/O error paused does not go on", func() error {
				return l.hypervisor.Resume()
			})
		case <-again:
			again, in = nil, lifecycle.Again
		case m := <-l.moves:
			in = l.leaveAsked(m)
		case outcome := <-l.left:
			in = l.leaveEnded(outcome)
		case <-l.endDue:
			in, l.endDue = l.endSeen, nil
		case r := <-l.receives:
			in = l.receiveAsked(r)
		case r := <-l.prepared:
			in = l.receiveEnded(r)
		case g := <-l.grants:
			in = l.grant(g)
		case w := <-l.withdrawals:
			in = l.withdrawn(w)
		}
		if in == "" {
			continue
		}
		action := l.apply(in)
		if l.machine.State() == lifecycle.Held && l.target().granted {
			action = l.apply(lifecycle.Granted) // the grant came before libvirt told that the guest is here
		}
		switch action {
		case lifecycle.Start:
			go l.start(inner)
		case lifecycle.Shutdown:
			again = time.After(shutdownAgain)
			l.act(l.stopping, "the guest does not take its power button", func() error {
				return l.hypervisor.Shutdown(inner)
			})
		case lifecycle.Destroy:
			again = time.After(destroyAgain)
			l.act(l.killing, "the domain does not end", func() error {
				limited, cancel := context.WithTimeout(inner, destroyLimit)
				defer cancel()
				return l.hypervisor.Destroy(limited)
			})
		case lifecycle.Receive:
			go l.receive(inner, l.toReceive.target, l.toReceive.files)
		case lifecycle.Resume:
			go l.resumeReceived()
		case lifecycle.Leave:
			go l.leave(inner, l.lastSession())
		case lifecycle.Abort:
			again = time.After(shutdownAgain)
			l.lastSession().Abort("the pod is to end", false)
		case lifecycle.End:
		}
		l.answer()
	}
}

// apply has the table decide.
func (l *Launcher) apply(in lifecycle.Input) lifecycle.Action {
	before := l.machine.State()
	action := l.machine.Apply(in)
	if s := l.machine.State(); s != before || action != "" {
		l.log.Info().Str("input", string(in)).Str("from", string(before)).Str("to", string(s)).
			Str("action", string(action)).Msg("lifecycle")
	}
	return action
}

// act does something that may take long. While it does, asking for it again changes nothing.
func (l *Launcher) act(busy chan struct{}, failed string, do func() error) {
	select {
	case busy <- struct{}{}:
	default:
		return
	}
	go func() {
		if err := do(); err != nil {
			l.log.Warn().Err(err).Msg(failed)
		}
		<-busy
	}()
}

// changed takes a status of the domain to the state that watchers follow, and to the lifecycle if it ended.
func (l *Launcher) changed(s guest.Status) lifecycle.Input {
	l.log.Info().Str("state", string(s.State)).Str("pause_reason", string(s.PauseReason)).
		Bool("agent", s.AgentConnected).Msg("domain")
	awaited := l.machine.State() == lifecycle.Receiving || l.machine.State() == lifecycle.Held
	l.agent(s.AgentConnected && !s.State.Ended() && !awaited)
	if !s.State.Ended() {
		l.domain.Update(func(d *rpc.Domain) {
			d.State, d.PauseReason = rpcState(s.State), rpcPauseReason(s.PauseReason)
			if s.MachineType != "" {
				d.MachineType = s.MachineType
			}
		})
	}
	if awaited {
		if in := ended(s.State); in != "" {
			return in
		}
		return l.arrived(s)
	}
	l.resumption.follow(s.PauseReason)
	return l.whileMoving(ended(s.State))
}

// agentTold takes what the poller learnt to the state that watchers follow, unless the guest has ended meanwhile.
func (l *Launcher) agentTold(connected bool, info *rpc.GuestInfo, frozen bool) {
	l.domain.Update(func(d *rpc.Domain) {
		if s := d.GetState(); s == rpc.DomainState_DOMAIN_STATE_SHUTOFF || s == rpc.DomainState_DOMAIN_STATE_CRASHED {
			return
		}
		d.AgentConnected, d.Guest, d.Frozen = connected, info, frozen
	})
	if connected && frozen {
		l.thawing.adopt(arrivedFrozen, l.thaw)
	}
}

// guestState is what counts for the guest's credentials.
func (l *Launcher) guestState() credentials.State {
	d := l.domain.Domain()
	return credentials.State{
		Running:   d.GetState() == rpc.DomainState_DOMAIN_STATE_RUNNING,
		Connected: d.GetAgentConnected(), Frozen: d.GetFrozen(),
	}
}

// fileSystemLost has users hear of a file system that a guest which runs cannot use any more: QEMU does not connect
// again.
func (l *Launcher) fileSystemLost(volume string) {
	if s, err := l.hypervisor.Look(); err != nil || s.State != guest.Running && s.State != guest.Paused {
		return // it went with its guest
	}
	l.domain.Update(func(d *rpc.Domain) {
		d.Problem = "the file system " + volume + " cannot be used until the guest is started again: " +
			"its virtiofsd has ended"
	})
}

// credentialsTold takes how the guest's credentials are to the state that watchers follow.
func (l *Launcher) credentialsTold(done bool, message string) {
	l.domain.Update(func(d *rpc.Domain) {
		d.AccessCredentials = &rpc.AccessCredentials{Done: done, Message: message}
	})
}

func rpcState(s guest.State) rpc.DomainState {
	switch s {
	case guest.Running:
		return rpc.DomainState_DOMAIN_STATE_RUNNING
	case guest.Paused:
		return rpc.DomainState_DOMAIN_STATE_PAUSED
	case guest.GoingDown:
		return rpc.DomainState_DOMAIN_STATE_SHUTDOWN
	case guest.Off, guest.Killed, guest.Migrated:
		return rpc.DomainState_DOMAIN_STATE_SHUTOFF
	case guest.Crashed, guest.Gone:
		return rpc.DomainState_DOMAIN_STATE_CRASHED
	case guest.Absent:
	}
	return rpc.DomainState_DOMAIN_STATE_ABSENT
}

func rpcPauseReason(r guest.PauseReason) rpc.PauseReason {
	switch r {
	case guest.ByUser:
		return rpc.PauseReason_PAUSE_REASON_USER
	case guest.ByIOError:
		return rpc.PauseReason_PAUSE_REASON_IO_ERROR
	case guest.ByNoSpace:
		return rpc.PauseReason_PAUSE_REASON_NO_SPACE
	case guest.ByMigration:
		return rpc.PauseReason_PAUSE_REASON_MIGRATION
	case guest.ByOther:
		return rpc.PauseReason_PAUSE_REASON_OTHER
	}
	return rpc.PauseReason_PAUSE_REASON_UNSPECIFIED
}

// lastWords are what the launcher leaves for the kubelet. Where its guest has left, who lets it go on at its target has
// to know whether its user had paused it.
func (l *Launcher) lastWords(reason string) contract.TerminationMessage {
	moved := l.lastSession()
	return contract.TerminationMessage{Reason: reason, Message: l.message, Ran: l.machine.Ran(),
		Paused: reason == contract.ReasonMigrated && moved != nil && moved.Paused()}
}

// finish reports why, to the watchers, to the kubelet, and to whoever reads the exit code.
func (l *Launcher) finish() error {
	reason := l.machine.Reason()
	l.domain.Update(func(d *rpc.Domain) {
		d.Migration = nil
		d.AgentConnected, d.Frozen, d.PauseReason = false, false, rpc.PauseReason_PAUSE_REASON_UNSPECIFIED
		switch reason {
		case contract.ReasonNeverRan:
			d.State = rpc.DomainState_DOMAIN_STATE_ABSENT
		case contract.ReasonCrashed:
			d.State, d.Reason = rpc.DomainState_DOMAIN_STATE_CRASHED, reason
		default:
			d.State, d.Reason = rpc.DomainState_DOMAIN_STATE_SHUTOFF, reason
		}
	})
	l.answer()
	message := l.lastWords(reason)
	l.log.Info().Str("reason", reason).Bool("ran", message.Ran).Str("message", message.Message).Msg("ending")
	if err := writeTermination(l.cfg.TerminationMessage, message); err != nil {
		l.log.Error().Err(err).Msg("the reason is lost")
	}
	if reason == contract.ReasonNotReceived && l.target().asked {
		time.Sleep(farewell)
	}
	if lifecycle.ExitCode(reason) == 0 {
		return nil
	}
	if l.message != "" {
		return fmt.Errorf("%s: %s", reason, l.message)
	}
	return errors.New(reason)
}
