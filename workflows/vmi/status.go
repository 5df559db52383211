package vmi

import (
	"cmp"
	"time"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// KubeVirt's names.
const (
	conditionCredentials    = "AccessCredentialsSynchronized"
	reasonDomainFailed      = "Synchronizing with the Domain failed."
	reasonCredentialsSet    = "AccessCredentialsSyncSuccess"
	reasonCredentialsFailed = "AccessCredentialsSyncFailed"
)

// refresh brings phase, phase times and conditions up to what is known. It runs before each decision and is as
// deterministic as one.
func (s *State) refresh(now time.Time) {
	for _, l := range s.launchers() {
		l.refreshNode(now)
	}
	if s.VMI == nil {
		if s.anyHeld() && s.LookAt.IsZero() {
			s.LookAt = now
		}
		return
	}
	if s.deleting() && s.EndingSince.IsZero() {
		s.EndingSince, s.SettleBy = now, now.Add(endSettle)
	}
	s.refreshClaim(now)
	s.refreshOrphans(now)
	for _, r := range s.advance() {
		s.enter(r, now)
	}
	s.refreshArrival(now)
	s.refreshProgress(now)
	s.refreshConditions(now)
	s.explainMemory()
	s.track(now)
	switch {
	case !s.onlyPods():
		s.PodsBy = time.Time{}
	case s.PodsBy.IsZero():
		s.PodsBy = now.Add(settleTime)
	}
	switch {
	case !s.deleting() || !s.anyHeld():
		s.LookAt = time.Time{}
	case s.LookAt.IsZero():
		s.LookAt = now.Add(lookAgain)
	}
}

func (s *State) enter(r Rule, now time.Time) {
	if r.To.Final() {
		s.Explanation = s.explain(r)
		if s.Pod != nil && s.Pod.Gone && s.Pod.ExitCode == nil && s.Domain != nil {
			s.Reason = "PodVanished"
		}
		if n := s.node(); s.off() || n != nil && (n.Gone || !n.Ready) && s.Pod.Gone && s.Pod.ExitCode == nil {
			s.Reason = contract.ReasonNodeUnresponsive
		}
	}
	if s.SettleBy.IsZero() && (r.To == PhaseScheduling || r.To == PhaseRunning) || r.To.Final() &&
		s.EndingSince.IsZero() {
		s.SettleBy = now.Add(settleTime)
	}
	for _, t := range s.PhaseTimes {
		if t.Phase == string(r.To) {
			return
		}
	}
	s.PhaseTimes = append(s.PhaseTimes, contract.PhaseTime{Phase: string(r.To), Time: now.Truncate(time.Second)})
}

func (s *State) refreshConditions(now time.Time) {
	set := func(c contract.Condition) { s.Conditions = conditions.Set(s.Conditions, c, now.Truncate(time.Second)) }
	if c := s.readyCondition(); !s.staysReady(c) {
		set(c)
	}
	switch {
	case s.trouble():
		set(contract.Condition{Type: "Synchronized", Status: "False", Reason: s.Failure.Reason,
			Message: s.Failure.Message})
	default:
		s.Conditions = conditions.Show(s.Conditions, "Synchronized", s.launcherProblem(now), now.Truncate(time.Second))
	}
	s.refreshLost(now)
	lacking := s.lacking()
	switch {
	case s.Phase == PhaseScheduling && s.Pod != nil && s.Pod.Unschedulable != nil:
		set(contract.Condition{Type: "PodScheduled", Status: "False", Reason: "Unschedulable",
			Message: s.Pod.Unschedulable.Message})
	case lacking != nil && !lacking.Populating():
		set(contract.Condition{Type: "PodScheduled", Status: "False", Reason: "Unschedulable",
			Message: lacking.Message})
	default:
		s.Conditions = conditions.Remove(s.Conditions, "PodScheduled")
	}
	if s.Phase == PhaseRunning || s.Phase == PhaseScheduled {
		s.showMigratable(now)
	}
	if from := s.VMI.EvacuationNode; from != "" && s.Phase == PhaseRunning && s.Pod != nil && s.Pod.NodeName == from {
		set(contract.Condition{Type: "EvictionRequested", Status: "True", Reason: "EvictionRequested"})
	} else {
		s.Conditions = conditions.Remove(s.Conditions, "EvictionRequested")
	}
	s.showDataVolumes(now.Truncate(time.Second))
	s.showProgress(now.Truncate(time.Second))
	s.Conditions = s.Show(s.Conditions, now.Truncate(time.Second))
	if s.domainUnknown() {
		return
	}
	if s.Phase == PhaseRunning && s.Domain != nil && s.Domain.AgentConnected {
		set(contract.Condition{Type: "AgentConnected", Status: "True"})
	} else if !s.Arriving || !s.agentReturns() {
		s.Conditions = conditions.Remove(s.Conditions, "AgentConnected")
	}
	if s.Phase == PhaseRunning && s.Domain != nil && s.Domain.AgentConnected && s.Domain.Guest != nil &&
		s.Domain.Guest.AgentProblem != "" {
		set(contract.Condition{Type: "AgentVersionNotSupported", Status: "True", Reason: s.Domain.Guest.AgentProblem})
	} else {
		s.Conditions = conditions.Remove(s.Conditions, "AgentVersionNotSupported")
	}
	s.showCredentials(now)
	if s.Phase == PhaseRunning && s.halted() {
		set(pausedCondition(s.Domain.Reason))
	} else {
		s.Conditions = conditions.Remove(s.Conditions, "Paused")
	}
}

// showCredentials says whether the guest's users have what the VMI's access credentials ask for. Of a target's launcher
// nothing is known at first: what the source's has said stays.
func (s *State) showCredentials(now time.Time) {
	if s.Phase != PhaseRunning || s.Domain == nil || s.Domain.AccessCredentials == nil {
		return
	}
	known := *s.Domain.AccessCredentials
	c := contract.Condition{Type: conditionCredentials, Status: "False", Message: known.Message}
	other := contract.Event{Type: "Normal", Reason: reasonCredentialsSet}
	if known.Done {
		c.Status, other = "True", contract.Event{Type: "Warning", Reason: reasonCredentialsFailed}
	}
	if old, ok := conditions.Get(s.Conditions, c.Type); ok && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
		if old.Message != c.Message { // it is another failure
			s.Announced.Forget(contract.Event{Type: "Warning", Reason: reasonCredentialsFailed})
		}
	}
	s.Conditions = conditions.Show(s.Conditions, c.Type, &c, now.Truncate(time.Second))
	s.Announced.Forget(other)
}

