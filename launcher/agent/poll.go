package agent

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// Intervals are how often the guest is asked while its agent is connected.
type Intervals struct {
	// First is the pause after the look that comes with the connection: by then a guest that was still booting has its
	// addresses.
	First time.Duration
	// System is the pause between looks at the operating system and the interfaces, Version that between looks at the
	// agent itself.
	System, Version time.Duration
	// Frozen is the pause between looks at whether a frozen guest still is.
	Frozen time.Duration
}

// KubeVirtIntervals are KubeVirt's.
func KubeVirtIntervals() Intervals {
	return Intervals{First: 10 * time.Second, System: 120 * time.Second, Version: 300 * time.Second,
		Frozen: 5 * time.Second}
}

// Poller asks the agent while it is connected, and tells what it learns. A connection is told together with the first
// answers: one change instead of several.
type Poller struct {
	channel   Channel
	every     Intervals
	tell      func(connected bool, info *rpc.GuestInfo, frozen bool)
	log       zerolog.Logger
	connected chan bool     // the newest, if it was not taken yet
	operated  chan struct{} // that the guest may be frozen or thawed now
	rebooted  chan struct{} // that another system boots
	needs     Needs

	// Run's own.
	info    *rpc.GuestInfo // never changed once it was told
	checked time.Time      // when the agent itself was looked at
	frozen  bool
}

// NewPoller makes one; tell is called from Run only. The info may be nil, and must not be changed.
func NewPoller(
	channel Channel, every Intervals, tell func(connected bool, info *rpc.GuestInfo, frozen bool), log zerolog.Logger,
) *Poller {
	return &Poller{channel: channel, every: every, tell: tell, log: log, connected: make(chan bool, 1),
		operated: make(chan struct{}, 1), rebooted: make(chan struct{}, 1)}
}

// Needs says what the agent has to do besides; to be called before it is connected.
func (p *Poller) Needs(n Needs) { p.needs = n }

// Connected notes whether the agent is connected. One caller at a time.
func (p *Poller) Connected(yes bool) {
	select {
	case <-p.connected: // replaced before it was read
	default:
	}
	p.connected <- yes
}

// Operated has the poller look whether the guest is frozen. Any number of callers at a time.
func (p *Poller) Operated() {
	select {
	case p.operated <- struct{}{}:
	default: // a look is due already
	}
}

// Rebooted has the poller forget that the guest is frozen: what was frozen went with the system that was. Any number of
// callers at a time.
func (p *Poller) Rebooted() {
	select {
	case p.rebooted <- struct{}{}:
	default: // it is about to forget it
	}
}

// Run polls until ctx ends. A look that hangs, because libvirt does, ends with the process.
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
				p.tell(false, p.info, p.frozen)
				continue
			}
			p.look()
			next = time.After(p.every.First)
		case <-next:
			p.look()
			next = time.After(p.pause())
		case <-p.operated:
			if !connected {
				continue
			}
			p.lookFrozen()
			if p.frozen {
				next = time.After(p.pause())
			}
		case <-p.rebooted:
			if !p.frozen {
				continue
			}
			// At once: no agent may answer for long, or ever. One that does knows better, for it may have been frozen
			// again since.
			p.frozen = false
			if connected {
				p.tell(connected, p.info, p.frozen)
				p.lookFrozen()
				next = time.After(min(p.every.First, p.pause()))
			}
		}
		p.tell(connected, p.info, p.frozen)
	}
}

func (p *Poller) pause() time.Duration {
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
		p.log.Debug().Err(err).Msg("the guest does not say whether it is frozen")
	}
}

// look asks for what is due. What cannot be learnt stays as it was. The agent of a frozen guest knows hardly a command.
func (p *Poller) look() {
	if p.lookFrozen(); p.frozen {
		return
	}
	next := &rpc.GuestInfo{AgentProblem: p.info.GetAgentProblem(), Os: p.info.GetOs(),
		Interfaces: p.info.GetInterfaces()}
	if p.checked.IsZero() || time.Since(p.checked) >= p.every.Version {
		text, err := problem(p.channel, p.needs)
		if err != nil {
			p.log.Debug().Err(err).Msg("the guest's agent is silent")
			return
		}
		next.AgentProblem, p.checked = text, time.Now()
	}
	if os, err := operatingSystem(p.channel); err == nil {
		next.Os = os
	} else {
		p.log.Debug().Err(err).Msg("the guest does not say what it runs")
	}
	if list, err := interfaces(p.channel); err == nil {
		next.Interfaces = list
	} else {
		p.log.Debug().Err(err).Msg("the guest does not say which interfaces it has")
	}
	p.info = next
}
