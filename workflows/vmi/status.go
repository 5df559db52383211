package vmi

import (
	"cmp"
	"slices"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/entity"
)

// Names of KubeVirt.
const (
	conditionCredentials    = "AccessCredentialsSynchronized"
	reasonDomainFailed      = "Synchronizing with the Domain failed."
	reasonCredentialsSet    = "AccessCredentialsSyncSuccess"
	reasonCredentialsFailed = "AccessCredentialsSyncFailed"
)

// refresh derives phase, phase times and conditions from the observations. It runs before each decision and is
// deterministic.
func (s *State) refresh(now time.Time) {
	for _, l := range s.launchers() {
		l.refreshNode(now)
	}
	if s.VMI == nil {
		if s.hasAnyPod() && s.FindPodAt.IsZero() {
			s.FindPodAt = now
		}
		return
	}
	if s.isDeleting() && s.EndingSince.IsZero() {
		s.EndingSince, s.SettleBy = now, now.Add(endSettle)
	}
	s.refreshMigration(s.scope(), now)
	s.refreshOrphans(&s.Launchers, now)
	for _, r := range s.advance() {
		s.enterPhase(r, now)
	}
	s.refreshArrival(s.scope(), s.Written, now)
	s.refreshProgress(s.Domain, now)
	s.refreshConditions(now)
	s.explainMemory()
	s.recordOperation(now)
	s.settlePods(s.differsOnlyInPods(), now)
	switch {
	case !s.isDeleting() || !s.hasAnyPod():
		s.FindPodAt = time.Time{}
	case s.FindPodAt.IsZero():
		s.FindPodAt = now.Add(findPodAfter)
	}
}

func (s *State) enterPhase(r Rule, now time.Time) {
	if r.To.Final() {
		s.Explanation = s.endExplanation(r)
		s.Reason = cmp.Or(s.endReason(s.isDeleting()), s.Reason)
	}
	s.settlePhase(r.To, !s.EndingSince.IsZero(), now)
	if _, known := phaseSince(s.PhaseTimes, r.To); !known {
		s.PhaseTimes = append(s.PhaseTimes, contract.PhaseTime{Phase: string(r.To), Time: now.Truncate(time.Second)})
	}
}

// endReason returns status.reason of an instance whose guest has ended in this pod, or "".
func (l *Launcher) endReason(deleting bool) string {
	vanished := l.Pod != nil && l.Pod.Gone && l.Pod.ExitCode == nil
	n := l.node()
	switch {
	case l.isGuestOff(), vanished && n != nil && (n.Gone || !n.Ready):
		return contract.ReasonNodeUnresponsive
	case vanished && l.Domain != nil:
		return "PodVanished"
	case !deleting && l.wasDeletedByOthers():
		return contract.ReasonEvicted
	default:
		return ""
	}
}

// phaseSince returns when a phase was entered, and whether it was.
func phaseSince(times []contract.PhaseTime, p Phase) (time.Time, bool) {
	for _, t := range times {
		if t.Phase == string(p) {
			return t.Time, true
		}
	}
	return time.Time{}, false
}

func (s *State) refreshConditions(now time.Time) {
	at := now.Truncate(time.Second)
	set := func(kind string, c *contract.Condition) { // a message alone changes nothing
		if c == nil {
			s.Conditions = conditions.Remove(s.Conditions, kind)
			return
		}
		c.Type = kind
		s.Conditions = conditions.Set(s.Conditions, *c, at)
	}
	if c := s.readyCondition(); !s.keepsReady(s.Conditions, c) {
		set("Ready", &c)
	}
	if s.hasUserVisibleFailure() {
		set("Synchronized", &contract.Condition{Status: "False", Reason: s.Failure.Reason, Message: s.Failure.Message})
	} else {
		s.Conditions = conditions.Show(s.Conditions, "Synchronized", s.launcherProblem(now), at)
	}
	s.refreshLost(now)
	set("PodScheduled", s.podScheduledCondition())
	if s.Phase == PhaseRunning || s.Phase == PhaseScheduled {
		s.showMigratable(now)
	}
	set(conditionEviction, s.evictionCondition())
	set(conditionDataVolumes, s.dataVolumesCondition(s.awaitedVolumes()))
	s.Conditions = conditions.Show(s.Conditions, contract.ConditionMigrationProgress,
		s.progressCondition(&s.Launchers, s.HasChange(contract.ChangeAfterFirst)), at)
	s.Conditions = s.SetConditions(s.Conditions, at)
	if s.domainUnknown() {
		return
	}
	running := s.Phase == PhaseRunning
	agent := running && s.Domain != nil && s.Domain.AgentConnected
	if agent || !s.Arriving || !s.isAgentReturning(s.Written) {
		set("AgentConnected", conditionIf(agent, contract.Condition{}))
	}
	set("AgentVersionNotSupported", agentProblem(agent, s.Domain))
	s.showCredentials(now)
	set("Paused", pausedCondition(running && s.isGuestPaused(s.isMoving()), s.Domain))
}

