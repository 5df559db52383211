package migration

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/entity"
)

// refresh derives what follows from the observations. It runs before each decision and is as deterministic.
func (s *State) refresh(now time.Time) {
	if s.VMIM == nil {
		if s.Target.Pod != nil && s.LookAt.IsZero() {
			s.LookAt = now.Add(orphanTime)
		}
		return
	}
	if s.Over {
		return
	}
	if s.Admission.Admitted && s.Admission.At.IsZero() {
		s.Admission.At = now
	}
	if !s.Stale {
		s.refreshResult(now)
		s.advance(now)
		if s.Result == ResultNone {
			s.refreshAdmission(now)
		}
	}
	s.refreshConditions(now)
	s.recordOperation(now)
	switch {
	case !s.differs():
		s.SettleBy = time.Time{}
	case s.SettleBy.IsZero():
		s.SettleBy = now.Add(settleTime)
	}
}

// refreshResult derives the cause and the result.
func (s *State) refreshResult(now time.Time) {
	if s.Result == ResultNone && s.Cause == "" {
		s.Cause = s.causeToStop(now)
	}
	if s.Result == ResultNone && s.hasSourceLeft() {
		s.refreshLeft(now)
	}
	switch {
	case s.Result != ResultNone:
	case s.MoveUnknown != "" && (s.VMIGone || contract.VMIObservation{Phase: s.Claim.Phase}.Ended()):
		s.failWith(wordVMIEnded) // the instance's own entity knows how the guest ended
	case s.Proof != nil && s.Target.hasEnded() && !s.isOpen(actFinish):
		s.markMoveUnknown(now, "the target ended before the guest resumed there") // no launcher there could answer
	case s.Cause != "" && !s.Begun && s.MoveUnknown == "" && s.Proof == nil:
		s.recordStayed("")
	}
	if s.Result == ResultNone {
		return
	}
	if s.End.IsZero() {
		s.End = now
	}
	s.refreshEnd(now)
}

func (s *State) refreshConditions(now time.Time) {
	now = now.Truncate(time.Second)
	show := func(kind string, when bool, status, reason, message string) {
		var c *contract.Condition
		if when {
			c = &contract.Condition{Type: kind, Status: status, Reason: reason, Message: message}
		}
		s.Conditions = conditions.Show(s.Conditions, kind, c, now)
	}
	open := s.Result == ResultNone
	if strings.HasPrefix(s.Cause, wordCanceled) {
		show(ConditionAbortRequested, true, "True", "", "")
	}
	show(ConditionQuota, s.Quota != "" && open, "True", "", s.Quota)
	p := s.Admission
	show(ConditionQueued, open && s.isGranted() && !p.Admitted && p.Position > 0 && s.Quota == "", "True", "Limits",
		p.Why+"; "+ahead(p.Position))
	if waits := open && s.isUnscheduled() && s.HasChange(contract.ChangeAfterFirst); waits {
		c := s.Target.Pod.Unschedulable
		show(ConditionPodScheduled, waits, "False", cmp.Or(c.Reason, "Unschedulable"),
			"pod "+s.Target.podName()+" has no node: "+c.Message)
	} else {
		show(ConditionPodScheduled, waits, "", "", "")
	}
	if s.Settings != nil && s.Settings.Configuration.PostCopy {
		show(ConditionPostCopy, true, "False", "Unsupported", postCopyUnsupported(s.Settings.Configuration))
	}
	waits := open && s.MoveUnknown != "" && s.Inspection.Verdict == VerdictWait
	show(contract.ConditionNodeLost, waits, "True", contract.ReasonNodeUnresponsive, fmt.Sprintf(
		"node %s does not answer, and nothing proves where the guest is: nothing is done until it does, or its pod has "+
			"ended", s.silentNode()))
	twice := open && s.MoveUnknown != "" && s.Inspection.Verdict == VerdictRunsTwice
	show(ConditionOutcomeUnknown, twice, "True", "RunsTwice",
		fmt.Sprintf("the guest seems to run in pod %s and in pod %s: nothing is touched until a person has ended one",
			s.Source.podName(), s.Target.podName()))
	f := s.Failure
	trouble := f != nil && f.Step != string(entity.ActWrite) && f.Step != string(actRemoveFinalizer)
	if trouble {
		show(ConditionSynchronized, true, "False", "FailedStep", f.Step+": "+f.Message)
	} else {
		show(ConditionSynchronized, false, "", "", "")
	}
	s.Conditions = s.SetConditions(s.Conditions, now)
}

