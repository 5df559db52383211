package vmi

import (
	"time"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
)

// copySettle is how long the status does not say yet that the guest is being copied: most are through by then, and are
// written once instead of twice, as their VM is.
const copySettle = 2 * time.Second

// refreshArrival notes whether the guest has just left, or arrived. Its old pod has ended before the migration says so;
// its new one is called Ready, and its agent answers there, some moments later. What lasts no longer does not show.
func (s *State) refreshArrival(now time.Time) {
	s.Arriving = now.Before(s.arrivalBy()) && (!s.podReady() || s.agentReturns() || s.anyOtherHeld())
}

// arrivalBy is until when a guest counts as just arriving; zero: it is not moved, or something is to be said of it.
func (s *State) arrivalBy() time.Time {
	last := s.migrationState()
	switch {
	case s.Phase != PhaseRunning || s.deleting() || s.halted():
	case s.departed() && !s.LeftSince.IsZero():
		return s.LeftSince.Add(settleTime)
	case !last.Ended() || last.Failed || s.Pod == nil || s.Pod.Migration != last.MigrationUID:
	case s.podEnded() || s.Pod.DeletionTimestamp != nil:
	default:
		return last.End.Add(settleTime)
	}
	return time.Time{}
}

// agentReturns says that the guest's agent answered before it was moved, and has not said as much since.
func (s *State) agentReturns() bool {
	was, d := s.Written, s.Domain
	return was != nil && was.AgentConnected && (d == nil || !d.AgentConnected || was.Guest != nil && d.Guest == nil)
}

func (s *State) anyOtherHeld() bool {
	for i := range s.Others {
		if s.Others[i].podHeld() {
			return true
		}
	}
	return false
}

// staysReady says that a condition Ready is not withdrawn for the moment in which the guest arrives.
func (s *State) staysReady(c contract.Condition) bool {
	was, ok := conditions.Get(s.Conditions, c.Type)
	return s.Arriving && ok && was.Status == "True" && c.Status != "True"
}

// moveSettles is until when a status is not written that a migration is about to change again; zero: it is written.
func (s *State) moveSettles() time.Time {
	m := s.Migration
	switch {
	case s.urgentNews() || s.deleting():
	case s.unwritten():
		if m.Stage == contract.StageCopying && m.Written == contract.StageHandOff {
			return m.CopyingBy
		}
	case s.Arriving:
		return s.arrivalBy()
	}
	return time.Time{}
}