// conditionIf returns the condition, which is true then, or nil.
func conditionIf(is bool, c contract.Condition) *contract.Condition {
	if !is {
		return nil
	}
	c.Status = "True"
	return &c
}

// podScheduledCondition returns the condition of a pod that has no node, or is not created because PVCs are missing;
// nil: there is no such pod.
func (s *State) podScheduledCondition() *contract.Condition {
	c := contract.Condition{Status: "False", Reason: "Unschedulable"}
	switch lacking := s.awaitedVolumes(); {
	case s.Phase == PhaseScheduling && s.Pod != nil && s.Pod.Unschedulable != nil:
		c.Message = s.Pod.Unschedulable.Message
	case lacking != nil && !lacking.Populating():
		c.Message = lacking.Message
	default:
		return nil
	}
	return &c
}

// agentProblem returns the condition of a connected guest agent that lacks something; nil: it lacks nothing.
func agentProblem(connected bool, d *contract.DomainObservation) *contract.Condition {
	if !connected || d.Guest == nil {
		return nil
	}
	return conditionIf(d.Guest.AgentProblem != "", contract.Condition{Reason: d.Guest.AgentProblem})
}

// showCredentials sets the condition for the VMI's access credentials. A target's launcher does not report them at
// first: until it does, the source's report stays.
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
		if old.Message != c.Message { // another failure
			s.Announced.Forget(contract.Event{Type: "Warning", Reason: reasonCredentialsFailed})
		}
	}
	s.Conditions = conditions.Show(s.Conditions, c.Type, &c, now.Truncate(time.Second))
	s.Announced.Forget(other)
}

// credentialsEvent returns KubeVirt's event for that condition.
func (s *State) credentialsEvent() (contract.Event, bool) {
	c, ok := conditions.Get(s.Conditions, conditionCredentials)
	if c.Status == "True" {
		return contract.Event{Type: "Normal", Reason: reasonCredentialsSet,
			Message: "Access credentials sync successful."}, ok
	}
	return contract.Event{Type: "Warning", Reason: reasonCredentialsFailed,
		Message: "Access credentials sync failed: " + c.Message}, ok
}