// credentialsEvent has KubeVirt's words.
func (s *State) credentialsEvent() (contract.Event, bool) {
	c, ok := conditions.Get(s.Conditions, conditionCredentials)
	if c.Status == "True" {
		return contract.Event{Type: "Normal", Reason: reasonCredentialsSet,
			Message: "Access credentials sync successful."}, ok
	}
	return contract.Event{Type: "Warning", Reason: reasonCredentialsFailed,
		Message: "Access credentials sync failed: " + c.Message}, ok
}

// showMigratable says whether the guest can be moved.
func (s *State) showMigratable(now time.Time) {
	m := s.Migratable
	if m == nil { // nobody has said it yet: what was written before stays
		return
	}
	for _, c := range []contract.Condition{
		{Type: "LiveMigratable", Status: "True", Reason: m.Reason, Message: m.Message},
		{Type: "StorageLiveMigratable", Status: "True", Message: m.Storage},
	} {
		if c.Message != "" {
			c.Status = "False"
			c.Reason = cmp.Or(c.Reason, "NotMigratable")
		}
		s.Conditions = conditions.Show(s.Conditions, c.Type, &c, now.Truncate(time.Second))
	}
}

// pausedCondition has KubeVirt's words for what it knows.
func pausedCondition(why string) contract.Condition {
	c := contract.Condition{Type: "Paused", Status: "True", Reason: "PausedByUser", Message: "VMI was paused by user"}
	switch why {
	case contract.PausedIOError:
		c.Reason, c.Message = "PausedIOError", "VMI was paused, low-level IO error detected"
	case contract.PausedNoSpace:
		c.Reason, c.Message = "PausedIOError",
			"VMI was paused, low-level IO error detected: there is no space left for one of its disks"
	case contract.PausedMigration:
		c.Reason, c.Message = "PausedByMigrationMonitor", "VMI was paused by the migration monitor"
	case contract.PausedOther:
		c.Reason, c.Message = "PausedByHypervisor", "VMI was paused by its hypervisor"
	}
	return c
}

