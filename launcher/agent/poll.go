package agent

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// Pace is how often the guest is asked while its agent is connected.
type Pace struct {
	// First is the pause after the look that comes with the connection: by then a guest that was still booting has its addresses.
	First time.Duration
	// System is the pause between looks at the operating system and the interfaces, Version that between looks at the agent itself.
	System, Version time.Duration
}

// KubeVirtPace is KubeVirt's.
func KubeVirtPace() Pace {
	return Pace{First: 10 * time.Second, System: 120 * time.Second, Version: 300 * time.Second}
}

// Poller asks the agent while it is connected, and tells what it learns. A connection is told together with the first answers: one change
// instead of several.
type Poller struct {
	channel   Channel
	pace      Pace
	tell      func(connected bool, info *rpc.GuestInfo)
	log       zerolog.Logger
	connected chan bool // the newest, if it was not taken yet

	// Run's own.
	info    *rpc.GuestInfo // never changed once it was told
	checked time.Time      // when the agent itself was looked at
}

// NewPoller makes one; tell is called from Run only. The info may be nil, and must not be changed.
func NewPoller(channel Channel, pace Pace, tell func(connected bool, info *rpc.GuestInfo), log zerolog.Logger) *Poller {
	return &Poller{channel: channel, pace: pace, tell: tell, log: log, connected: make(chan bool, 1)}
}

// Connected notes whether the agent is connected. One caller at a time.
func (p *Poller) Connected(yes bool) {
	select {
	case <-p.connected: // replaced before it was read
	default:
	}
	p.connected <- yes
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
				p.tell(false, p.info)
				continue
			}
			p.look()
			next = time.After(p.pace.First)
		case <-next:
			p.look()
			next = time.After(p.pace.System)
		}
		p.tell(connected, p.info)
	}
}

// look asks for what is due. What cannot be learnt stays as it was.
func (p *Poller) look() {
	next := &rpc.GuestInfo{AgentProblem: p.info.GetAgentProblem(), Os: p.info.GetOs(), Interfaces: p.info.GetInterfaces()}
	if p.checked.IsZero() || time.Since(p.checked) >= p.pace.Version {
		text, err := problem(p.channel)
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
