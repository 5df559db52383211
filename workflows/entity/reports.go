package entity

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
)

// OnReports folds in reports of who asked for what. A report about another object than that of the UID is dropped. A
// deletion's goes into Manual.Deleter, others go to other unless they are late. A report comes before the change that
// it is about, or after it. A deletion counts for the last who asked for it while the object was not being deleted.
func (l *Loop) OnReports(m *Manual, uid func() string, other func(contract.RequestReport)) {
	OnSignal(l, contract.SignalReportRequest, func(r contract.RequestReport) {
		if r.Actor = toOneLine(r.Actor, maxActor); r.Actor == "" || r.UID == "" || r.UID != uid() {
			return
		}
		now := workflow.Now(l.ctx)
		asked := now
		if !r.Asked.IsZero() && r.Asked.Before(now) {
			asked = r.Asked
		}
		if r.Operation != contract.OperationDelete {
			if now.Sub(asked) <= reportLate { // a late one may be about an older change
				other(r)
			}
			return
		}
		m.Deleter, m.DeletionAsked = r.Actor, asked
		// A repeated request is dated by the last one: the earlier ones had no effect.
		m.Records = slices.DeleteFunc(slices.Clone(m.Records), func(old contract.OperationRecord) bool {
			return old.Operation == contract.OperationDelete && old.Outcome == OutcomeAsked && old.Actor == r.Actor
		})
		m.Record(contract.OperationRecord{
			Operation: r.Operation, Why: "the API server was asked to", Actor: r.Actor, Since: asked, Until: asked,
			Outcome: OutcomeAsked,
		})
	})
}

// reportLate is the age from which a report is late: Temporal was unavailable meanwhile.
const reportLate = time.Minute

// deletionReported is how long a deletion's report counts for a deletion that comes after it. An earlier request was
// refused, and is not the one that happened. Clocks of the API server and of Temporal may differ by less.
const deletionReported = time.Minute

// RequestedBy returns who requested the object's desired state. For one that is being deleted (since then; nil: not
// known) that is who was reported to have deleted it, or last without a report: the API server reports no deleter who
// is also the last to have changed the object, and a report may have been dropped.
func (m *Manual) RequestedBy(deleting bool, since *time.Time, last string) string {
	if !deleting || m.Deleter == "" {
		return last
	}
	if since != nil && !m.DeletionAsked.IsZero() && since.Sub(m.DeletionAsked) > deletionReported {
		return last
	}
	return m.Deleter
}

// OutcomeAsked is the outcome of a request that another process carries out.
const OutcomeAsked = "asked for"