// status returns the status that users are to see.
func (s *State) status() contract.MigrationStatus {
	st := contract.MigrationStatus{Phase: string(s.Phase), PhaseTimes: s.PhaseTimes, Conditions: s.Conditions}
	switch {
	case s.Phase.Final():
		st.State = s.migrationState()
	case s.Source.Pod != nil:
		st.State = &contract.MigrationState{SourcePod: s.Source.podName()}
	}
	return st
}

// migrationState returns the instance's status.migrationState for this migration.
func (s *State) migrationState() *contract.MigrationState {
	m := &contract.MigrationState{
		MigrationUID: s.Object.UID,
		SourceNode:   s.Source.nodeName(), SourcePod: s.Source.podName(),
		TargetNode: s.Target.nodeName(), TargetPod: s.Target.podName(),
		Start: s.Start.Truncate(time.Second),
	}
	if s.Settings != nil {
		m.PolicyName, m.Configuration = s.Settings.Policy, &s.Settings.Configuration
	}
	if s.Prepared != nil {
		m.TargetAddress, m.TargetPort = s.address()
		m.Network = s.Prepared.Network
	}
	if s.Begun {
		m.Mode = "PreCopy"
	}
	if s.Outcome != nil && s.Outcome.Mode != "" {
		m.Mode = s.Outcome.Mode
	}
	m.AbortRequested = s.AbortSent
	if s.Result == ResultNone {
		return m
	}
	m.End, m.Completed = s.End.Truncate(time.Second), true
	if m.Start.IsZero() {
		m.Start = m.End
	}
	if s.Result == ResultMoved {
		m.TargetDetected, m.TargetReady = true, m.End
	} else {
		m.Failed, m.FailureReason = true, s.reason()
	}
	switch {
	case !s.AbortSent:
	case s.Result == ResultStayed:
		m.AbortStatus = "Succeeded"
	default:
		m.AbortStatus = "Failed"
	}
	return m
}

// address returns where the target listens for the guest.
func (s *State) address() (host string, port int) {
	whole := s.Prepared.Address
	i := strings.LastIndex(whole, ":")
	if i < 0 {
		return whole, 0
	}
	port, _ = strconv.Atoi(whole[i+1:])
	return strings.Trim(whole[:i], "[]"), port
}

// differs reports whether the status has to be written.
func (s *State) differs() bool {
	if s.Phase.Final() && s.Written == nil && s.VMIM.Phase == string(s.Phase) && !s.OutcomeUnknown {
		return false // an earlier run, which knew more, has written it
	}
	if s.OutcomeUnknown {
		return true
	}
	if s.Written == nil {
		return s.VMIM.Phase != string(s.Phase) || !entity.Same(s.Conditions, s.VMIM.Conditions)
	}
	return !entity.Same(s.status(), *s.Written)
}

// stats returns the copy's measures that are still to be written; nil: none.
func (s *State) stats() *contract.MigrationStats {
	var none contract.MigrationStats
	if s.Phase != PhaseSucceeded || s.StatsWritten || s.Outcome == nil || s.Outcome.Stats == none {
		return nil
	}
	return &s.Outcome.Stats
}

// summary returns the workflow's result.
func (s *State) summary() contract.MigrationSummary {
	out := contract.MigrationSummary{Phase: string(s.Phase), SourceNode: s.Source.nodeName(),
		TargetNode: s.Target.nodeName()}
	if s.Phase == PhaseFailed {
		out.Reason = s.reason()
	}
	if o := s.Outcome; o != nil {
		out.Mode, out.Stats = o.Mode, o.Stats
	}
	return out
}

// recordOperation keeps the operation's record.
func (s *State) recordOperation(now time.Time) {
	going := s.OpenRecord()
	switch {
	case going == nil && !s.Phase.Final():
		s.Record(contract.OperationRecord{Operation: contract.OperationMigrate, Actor: s.VMIM.Actor, Since: now,
			Attempts: 1})
	case going != nil && s.Phase.Final():
		r := *going
		r.Until, r.Outcome = now, entity.OutcomeDone
		if s.Phase == PhaseFailed {
			r.Outcome = s.reason()
		}
		s.Record(r)
	}
}
