package forward

import (
	"reflect"
	"time"

	"golang.org/x/time/rate"

	"github.com/virtflow/virtflow/contract"
)

// Limits of what the launcher of one pod may have its entity be sent: histories keep it for months, a guest changes
// what its agent reports as often as it likes, and a guest that has broken out into its launcher may send anything. A
// guest that boots, gets addresses and is configured causes some six signals.
const (
	// agentDebounce is how long an agent has to be gone before that is sent: a guest that reboots has it back by then.
	agentDebounce = 30 * time.Second
	// agentBurst and agentEach are for what only the guest's agent reports.
	agentBurst = 10
	agentEach  = 6 * time.Minute
	// changeBurst and changeEach are for all other changes of a domain that lives and stays.
	changeBurst = 60
	changeEach  = time.Minute
	// moveBurst and moveEach are for the progress of a migration. A launcher reports it every ten seconds: for the
	// first ten minutes all of it is sent.
	moveBurst = 60
	moveEach  = 30 * time.Second
	// endBurst and endEach are for a domain that shuts down or is off. A launcher has one domain, which ends once.
	endBurst = 10
	endEach  = 6 * time.Minute
)

// budget limits over time what is sent of one pod by its launcher's reports. What exceeds it waits, and then the newest
// is sent. Each kind has its own limiter: what a guest or a migration has used up delays no end. Results of calls,
// which the node worker waits for itself, do not count. It is not safe for concurrent use.
type budget struct{ agent, changes, moves, ends *rate.Limiter }

func newBudget() budget {
	return budget{
		agent:   rate.NewLimiter(rate.Every(agentEach), agentBurst),
		changes: rate.NewLimiter(rate.Every(changeEach), changeBurst),
		moves:   rate.NewLimiter(rate.Every(moveEach), moveBurst),
		ends:    rate.NewLimiter(rate.Every(endEach), endBurst),
	}
}

// limiterOf returns the limiter of a change.
func (b budget) limiterOf(was *contract.DomainObservation, d contract.DomainObservation) *rate.Limiter {
	switch {
	case isAgentChange(was, d):
		return b.agent
	case d.State == contract.DomainShutoff, d.State == contract.DomainShutdown, d.State == contract.DomainCrashed,
		d.State == contract.DomainAbsent:
		return b.ends
	case d.Migration != nil:
		return b.moves
	default:
		return b.changes
	}
}

// delay returns how long a change waits from now on.
func (b budget) delay(was *contract.DomainObservation, d contract.DomainObservation, now time.Time) time.Duration {
	limiter, delay := b.limiterOf(was, d), Debounce(d)
	if limiter == b.agent && was.AgentConnected && !d.AgentConnected {
		delay = max(delay, agentDebounce)
	}
	if lacks := 1 - limiter.TokensAt(now); lacks > 0 {
		delay = max(delay, time.Duration(lacks/float64(limiter.Limit())*float64(time.Second)))
	}
	return delay
}

// spend counts a change that was sent, also if it exceeds the limit: then the next one waits longer.
func (b budget) spend(was *contract.DomainObservation, d contract.DomainObservation, now time.Time) {
	b.limiterOf(was, d).ReserveN(now, 1)
}

// isAgentChange reports whether only the guest's agent has reported something new since the entity was sent was.
func isAgentChange(was *contract.DomainObservation, d contract.DomainObservation) bool {
	if was == nil {
		return false
	}
	same := *was
	same.Sequence, same.AgentConnected, same.Frozen = d.Sequence, d.AgentConnected, d.Frozen
	same.Guest, same.AccessCredentials = d.Guest, d.AccessCredentials
	return reflect.DeepEqual(same, d)
}