// domainUnknown says that the guest runs, as an earlier workflow wrote, and that its node's worker has not said how
// yet.
func (s *State) domainUnknown() bool {
	return s.Phase == PhaseRunning && s.Domain == nil
}

// urgentNews says that something is wrong of which users are to hear even while the domain is unknown.
func (s *State) urgentNews() bool {
	_, lost := conditions.Get(s.Conditions, contract.ConditionNodeLost)
	return lost || s.trouble() || s.Refused != nil
}

// trouble says that something failed which users are to hear of. A status that could not be written is none: once it
// can be, that is over.
func (s *State) trouble() bool {
	return s.Failure != nil && s.Failure.Step != string(entity.ActWrite) &&
		s.Failure.Step != string(actRemoveFinalizers)
}

// readyCondition is KubeVirt's: False with a reason until the guest runs, then as the pod has it.
func (s *State) readyCondition() contract.Condition {
	no := func(reason, message string) contract.Condition {
		return contract.Condition{Type: "Ready", Status: "False", Reason: reason, Message: message}
	}
	switch {
	case !s.podHeld():
		return no("PodNotExists", "virt-launcher pod has not yet been scheduled")
	case s.Pod.DeletionTimestamp != nil || s.PodDeleted:
		return no("PodTerminating", "virt-launcher pod is terminating")
	case s.Phase != PhaseRunning:
		return no("GuestNotRunning", "Guest VM is not reported as running")
	case s.Pod.Ready == nil:
		return no("PodConditionMissing", "virt-launcher pod is missing the Ready condition")
	default:
		r := *s.Pod.Ready
		r.Type = "Ready"
		return r
	}
}

func failureReason(a action) string {
	switch a {
	case actDeletePod, actDeleteOrphan, actForceDeletePod, actRemovePodFinalizer:
		return contract.ReasonFailedDelete
	case actStartDomain, actResize:
		return reasonDomainFailed
	default:
		return contract.ReasonFailedCreate
	}
}

// status is what users are to see.
func (s *State) status() contract.VMIStatus {
	st := contract.VMIStatus{
		Phase:      string(s.Phase),
		Reason:     s.Reason,
		Conditions: s.Conditions,
		PhaseTimes: s.PhaseTimes,
		Claims:     s.shownClaims(),

		DomainUnknown: s.domainUnknown(),
	}
	if s.Pod == nil {
		return st
	}
	st.QOSClass = s.Pod.QOSClass
	st.LauncherImage = s.Pod.LauncherImage
	st.ActivePods = s.activePods()
	st.Migration = s.migrationState()
	if s.Phase != PhaseScheduling && s.Phase != PhasePending {
		st.NodeName = s.Pod.NodeName
		if s.Migratable != nil {
			st.MigrationMethod = s.Migratable.Method
		}
	}
	if d := s.Domain; d != nil && d.PodUID == s.Pod.UID {
		st.MachineType, st.GuestMemory = d.MachineType, d.GuestMemory
		st.Interfaces, st.Volumes = d.Interfaces, d.Volumes
		st.AgentConnected, st.Guest = d.AgentConnected, d.Guest
		st.Frozen = d.Frozen && s.Phase == PhaseRunning
		st.IPs = s.Pod.IPs
		if s.Arriving && s.agentReturns() {
			st.AgentConnected, st.Guest = true, s.Written.Guest
		}
	}
	return st
}

// activePods are the pods of this VMI that are there, each with its node.
func (s *State) activePods() map[string]string {
	var out map[string]string
	for _, l := range s.launchers() {
		if l.podHeld() {
			if out == nil {
				out = map[string]string{}
			}
			out[l.Pod.UID] = l.Pod.NodeName
		}
	}
	return out
}

// leftPods are those that the VMI lists although they are not there any more.
func (s *State) leftPods(st contract.VMIStatus) []string {
	var out []string
	for _, uid := range s.VMI.ActivePods {
		if _, there := st.ActivePods[uid]; !there {
			out = append(out, uid)
		}
	}
	return out
}

