package launcher

import (
	"github.com/virtflow/virtflow/launcher/credentials"
	"github.com/virtflow/virtflow/launcher/guest"
	"github.com/virtflow/virtflow/launcher/lifecycle"
	"github.com/virtflow/virtflow/launcher/rpc"
)

// poller asks the guest's agent. It is notified of what changes the agent's answers: see agent.Poller.
type poller interface {
	Connected(yes bool)
	Operated()
	Rebooted()
}

// recordStatus records a status of the domain in the state that watchers follow, and returns the lifecycle's input if
// the domain has ended.
func (l *Launcher) recordStatus(s guest.Status) lifecycle.Input {
	l.log.Info().Str("state", string(s.State)).Str("pause_reason", string(s.PauseReason)).
		Bool("agent", s.AgentConnected).Msg("observed domain")
	awaited := l.machine.State() == lifecycle.Receiving || l.machine.State() == lifecycle.Held
	l.poller.Connected(s.AgentConnected && !s.State.Ended() && !awaited)
	if !s.State.Ended() {
		l.domain.Update(func(d *rpc.Domain) {
			d.State, d.PauseReason = rpcState(s.State), rpcPauseReason(s.PauseReason)
			if s.MachineType != "" {
				d.MachineType = s.MachineType
			}
		})
	}
	if awaited {
		if in := endInput(s.State); in != "" {
			return in
		}
		return l.recordArrival(s)
	}
	l.resumption.follow(s.PauseReason)
	return l.outgoing.deferEnd(endInput(s.State))
}

// recordAgent records what the poller found in the state that watchers follow, unless the guest has ended meanwhile.
func (l *Launcher) recordAgent(connected bool, info *rpc.GuestInfo, frozen bool) {
	l.domain.Update(func(d *rpc.Domain) {
		if s := d.GetState(); s == rpc.DomainState_DOMAIN_STATE_SHUTOFF || s == rpc.DomainState_DOMAIN_STATE_CRASHED {
			return
		}
		d.AgentConnected, d.Guest, d.Frozen = connected, info, frozen
	})
	if connected && frozen {
		l.operations.thawing.adopt(arrivedFrozen, l.thaw)
	}
}

// guestState returns the guest's state as far as its credentials depend on it.
func (l *Launcher) guestState() credentials.State {
	d := l.domain.Domain()
	return credentials.State{
		Running:   d.GetState() == rpc.DomainState_DOMAIN_STATE_RUNNING,
		Connected: d.GetAgentConnected(), Frozen: d.GetFrozen(),
	}
}

// reportLostFileSystem reports a file system that a running guest cannot use any more: QEMU does not reconnect.
func (l *Launcher) reportLostFileSystem(volume string) {
	if s, err := l.hypervisor.Look(); err != nil || s.State != guest.Running && s.State != guest.Paused {
		return // it went with its guest
	}
	l.domain.Update(func(d *rpc.Domain) {
		d.Problem = "the file system " + volume + " cannot be used until the guest is restarted: " +
			"its virtiofsd has ended"
	})
}

// recordCredentials records the result for the guest's credentials in the state that watchers follow.
func (l *Launcher) recordCredentials(done bool, message string) {
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
