package agent

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// Intervals has the times between requests while the agent is connected.
type Intervals struct {
	// First is the time after the requests at connection: by then a guest that was still booting has its addresses.
	First time.Duration
	// System is the time between requests for the operating system and the interfaces, Version that between checks of
	// the agent itself.
	System, Version time.Duration
	// Frozen is the time between checks whether a frozen guest still is frozen.
	Frozen time.Duration
}

// KubeVirtIntervals returns KubeVirt's intervals.
func KubeVirtIntervals() Intervals {
	return Intervals{First: 10 * time.Second, System: 120 * time.Second, Version: 300 * time.Second,
		Frozen: 5 * time.Second}
}

// Poller asks the agent while it is connected, and reports what it learns. It reports a connection together with the
// first answers: one change instead of several.
type Poller struct {
	channel   Channel
	every     Intervals
	report    func(connected bool, info *rpc.GuestInfo, frozen bool)
	log       zerolog.Logger
	connected chan bool     // the newest, until Run receives it
	operated  chan struct{} // the guest may have been frozen or thawed
	rebooted  chan struct{} // the guest boots again
	needs     Needs

	// The following belong to Run.
	info    *rpc.GuestInfo // never changed once it was reported
	checked time.Time      // when the agent itself was checked
	frozen  bool
}

// NewPoller returns a Poller; only Run calls report. The info may be nil, and must not be changed.
func NewPoller(
	channel Channel, every Intervals, report func(connected bool, info *rpc.GuestInfo, frozen bool), log zerolog.Logger,
) *Poller {
	return &Poller{channel: channel, every: every, report: report, log: log, connected: make(chan bool, 1),
		operated: make(chan struct{}, 1), rebooted: make(chan struct{}, 1)}
}

// Needs sets the optional features that the agent must support. It must be called before the agent is connected.
func (p *Poller) Needs(n Needs) { p.needs = n }

// Connected records whether the agent is connected. It is not safe for concurrent use.
func (p *Poller) Connected(yes bool) {
	select {
	case <-p.connected: // replaced before Run received it
	default:
	}
	p.connected <- yes
}

// Operated has the poller check whether the guest is frozen. It is safe for concurrent use.
func (p *Poller) Operated() {
	select {
	case p.operated <- struct{}{}:
	default: // a check is already due
	}
}

// Rebooted has the poller forget that the guest is frozen: the freeze ended with the system that was shut down. It is
// safe for concurrent use.
func (p *Poller) Rebooted() {
	select {
	case p.rebooted <- struct{}{}:
	default: // a reboot is already recorded
	}
}

// Run polls until ctx ends. A request that hangs, because libvirt does, ends with the process.
func (p *Poller) Run(ctx context.Context) {
	connected := false
	var next <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-p.connected:
			if now == connected {
				continue
			}
			connected, next = now, nil
			if !connected {
				p.checked = time.Time{}
				p.report(false, p.info, p.frozen)
				continue
			}
			p.pollDue()
			next = time.After(p.every.First)
		case <-next:
			p.pollDue()
			next = time.After(p.interval())
		case <-p.operated:
			if !connected {
				continue
			}
			p.lookFrozen()
			if p.frozen {
				next = time.After(p.interval())
			}
		case <-p.rebooted:
			if !p.frozen {
				continue
			}
			// At once: the agent may not answer for long, or ever. An answer corrects it, since the guest may have been
			// frozen again.
			p.frozen = false
			if connected {
				p.report(connected, p.info, p.frozen)
				p.lookFrozen()
				next = time.After(min(p.every.First, p.interval()))
			}
		}
		p.report(connected, p.info, p.frozen)
	}
}

// interval returns the time until the next poll.
func (p *Poller) interval() time.Duration {
	if p.frozen {
		return p.every.Frozen
	}
	return p.every.System
}

// lookFrozen asks whether the guest's file systems are frozen.
func (p *Poller) lookFrozen() {
	if frozen, err := Frozen(p.channel, lookTimeout); err == nil {
		p.frozen = frozen
	} else {
		p.log.Debug().Err(err).Msg("failed to read freeze status of guest")
	}
}

// pollDue sends the requests that are due, and keeps the earlier value where one fails. The agent of a frozen guest
// supports hardly any command.
func (p *Poller) pollDue() {
	if p.lookFrozen(); p.frozen {
		return
	}
	next := &rpc.GuestInfo{AgentProblem: p.info.GetAgentProblem(), Os: p.info.GetOs(),
		Interfaces: p.info.GetInterfaces()}
	if p.checked.IsZero() || time.Since(p.checked) >= p.every.Version {
		text, err := findProblem(p.channel, p.needs)
		if err != nil {
			p.log.Debug().Err(err).Msg("failed to reach agent of guest")
			return
		}
		next.AgentProblem, p.checked = text, time.Now()
	}
	if os, err := operatingSystem(p.channel); err == nil {
		next.Os = os
	} else {
		p.log.Debug().Err(err).Msg("failed to read operating system of guest")
	}
	if list, err := interfaces(p.channel); err == nil {
		next.Interfaces = list
	} else {
		p.log.Debug().Err(err).Msg("failed to read interfaces of guest")
	}
	p.info = next
}
