package migrationqueue

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

func (q *queue) act(ctx workflow.Context, d entity.Decision) error {
	do := q.sendMessages
	if d.Action == actLimits {
		do = q.readLimits
	}
	return entity.RecordResult(ctx, &q.state.Failure, string(d.Action), "", do(ctx))
}

func (q *queue) readLimits(ctx workflow.Context) error {
	r, err := entity.Call[contract.ReadLimitsResult](ctx, contract.ActivityReadLimits, string(actLimits), nil)
	if err != nil {
		return err
	}
	q.state.Limits, q.state.LimitsAt = &r, workflow.Now(ctx)
	return nil
}

// sendMessages sends the observations that are due, which also admits migrations. The state is changed before a signal
// is sent, since a migration's answer may arrive meanwhile.
func (q *queue) sendMessages(ctx workflow.Context) error {
	s, now := &q.state, workflow.Now(ctx)
	type sending struct {
		message
		future workflow.Future
	}
	var sent []sending
	for _, m := range s.messages(now) {
		if now.Before(m.at) || len(sent) == maxSignalsPerStep {
			continue
		}
		e := s.find(m.uid)
		if m.admit {
			s.admit(e, now, fmt.Sprintf("admitted after waiting %s", now.Sub(e.Since).Round(time.Second)))
		}
		m.o.Sequence = max(e.Sent.Sequence+1, now.UnixMilli()) // it grows, also when the queue was lost
		e.AnswerDue, e.Sent, e.SentAt = false, m.o, now
		sent = append(sent, sending{message: m,
			future: workflow.SignalExternalWorkflow(ctx, e.workflow(), "", contract.SignalObserveAdmission, m.o)})
	}
	var failed error
	for _, x := range sent {
		there, err := entity.WasReceived(x.future.Get(ctx, nil))
		switch {
		case err != nil:
			failed = err
			s.markUnsent(x.uid)
		case there:
			s.recordDelivered(x.uid, workflow.Now(ctx))
		default:
			s.recordMissing(x.uid, workflow.Now(ctx))
		}
	}
	return failed
}

// markUnsent notes that it is unknown whether a migration has received its observation: it is sent again.
func (s *State) markUnsent(uid string) {
	if e := s.find(uid); e != nil {
		e.AnswerDue = true
	}
}

// recordDelivered notes that a migration has a workflow, which has received the observation.
func (s *State) recordDelivered(uid string, now time.Time) {
	if e := s.find(uid); e != nil {
		e.LastContact, e.MissingSince = now, time.Time{}
	}
}

// recordMissing notes that a migration has no workflow. It may be started again, so one that has begun keeps its
// admission for a while.
func (s *State) recordMissing(uid string, now time.Time) {
	e := s.find(uid)
	switch {
	case e == nil:
	case !e.MissingSince.IsZero():
		s.drop(uid, now, "it has had no workflow for long")
	default:
		e.MissingSince = now
		if !e.Begun && !e.Started && !e.Admitted.IsZero() {
			s.closeRecord(e, now, "it has no workflow that could begin")
			e.Admitted = time.Time{}
		}
	}
}
