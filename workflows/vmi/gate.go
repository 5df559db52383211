package vmi

import (
	"time"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
	"github.com/virtflow/virtflow/workflows/waits"
)

// settleTime is how long after the pod's creation a status that is about to change again is not written. A boot passes
// Scheduling and Scheduled within a second or two, and is Running for a moment before the pod is Ready: that is one
// write instead of four. status.phaseTransitionTimestamps has each phase. A slow boot, and a failure, are written.
const settleTime = 5 * time.Second

// endSettle is the same for a deletion: one that takes no longer writes nothing but the guest's end and the patch that
// removes the finalizers.
const endSettle = 10 * time.Second

// StatusGate has until when the status is not written although it differs from the written one, because it is about to
// change again.
type StatusGate struct {
	// SettleBy is until when a status that is still changing by itself is not written.
	SettleBy time.Time `json:"settleBy,omitzero"`
	// PodsBy is until when a status is not written that differs only in its list of pods: the migration that adds or
	// removes a pod changes more of the status within a moment.
	PodsBy time.Time `json:"podsBy,omitzero"`
}

// gateScope has what the gate depends on besides its own times.
type gateScope struct {
	*Launchers
	*Migrations
	phase    Phase
	deleting bool
	// unshownEnd is set when the guest has ended while the VMI is being deleted, and the VMI does not show it yet.
	unshownEnd bool
	// failed is set after a step has failed, and urgent if there is a problem that users are to see at once.
	failed, urgent bool
	// arrivalBy is until when the guest may be arriving.
	arrivalBy time.Time
}

// settlePhase delays the status of a boot that has just begun, or of a guest that has just begun to run or has ended.
func (g *StatusGate) settlePhase(to Phase, deleting bool, now time.Time) {
	if g.SettleBy.IsZero() && (to == PhaseScheduling || to == PhaseRunning) || to.Final() && !deleting {
		g.SettleBy = now.Add(settleTime)
	}
}

// settlePods delays the status from when it first differs only in its list of pods.
func (g *StatusGate) settlePods(differs bool, now time.Time) {
	switch {
	case !differs:
		g.PodsBy = time.Time{}
	case g.PodsBy.IsZero():
		g.PodsBy = now.Add(settleTime)
	}
}

// gatedUntil returns until when the status is not written; zero: it may be written now. Of several causes the first
// counts: when its time has come, the next is looked at.
func (g *StatusGate) gatedUntil(in gateScope, now time.Time) time.Time {
	if in.isSettling() && now.Before(g.SettleBy) {
		return g.SettleBy
	}
	if by := in.movingBy(); now.Before(by) {
		return by
	}
	if now.Before(g.PodsBy) {
		return g.PodsBy
	}
	return time.Time{}
}

// isSettling reports whether the status is about to change again by itself.
func (in gateScope) isSettling() bool {
	if in.failed || in.hasUnwrittenStage() {
		return false
	}
	if in.deleting {
		// Its pods are about to be gone, and the write that removes the finalizers follows.
		return in.hasAnyPod() && !in.unshownEnd
	}
	switch in.phase {
	case PhaseScheduling:
		return in.Pod.Unschedulable == nil && in.Pod.WaitingReason == ""
	case PhaseScheduled:
		return true
	case PhaseRunning:
		return !in.isPodReady()
	default:
		return false
	}
}

// movingBy returns until when a migration is about to change the status again; zero: it is not.
func (in gateScope) movingBy() time.Time {
	switch r := in.Migration; {
	case in.urgent || in.deleting:
	case in.hasUnwrittenStage():
		if r.Stage == contract.StageCopying && r.Written == contract.StageHandOff {
			return r.CopyingBy
		}
	case in.Arriving:
		return in.arrivalBy
	}
	return time.Time{}
}

// An operation on the guest changes the status before its answer is sent, and the workflow task that sends the answer
// would do the writes first. So writes are delayed by writeDelay from an operation's begin, and again when it ends
// later than that. Where operations follow each other the delay lasts for maxWriteDelay at most, and the next begins
// after writeDelayGap.
const (
	writeDelay    = 200 * time.Millisecond
	maxWriteDelay = time.Second
	writeDelayGap = 200 * time.Millisecond
)

// WriteDelay delays status writes, so that the answer to an operation is sent first.
type WriteDelay struct {
	WritesDelayedFrom  time.Time `json:"holdOffFrom,omitzero"`
	WritesDelayedUntil time.Time `json:"holdOffUntil,omitzero"`
}

// delayWrites begins or prolongs the delay.
func (w *WriteDelay) delayWrites(now time.Time) {
	if now.Sub(w.WritesDelayedUntil) >= writeDelayGap {
		w.WritesDelayedFrom = now
	}
	w.WritesDelayedUntil = entity.Sooner(now.Add(writeDelay), w.WritesDelayedFrom.Add(maxWriteDelay))
}

// postpone replaces a write by a wait until the delay has passed.
func (w *WriteDelay) postpone(d decision, now time.Time) decision {
	if (d.Action == entity.ActWrite || d.Action == actMarkPod) && now.Before(w.WritesDelayedUntil) {
		return decision{WakeAt: w.WritesDelayedUntil, Waiting: waits.For(waits.OperationAnswer)}
	}
	return d
}
