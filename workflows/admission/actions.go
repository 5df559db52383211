package admission

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

func (q *queue) act(ctx workflow.Context, d entity.Decision) error {
	do := q.tell
	if d.Action == actLimits {
		do = q.readLimits
	}
	return entity.Settle(ctx, &q.state.Failure, string(d.Action), "", do(ctx))
}

func (q *queue) readLimits(ctx workflow.Context) error {
	r, err := entity.Call[contract.ReadLimitsResult](ctx, contract.ActivityReadLimits, string(actLimits), nil)
	if err != nil {
		return err
	}
	q.state.Limits, q.state.LimitsAt = &r, workflow.Now(ctx)
	return nil
}

// tell admits who may begin, and tells who is to be told. What is sent is remembered before it is: an answer that comes
// meanwhile is to what was sent.
func (q *queue) tell(ctx workflow.Context) error {
	s, now := &q.state, workflow.Now(ctx)
	type sending struct {
		message
		future workflow.Future
	}
	var sent []sending
	for _, m := range s.messages(now) {
		if now.Before(m.at) || len(sent) == tellsTogether {
			continue
		}
		e := s.find(m.uid)
		if m.admit {
			s.admit(e, now, fmt.Sprintf("%s after it was made", now.Sub(e.Since).Round(time.Second)))
		}
		m.o.Sequence = max(e.Told.Sequence+1, now.UnixMilli()) // it grows, also when the queue was lost
		e.Answer, e.Told, e.ToldAt = false, m.o, now
		sent = append(sent, sending{message: m,
			future: workflow.SignalExternalWorkflow(ctx, e.workflow(), "", contract.SignalObserveAdmission, m.o)})
	}
	var failed error
	for _, x := range sent {
		there, err := entity.Reached(x.future.Get(ctx, nil))
		switch {
		case err != nil:
			failed = err
			s.untold(x.uid)
		case there:
			s.reached(x.uid, workflow.Now(ctx))
		default:
			s.unreached(x.uid, workflow.Now(ctx))
		}
	}
	return failed
}

// untold notes that it is not known whether a migration has been told.
func (s *State) untold(uid string) {
	if e := s.find(uid); e != nil {
		e.Answer = true
	}
}

// reached notes that a migration has a workflow, which has been told.
func (s *State) reached(uid string, now time.Time) {
	if e := s.find(uid); e != nil {
		e.Heard, e.Lost = now, time.Time{}
	}
}

// unreached notes that a migration has no workflow. It may be started again: it keeps its place for a while, if it has
// begun.
func (s *State) unreached(uid string, now time.Time) {
	e := s.find(uid)
	switch {
	case e == nil:
	case !e.Lost.IsZero():
		s.drop(uid, now, "it has had no workflow for long")
	default:
		e.Lost = now
		if !e.Begun && !e.Started && !e.Admitted.IsZero() {
			s.recorded(e, now, "it has no workflow that could begin")
			e.Admitted = time.Time{}
		}
	}
}
