package entity

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
)

// OnReports folds reports of who asked for what. One about another object than that of the UID says nothing. Reports of
// deletions are remembered as Manual.Deleter, others are handed on, unless they are late. They come before the change
// that they are about, or after it. The deletion is the doing of the last who asked for it while the object was not
// being deleted.
func (l *Loop) OnReports(m *Manual, uid func() string, other func(contract.RequestReport)) {
	OnSignal(l, contract.SignalReportRequest, func(r contract.RequestReport) {
		if r.Actor = plain(r.Actor, maxActor); r.Actor == "" || r.UID == "" || r.UID != uid() {
			return
		}
		now := workflow.Now(l.ctx)
		asked := now
		if !r.Asked.IsZero() && r.Asked.Before(now) {
			asked = r.Asked
		}
		if r.Operation != contract.OperationDelete {
			if now.Sub(asked) <= reportLate { // else it may be about what was changed since
				other(r)
			}
			return
		}
		m.Deleter, m.DeletionAsked = r.Actor, asked
		// Asking again says when it was asked for last: what was asked before came to nothing.
		m.Records = slices.DeleteFunc(slices.Clone(m.Records), func(old contract.OperationRecord) bool {
			return old.Operation == contract.OperationDelete && old.Outcome == OutcomeAsked && old.Actor == r.Actor
		})
		m.Record(contract.OperationRecord{
			Operation: r.Operation, Why: "the API server was asked to", Actor: r.Actor, Since: asked, Until: asked,
			Outcome: OutcomeAsked,
		})
	})
}

// reportLate is from when on a report is late: Temporal was away meanwhile.
const reportLate = time.Minute

// deletionReported is for how long the report of a deletion is about one that comes after it. What was asked for before
// that was refused, and is not what happened. Clocks of the API server and of Temporal may differ by less.
const deletionReported = time.Minute

// Behind is who is behind what an object is to be. Of one that is being deleted (since then; nil: not known) that is
// whoever was reported to have asked for it. Nobody is reported where it is the same who asked for the object last; a
// report that was dropped looks the same.
func (m *Manual) Behind(deleting bool, since *time.Time, last string) string {
	if !deleting || m.Deleter == "" {
		return last
	}
	if since != nil && !m.DeletionAsked.IsZero() && since.Sub(m.DeletionAsked) > deletionReported {
		return last
	}
	return m.Deleter
}

// OutcomeAsked is the outcome of what was asked for, and is done by others.
const OutcomeAsked = "asked for"
