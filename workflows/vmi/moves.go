package vmi

import (
	"slices"
	"time"

	"github.com/virtflow/virtflow/workflows/contract"
)

// arrival is how long, after the guest has left its pod, the migration may take to say that it has moved; KubeVirt's
// figure.
const arrival = time.Minute

// neverArrived is KubeVirt's event of a guest that left its node and runs nowhere.
const neverArrived = "The VirtualMachineInstance's domain was never observed on the target after the migration " +
	"completed within the timeout period."

// target is the other pod that the guest is, or may have been, moved to; nil: there is none that lives.
func (s *State) target() *Launcher {
	for i := range s.Others {
		l := &s.Others[i]
		ours := l.Pod.Migration != ""
		if m := s.Migration; m != nil {
			ours = l.Pod.Migration == m.Migration.UID
		}
		if ours && l.podHeld() && !l.podEnded() && !l.domainIn(contract.DomainShutoff, contract.DomainCrashed) {
			return l
		}
	}
	return nil
}

// arrived says that the guest goes on there.
func (l *Launcher) arrived() bool {
	return l.domainIn(contract.DomainRunning) || l.domainIn(contract.DomainPaused) && !l.midway()
}

// midway says that the guest waits there for the other end of its migration.
func (l *Launcher) midway() bool {
	return l.domainIn(contract.DomainPaused) && l.Domain.Reason == contract.PausedMigration
}

// halted says that the guest's processors are, which the readiness gate and a condition are to say. The moment in which
// a guest goes from one pod to the other is no such thing.
func (s *State) halted() bool {
	return s.domainIn(contract.DomainPaused) && (!s.midway() || !s.moving())
}

// left says that the guest has left the pod in hand for another, and runs in it never again. That is not its end.
func (s *State) left() bool {
	if s.domainIn(contract.DomainShutoff, contract.DomainCrashed) && s.Domain.Reason == contract.ReasonMigrated {
		return true
	}
	return s.podEnded() && s.termination().Reason == contract.ReasonMigrated
}

// mayHaveLeft says that the guest may go on at its target although its pod has ended without saying so: killed, or on a
// node that is off. Its migration asks both ends. What the launcher says of a guest's end counts, unless the target is
// known to go on.
func (s *State) mayHaveLeft() bool {
	m := s.Migration
	crashed := s.domainIn(contract.DomainShutoff, contract.DomainCrashed)
	if m == nil || m.Stage == contract.StageClaim || m.Stage == contract.StageStayed || s.Pod == nil ||
		s.Pod.Migration == m.Migration.UID || !s.podEnded() && !crashed {
		return false
	}
	l := s.target()
	if l == nil {
		return s.targetUnseen() && (s.Stale || !m.SoughtTarget)
	}
	return l.arrived() || !crashed && s.termination().Reason == ""
}

// targetUnseen says that no pod of the migration in hand is known, not even one that has ended.
func (s *State) targetUnseen() bool {
	return !slices.ContainsFunc(s.launchers(), func(l *Launcher) bool {
		return l.Pod.Migration == s.Migration.Migration.UID
	})
}

// departed says that the guest has left the pod in hand, or that its migration is to find out whether it has.
func (s *State) departed() bool { return s.left() || s.mayHaveLeft() }

// refreshClaim brings the migration in hand up to what is known.
func (s *State) refreshClaim(now time.Time) {
	m := s.Migration
	if m != nil {
		s.refreshHolder(now)
		if s.VMI.Gone && m.over() {
			m.Written = m.Stage // there is nothing to write it to
		}
		if m.Stage == contract.StageCopying && m.CopyingBy.IsZero() {
			m.CopyingBy = now.Add(copySettle)
		}
		if m.Stage == contract.StageMoved {
			s.takeOver()
		}
	}
	if s.Phase == PhaseRunning && s.mayHaveLeft() && s.targetUnseen() && !m.SoughtTarget {
		m.SoughtTarget, s.Stale = true, true
	}
	if s.Phase != PhaseRunning || !s.departed() || m != nil && m.Stage == contract.StageMoved && s.target() != nil {
		s.LeftSince, s.SoughtGuest = time.Time{}, false
		return
	}
	if s.LeftSince.IsZero() {
		s.LeftSince = now
		if m != nil && !s.left() {
			m.Asked = true // it may not know yet that there is something to be found out
		}
	}
	l := s.target()
	missing := m == nil || !m.MissingSince.IsZero() && !now.Before(m.MissingSince.Add(askAgain))
	switch {
	case now.Before(s.LeftSince.Add(arrival)) || s.Stale:
	case !s.SoughtGuest:
		s.SoughtGuest, s.Stale = true, true
		if m != nil {
			m.Asked = true
		}
	case l == nil, missing && !l.arrived() && !now.Before(s.LeftSince.Add(askAgain)):
		s.NeverArrived = true
		if m != nil && !m.over() {
			s.stay(now, neverArrived)
		}
	}
}

