package migration

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/virtflow/virtflow/workflows/conditions"
	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// refresh brings what is derived up to what is known. It runs before each decision and is as deterministic as one.
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
	}
	s.refreshConditions(now)
	s.track(now)
	switch {
	case !s.differs():
		s.SettleBy = time.Time{}
	case s.SettleBy.IsZero():
		s.SettleBy = now.Add(settleTime)
	}
}

// refreshResult finds out what has ended it.
func (s *State) refreshResult(now time.Time) {
	if s.Result == ResultNone && s.Cause == "" {
		s.Cause = s.cause(now)
	}
	if s.Result == ResultNone && s.sourceLeft() {
		s.refreshLeft(now)
	}
	switch {
	case s.Result != ResultNone:
	case s.MoveUnknown != "" && (s.VMIGone || contract.VMIObservation{Phase: s.Claim.Phase}.Ended()):
		s.fails(wordVMIEnded) // its own entity has found out how the guest ended
	case s.Proof != nil && s.Target.ended() && !s.open(actFinish):
		s.unknown(now, "the target ended before the guest went on there") // nobody there could answer
	case s.Cause != "" && !s.Begun && s.MoveUnknown == "" && s.Proof == nil:
		s.stays("")
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
	show(ConditionQueued, open && s.given() && !p.Admitted && p.Position > 0 && s.Quota == "", "True", "Limits",
		p.Why+"; "+ahead(p.Position))
	if s.Settings != nil && s.Settings.Configuration.PostCopy {
		show(ConditionPostCopy, true, "False", "Unsupported", postCopyUnsupported(s.Settings.Configuration))
	}
	waits := open && s.MoveUnknown != "" && s.Look.Verdict == VerdictWait
	show(contract.ConditionNodeLost, waits, "True", contract.ReasonNodeUnresponsive, fmt.Sprintf(
		"node %s does not answer, and nothing proves where the guest is: nothing is done until it does, or its pod has "+
			"ended", s.silentNode()))
	twice := open && s.MoveUnknown != "" && s.Look.Verdict == VerdictRunsTwice
	show(ConditionOutcomeUnknown, twice, "True", "RunsTwice",
		fmt.Sprintf("the guest seems to run in pod %s and in pod %s: nothing is touched until a person has ended one",
			s.Source.name(), s.Target.name()))
	f := s.Failure
	trouble := f != nil && f.Step != string(entity.ActWrite) && f.Step != string(actRemoveFinalizer)
	if trouble {
		show(ConditionSynchronized, true, "False", "FailedStep", f.Step+": "+f.Message)
	} else {
		show(ConditionSynchronized, false, "", "", "")
	}
	s.Conditions = s.Show(s.Conditions, now)
}

// status is what users are to see.
func (s *State) status() contract.MigrationStatus {
	st := contract.MigrationStatus{Phase: string(s.Phase), PhaseTimes: s.PhaseTimes, Conditions: s.Conditions}
	switch {
	case s.Phase.Final():
		st.State = s.migrationState()
	case s.Source.Pod != nil:
		st.State = &contract.MigrationState{SourcePod: s.Source.name()}
	}
	return st
}

// migrationState is what the instance's status says of it.
func (s *State) migrationState() *contract.MigrationState {
	m := &contract.MigrationState{
		MigrationUID: s.Object.UID,
		SourceNode:   s.Source.node(), SourcePod: s.Source.name(),
		TargetNode: s.Target.node(), TargetPod: s.Target.name(),
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

// address is where the target waits for the guest.
func (s *State) address() (host string, port int) {
	whole := s.Prepared.Address
	i := strings.LastIndex(whole, ":")
	if i < 0 {
		return whole, 0
	}
	port, _ = strconv.Atoi(whole[i+1:])
	return strings.Trim(whole[:i], "[]"), port
}

// differs says whether the status is worth a write.
func (s *State) differs() bool {
	if s.Phase.Final() && s.Written == nil && s.VMIM.Phase == string(s.Phase) && !s.OutcomeUnknown {
		return false // written by an earlier run, which knew more
	}
	if s.OutcomeUnknown {
		return true
	}
	if s.Written == nil {
		return s.VMIM.Phase != string(s.Phase) || !entity.Same(s.Conditions, s.VMIM.Conditions)
	}
	return !entity.Same(s.status(), *s.Written)
}

// stats are the copy's measures, when they are to be kept.
func (s *State) stats() *contract.MigrationStats {
	var none contract.MigrationStats
	if s.Phase != PhaseSucceeded || s.StatsWritten || s.Outcome == nil || s.Outcome.Stats == none {
		return nil
	}
	return &s.Outcome.Stats
}

// summary is the workflow's result.
func (s *State) summary() contract.MigrationSummary {
	out := contract.MigrationSummary{Phase: string(s.Phase), SourceNode: s.Source.node(), TargetNode: s.Target.node()}
	if s.Phase == PhaseFailed {
		out.Reason = s.reason()
	}
	if o := s.Outcome; o != nil {
		out.Mode, out.Stats = o.Mode, o.Stats
	}
	return out
}

// track notes what the entity is about.
func (s *State) track(now time.Time) {
	going := s.Going()
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
