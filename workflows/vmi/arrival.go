package vmi

import (
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
)

// copySettle is how long the status does not show yet that the guest is being copied. Most copies end within that time:
// their end is then written once, to the VMI and to its VM, instead of twice.
const copySettle = 2 * time.Second

// refreshArrival records whether the guest has just left its pod, or has just arrived in another. The old pod ends
// before the migration reports the move. The new pod becomes Ready, and its agent answers, some moments later. The
// status hides such a gap unless it lasts. Written is the last written status.
func (m *Migrations) refreshArrival(in scope, written *contract.VMIStatus, now time.Time) {
	m.Arriving = now.Before(m.arrivalBy(in)) && (!in.isPodReady() || in.isAgentReturning(written) || in.hasOtherPod())
}

// arrivalBy returns until when a guest counts as arriving. It returns zero if the guest is not being moved, or if the
// status has to change.
func (m *Migrations) arrivalBy(in scope) time.Time {
	last := m.migrationState()
	switch {
	case in.phase != PhaseRunning || in.isDeleting() || in.isGuestPaused(m.isMoving()):
	case m.hasDeparted(in) && !m.LeftSince.IsZero():
		return m.LeftSince.Add(settleTime)
	case !last.Ended() || last.Failed || in.Pod == nil || in.Pod.Migration != last.MigrationUID:
	case in.hasPodEnded() || in.Pod.DeletionTimestamp != nil:
	default:
		return last.End.Add(settleTime)
	}
	return time.Time{}
}

// isAgentReturning reports whether the guest agent was connected before the move, as the written status shows, and has
// not connected since.
func (l *Launcher) isAgentReturning(written *contract.VMIStatus) bool {
	d := l.Domain
	return written != nil && written.AgentConnected &&
		(d == nil || !d.AgentConnected || written.Guest != nil && d.Guest == nil)
}

// keepsReady reports whether a Ready condition stays True for the moment in which the guest arrives.
func (m *Migrations) keepsReady(list []contract.Condition, c contract.Condition) bool {
	return m.Arriving && conditions.HasStatus(list, c.Type, "True") && c.Status != "True"
}