// refreshHolder sees to a migration that may be no more.
func (s *State) refreshHolder(now time.Time) {
	m := s.Migration
	if m.Migration.Name == "" {
		for _, l := range s.launchers() {
			if l.Pod.Migration == m.Migration.UID {
				m.Migration.Name = l.Pod.MigrationName
			}
		}
	}
	if m.Source.UID == "" && s.Pod != nil && s.Pod.Name == m.Source.Name {
		m.Source.UID = s.Pod.UID
	}
	switch heard := m.HeardAt.Add(askAgain); {
	case m.AskAt.IsZero():
		m.AskAt = now // as the status had it: whoever it is has to hear that it is known
	case !now.Before(m.AskAt) && now.Before(heard):
		m.AskAt = heard
	}
	if m.Migration.Name == "" && !m.over() && !now.Before(m.AskAt) {
		s.missed(now) // nothing says who it is
	}
	if m.MissingSince.IsZero() || s.Stale || m.over() {
		return
	}
	switch l := s.target(); {
	case m.Stage == contract.StageClaim && now.Before(m.MissingSince.Add(orphanTime)):
	case m.Stage == contract.StageClaim:
		s.Migration = nil
	case l == nil && !s.left():
		s.stay(now, "the migration is gone, and so is its target")
	case l != nil && s.departed() && l.arrived():
		m.Stage = contract.StageMoved
		m.end(now, "")
	}
}

// takeOver makes the target's pod the one in hand, as the guest is there.
func (s *State) takeOver() {
	m := s.Migration
	if s.Pod != nil && s.Pod.Migration == m.Migration.UID {
		return
	}
	i := slices.IndexFunc(s.Others, func(l Launcher) bool { return l.Pod.Migration == m.Migration.UID })
	if i < 0 {
		s.Stale = s.Stale || !m.SoughtTarget
		m.SoughtTarget = true
		return
	}
	others := slices.Clone(s.Others)
	others[i], s.Launcher = s.Launcher, others[i]
	s.Others = others
	if d := m.Domain; d != nil && d.PodUID == s.Pod.UID {
		s.Launcher.observeDomain(*d)
	}
}

// claimAlarm are the times at which a migration's state changes by itself.
func (s *State) claimAlarm() []time.Time {
	var at []time.Time
	if m := s.Migration; m != nil && !m.over() {
		at = append(at, m.AskAt)
	}
	if s.Arriving {
		at = append(at, s.arrivalBy())
	}
	held := func(l Launcher) bool { return l.podHeld() }
	if last := s.MigrationState; last.Ended() && slices.ContainsFunc(s.Others, held) {
		at = append(at, last.End.Add(lookAgain))
	}
	if !s.LeftSince.IsZero() {
		at = append(at, s.LeftSince.Add(arrival), s.LeftSince.Add(askAgain))
		if m := s.Migration; m != nil && !m.MissingSince.IsZero() {
			at = append(at, m.MissingSince.Add(askAgain))
		}
	}
	return at
}

// migrationEndBy is until when the pods stay although the instance is to go: its migration ends first. Zero: they go,
// as those of a guest that is given no time do at once.
func (s *State) migrationEndBy(now time.Time) time.Time {
	until := s.EndingSince.Add(migrationEndTime)
	if !s.moving() || !now.Before(until) || contract.Grace(s.VMI.GracePeriodSeconds) == 0 {
		return time.Time{}
	}
	return until
}

// tended says that a migration sees to the end of a pod: that of its target, or the source's when it is done.
func (s *State) tended(l *Launcher, now time.Time) bool {
	m, last := s.Migration, s.MigrationState
	switch {
	case s.deleting(), l.PodDeleted:
		return false
	case l == &s.Launcher:
		return s.Phase == PhaseRunning && s.left()
	case m != nil && (l.Pod.Migration == m.Migration.UID || l.Pod.UID == m.Source.UID):
		return m.MissingSince.IsZero()
	default:
		return last.Ended() && (l.Pod.Name == last.SourcePod || l.Pod.Name == last.TargetPod) &&
			now.Before(last.End.Add(lookAgain))
	}
}

// targetLabel is the label that names the node which the guest is moved to; nil: leave it.
func (s *State) targetLabel() *string {
	node := ""
	switch {
	case s.moving():
		node = s.Migration.State.TargetNode
	case s.migrationState() == nil || s.Migration == nil && !s.OutcomeUnknown:
		return nil
	}
	return &node
}

// evacuated says that the guest is not on the node any more that it was asked to leave.
func (s *State) evacuated(st contract.VMIStatus) bool {
	from := s.VMI.EvacuationNode
	return from != "" && st.NodeName != "" && from != st.NodeName
}

// moveEvents are those that the migration in hand has recorded with what is written.
func (s *State) moveEvents() []contract.Event {
	if s.Migration == nil {
		return nil
	}
	return s.Migration.Events
}

// recorded notes that what is known of the migration in hand was written with those events.
func (s *State) recorded(events []contract.Event) {
	m := s.Migration
	if m == nil {
		return
	}
	m.Written = m.Stage
	list := slices.Clone(m.Recorded)
	for _, e := range events {
		list = append(list, e.Message)
	}
	m.Recorded, m.Events = list, nil
}