// showMigratable sets the conditions LiveMigratable and StorageLiveMigratable.
func (s *State) showMigratable(now time.Time) {
	m := s.Migratable
	if m == nil { // not known yet: the written conditions stay
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

// pausedCondition returns KubeVirt's condition Paused for libvirt's reason; nil: the guest is not paused.
func pausedCondition(paused bool, d *contract.DomainObservation) *contract.Condition {
	if !paused {
		return nil
	}
	c := contract.Condition{Status: "True", Reason: "PausedByUser", Message: "VMI was paused by user"}
	switch d.Reason {
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
	return &c
}

// domainUnknown reports whether the guest runs according to the written status while its node worker has not reported
// the domain yet.
func (s *State) domainUnknown() bool {
	return s.Phase == PhaseRunning && s.Domain == nil
}

// hasUrgentProblem reports whether there is a problem that is written even while the domain is unknown.
func (s *State) hasUrgentProblem() bool {
	_, lost := conditions.Get(s.Conditions, contract.ConditionNodeLost)
	return lost || s.hasUserVisibleFailure() || s.Refused != nil
}

// hasUserVisibleFailure reports whether a step failed that the status shows. A failed write of the status is not shown:
// it is over as soon as a write succeeds.
func (s *State) hasUserVisibleFailure() bool {
	return s.Failure != nil && s.Failure.Step != string(entity.ActWrite) &&
		s.Failure.Step != string(actRemoveFinalizers)
}

// readyCondition returns KubeVirt's condition Ready: False with a reason until the guest runs, then that of the pod.
func (s *State) readyCondition() contract.Condition {
	no := func(reason, message string) contract.Condition {
		return contract.Condition{Type: "Ready", Status: "False", Reason: reason, Message: message}
	}
	switch {
	case !s.hasPod():
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

// status returns the desired status.
func (s *State) status() contract.VMIStatus {
	st := contract.VMIStatus{
		Phase:      string(s.Phase),
		Reason:     s.Reason,
		Conditions: s.Conditions,
		PhaseTimes: s.PhaseTimes,
		Claims:     s.statusPVCs(),

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
		if s.Arriving && s.isAgentReturning(s.Written) {
			st.AgentConnected, st.Guest = true, s.Written.Guest
		}
	}
	return st
}

// vanishedPods returns the pods that the VMI's status lists and that no longer exist.
func (s *State) vanishedPods(st contract.VMIStatus) []string {
	var out []string
	for _, uid := range s.VMI.ActivePods {
		if _, there := st.ActivePods[uid]; !there {
			out = append(out, uid)
		}
	}
	return out
}

// needsWrite reports whether the status differs from the written one. While the instance boots, differences that only
// the pod's node assignment caused do not count.
func (s *State) needsWrite() bool {
	if s.OutcomeUnknown || s.hasUnwrittenStage() {
		return true
	}
	if s.Written == nil {
		// A VMI made by its VM is Pending from the start. One that is older than this workflow has the status that was
		// written then.
		return s.VMI.Phase != string(s.Phase) || s.Domain != nil || s.Phase.Final() || s.hasUserVisibleFailure() ||
			s.hasUrgentProblem() || s.awaitedVolumes() != nil
	}
	now := s.status()
	if s.Phase == PhaseScheduling && s.Written.Phase == string(PhaseScheduling) {
		now.ActivePods, now.QOSClass, now.LauncherImage = s.Written.ActivePods, s.Written.QOSClass,
			s.Written.LauncherImage
	}
	return !entity.Same(now, *s.Written)
}

// differsOnlyInPods reports whether migrations have added or removed pods, and the status otherwise is as written.
func (s *State) differsOnlyInPods() bool {
	if s.Migration == nil && s.MigrationState == nil || s.Written == nil || s.OutcomeUnknown || s.hasUnwrittenStage() {
		return false
	}
	now := s.status()
	if entity.Same(now.ActivePods, s.Written.ActivePods) {
		return false
	}
	now.ActivePods = s.Written.ActivePods
	return entity.Same(now, *s.Written)
}

// newEvents returns the events that the state calls for and that were not recorded yet.
func (s *State) newEvents() []contract.Event {
	return s.Announced.Missing(slices.Concat(s.phaseEvents(), s.problemEvents())...)
}

// phaseEvents returns the events of a guest's start and end.
func (s *State) phaseEvents() []contract.Event {
	_, ran := phaseSince(s.PhaseTimes, PhaseRunning)
	var events []contract.Event
	if s.Phase == PhaseRunning || s.Phase.Final() && ran {
		events = append(events, normalEvent("Created", "VirtualMachineInstance defined."),
			normalEvent("Started", "VirtualMachineInstance started."))
	}
	if !ran || !s.Phase.Final() {
		return events
	}
	stopped := normalEvent("Stopped", "The VirtualMachineInstance was shut down.")
	if s.Phase == PhaseFailed {
		stopped = warningEvent("Stopped", "The VirtualMachineInstance crashed.")
	}
	events = append(events, stopped)
	if !s.isDeleting() {
		return events
	}
	if s.termination().Reason == contract.ReasonDestroyed || s.Domain != nil &&
		s.Domain.Reason == contract.ReasonDestroyed {
		return append(events, normalEvent("Deleted", "VirtualMachineInstance stopping"))
	}
	return append(events, normalEvent("Deleted", "Signaled Deletion"))
}

// problemEvents returns the events of what prevents a guest from moving, running or being as its spec says.
func (s *State) problemEvents() []contract.Event {
	var events []contract.Event
	if m := s.Migratable; s.Phase == PhaseRunning && s.VMI.EvictionStrategy == "LiveMigrate" && m != nil &&
		m.Method != "" && m.Reason != "" {
		events = append(events, warningEvent("Migrated",
			"EvictionStrategy is set but vmi is not migratable; "+m.Message))
	}
	if s.NeverArrived {
		events = append(events, warningEvent("Migrated", messageNeverArrived))
	}
	if s.isGuestOff() {
		events = append(events, normalEvent(contract.ReasonNodeUnresponsive,
			s.Fenced.Why+": the VirtualMachineInstance has failed with its node"))
	}
	if c, ok := conditions.Get(s.Conditions, contract.ConditionNodeLost); ok {
		events = append(events, warningEvent(contract.ReasonNodeUnresponsive, c.Message))
	}
	if e, ok := s.credentialsEvent(); ok && s.Phase == PhaseRunning {
		events = append(events, e)
	}
	if s.Failure != nil && action(s.Failure.Step) == actStartDomain {
		events = append(events, warningEvent("SyncFailed", s.Failure.Message))
	}
	return events
}

func normalEvent(reason, message string) contract.Event {
	return contract.Event{Type: "Normal", Reason: reason, Message: message}
}

func warningEvent(reason, message string) contract.Event {
	return contract.Event{Type: "Warning", Reason: reason, Message: message}
}
