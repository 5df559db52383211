package launcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/kvm"
	"github.com/virtflow/virtflow/launcher/agent"
	"github.com/virtflow/virtflow/launcher/credentials"
	"github.com/virtflow/virtflow/launcher/disk"
	"github.com/virtflow/virtflow/launcher/domainstate"
	"github.com/virtflow/virtflow/launcher/lifecycle"
	"github.com/virtflow/virtflow/launcher/migration"
	"github.com/virtflow/virtflow/launcher/rpc"
	"github.com/virtflow/virtflow/launcher/server"
	"github.com/virtflow/virtflow/launcher/virtiofs"
)

const (
	// libvirtLimit is the time that libvirtd has for its first answer.
	libvirtLimit = 2 * time.Minute
	// libvirtFarewell is the time that libvirtd has to end, once everything else has ended.
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

	domain     *domainstate.Store
	made       atomic.Pointer[built] // what the domain was built from; nil: there is none yet
	poller     poller
	operations operations
	counting   counting
	handover   *migration.Handover
	digests    digests
	over       chan struct{} // closed when no more work may be started
	end        func()        // has the effect of SIGTERM
	background sync.WaitGroup

	preparation preparation

	// The following belong to the loop, as far as their types do not say otherwise.
	machine    *lifecycle.Machine
	grace      gracePeriod
	ending     ending
	resumption resumption
	starting   starting
	outgoing   outgoing
	incoming   incoming
	message    string // why a start was refused
}

// Tools has what the launcher acts with.
type Tools struct {
	Hypervisor Hypervisor
	Disks      *disk.Preparer
	// FileSystems has the virtiofs daemons of the guest.
	FileSystems *virtiofs.Daemons
	// KVM tests whether KVM works, and returns the reason when it does not.
	KVM kvm.Trial
}

// New returns the launcher of one VMI.
func New(cfg Config, vmi *v1.VirtualMachineInstance, tools Tools, log zerolog.Logger) *Launcher {
	return &Launcher{
		cfg: cfg, vmi: vmi, log: log,
		hypervisor: tools.Hypervisor, disks: tools.Disks, daemons: tools.FileSystems, kvm: tools.KVM,
		domain: domainstate.New(), operations: newOperations(), digests: digests{known: map[string][]byte{}},
		handover: migration.NewHandover(cfg.migration(), cfg.Libvirt, log),
		over:     make(chan struct{}), end: func() {},
		counting:    counting{usage: agent.NewUsage(tools.Hypervisor)},
		preparation: preparation{dhcp: map[string]bool{}},
		machine:     lifecycle.New(), grace: gracePeriod{shortened: make(chan time.Duration, 1)},
		starting: newStarting(), outgoing: newOutgoing(), incoming: newIncoming(),
	}
}

// Run works until the guest has ended, or until ctx ends and the guest has been shut down. It returns nil for an end
// that makes the pod succeed.
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
			l.recordAgent(connected, info, frozen)
			if connected && !frozen {
				details.Learn()
			}
		}, l.log)
	l.poller = poller
	keys, passwords := credentials.ByAgent(l.vmi.Spec.AccessCredentials)
	poller.Needs(agent.Needs{Keys: len(keys) > 0, Passwords: len(passwords) > 0})
	go poller.Run(inner) // not waited for: it hangs where libvirt does
	go credentials.NewSyncer(l.vmi.Spec.AccessCredentials, l.cfg.AccessCredentials, l.hypervisor,
		credentials.KubeVirtIntervals(), l.guestState, l.recordCredentials, l.log).Run(inner) // likewise

	srv := server.New(l.cfg.Version, l.startDomain, l.domain, server.Guest{
		Agent: l.hypervisor, Details: details, Screen: l.hypervisor, Devices: l.cfg.devices(),
	})
	srv.Operator, srv.Mover, srv.Wanted, srv.IsSuspended = l.operate, l, l.networks, l.isSuspended
	srv.Counter = l.statistics
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
	case <-libvirt: //nolint:errcheck // its context has ended
	case <-time.After(libvirtFarewell):
		// libvirtd hangs. It ends with the container.
	}
	l.background.Wait()
	return err
}

// ready waits for libvirt. It returns nil if ctx ends first.
func (l *Launcher) ready(ctx context.Context, libvirt chan error) error {
	select {
	case <-l.hypervisor.Ready():
		return nil
	case err := <-libvirt:
		libvirt <- err // Run waits for it again
		return fmt.Errorf("setting up libvirt: %w", err)
	case <-time.After(libvirtLimit):
		return errors.New("libvirtd did not answer in time: read its messages in this container's log")
	case <-ctx.Done():
		return nil
	}
}

// terminationMessage returns what the launcher leaves for the kubelet. After a migration it has whether the user had
// paused the guest: the target resumes it, or not, accordingly.
func (l *Launcher) terminationMessage(reason string) contract.TerminationMessage {
	moved := l.outgoing.session.Load()
	return contract.TerminationMessage{Reason: reason, Message: l.message, Ran: l.machine.Ran(),
		Paused: reason == contract.ReasonMigrated && moved != nil && moved.Paused()}
}

// finish reports the reason of the end: to watchers, as termination message, and as exit code.
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
	l.starting.answer(l.machine.State())
	message := l.terminationMessage(reason)
	l.log.Info().Str("reason", reason).Bool("domain_ran", message.Ran).
		Str("termination_message", message.Message).Msg("exiting launcher")
	if err := writeTermination(l.cfg.TerminationMessage, message); err != nil {
		l.log.Error().Err(err).Msg("failed to write termination message")
	}
	if reason == contract.ReasonNotReceived && l.incoming.get().asked {
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