// differs says whether the status is worth a write: anything at all but what only the pod's node assignment added while
// it boots.
func (s *State) differs() bool {
	if s.OutcomeUnknown || s.unwritten() {
		return true
	}
	if s.Written == nil {
		// A VMI made by its VM says Pending from the start, and one that is older than this workflow says what was
		// written then.
		return s.VMI.Phase != string(s.Phase) || s.Domain != nil || s.Phase.Final() || s.trouble() ||
			s.urgentNews() || s.lacking() != nil
	}
	now := s.status()
	if s.Phase == PhaseScheduling && s.Written.Phase == string(PhaseScheduling) {
		now.ActivePods, now.QOSClass, now.LauncherImage = s.Written.ActivePods, s.Written.QOSClass,
			s.Written.LauncherImage
	}
	return !entity.Same(now, *s.Written)
}

// onlyPods says that the status differs from what was written in nothing but the pods that migrations have brought and
// taken.
func (s *State) onlyPods() bool {
	if s.Migration == nil && s.MigrationState == nil || s.Written == nil || s.OutcomeUnknown || s.unwritten() {
		return false
	}
	now := s.status()
	if entity.Same(now.ActivePods, s.Written.ActivePods) {
		return false
	}
	now.ActivePods = s.Written.ActivePods
	return entity.Same(now, *s.Written)
}

// ownFinalizers are those of the VMI that this entity removes. The VM's own is among them: it lets the VM see how its
// VMI ended, and a VM entity is told that directly.
func (s *State) ownFinalizers() []string {
	var own []string
	for _, f := range s.VMI.Finalizers {
		if f == contract.FinalizerVMI || f == contract.FinalizerVM {
			own = append(own, f)
		}
	}
	return own
}

func (s *State) otherFinalizers() []string {
	return entity.Without(s.VMI.Finalizers, contract.FinalizerVMI, contract.FinalizerVM)
}

// news are the events that the state calls for and that were not recorded yet.
func (s *State) news() []contract.Event {
	var events []contract.Event
	add := func(kind, reason, message string) {
		events = append(events, contract.Event{Type: kind, Reason: reason, Message: message})
	}
	ran := s.Phase == PhaseRunning || s.Phase.Final() && s.ranOnce()
	if ran {
		add("Normal", "Created", "VirtualMachineInstance defined.")
		add("Normal", "Started", "VirtualMachineInstance started.")
	}
	if s.ranOnce() {
		switch s.Phase {
		case PhaseSucceeded:
			add("Normal", "Stopped", "The VirtualMachineInstance was shut down.")
		case PhaseFailed:
			add("Warning", "Stopped", "The VirtualMachineInstance crashed.")
		default:
		}
	}
	if s.ranOnce() && s.Phase.Final() && s.deleting() {
		message := "Signaled Deletion"
		if s.termination().Reason == contract.ReasonDestroyed || s.Domain != nil &&
			s.Domain.Reason == contract.ReasonDestroyed {
			message = "VirtualMachineInstance stopping"
		}
		add("Normal", "Deleted", message)
	}
	if m := s.Migratable; s.Phase == PhaseRunning && s.VMI.EvictionStrategy == "LiveMigrate" && m != nil &&
		m.Method != "" && m.Reason != "" {
		add("Warning", "Migrated", "EvictionStrategy is set but vmi is not migratable; "+m.Message)
	}
	if s.NeverArrived {
		add("Warning", "Migrated", neverArrived)
	}
	if s.off() {
		add("Normal", contract.ReasonNodeUnresponsive,
			s.Fenced.Why+": the VirtualMachineInstance has failed with its node")
	}
	if c, ok := conditions.Get(s.Conditions, contract.ConditionNodeLost); ok {
		add("Warning", contract.ReasonNodeUnresponsive, c.Message)
	}
	if e, ok := s.credentialsEvent(); ok && s.Phase == PhaseRunning {
		events = append(events, e)
	}
	if s.Failure != nil && action(s.Failure.Step) == actStartDomain {
		add("Warning", "SyncFailed", s.Failure.Message)
	}
	return s.Announced.Missing(events...)
}

func (s *State) ranOnce() bool {
	for _, t := range s.PhaseTimes {
		if t.Phase == string(PhaseRunning) {
			return true
		}
	}
	return false
}
