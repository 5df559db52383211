package replicaset

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// openTransition opens a transition.
func (e *set) openTransition(ctx workflow.Context, d decision) error {
	s := &e.state
	t, in := s.newTransition(s.needs(), d.Why, workflow.Now(ctx))
	err := e.loop.OpenTransition(ctx, &t.Transition, entity.Opening{
		Object: s.Object, Entity: contract.ReplicaSetID(s.Object.Namespace, s.Object.Name), Count: &s.Count,
		Type: contract.WorkflowReplicate, Input: in,
	})
	if err != nil {
		return e.recordResult(ctx, replicate, t.failureReason(), err)
	}
	s.Open = &t
	s.RecordOpened(&t.Transition)
	e.setSearchAttributes(ctx)
	return nil
}

// newTransition returns the record of a transition and its input.
func (s *State) newTransition(n needs, why string, now time.Time) (Transition, contract.ReplicateInput) {
	t := Transition{Generation: s.Set.Generation, Replicas: s.Set.Replicas, Make: n.Make}
	t.Operation, t.Why, t.Actor, t.Since, t.Deadline = contract.OperationReplicate, why, s.actor(), now,
		now.Add(deadline(n, s.grace()))
	if n.Make > 0 {
		t.From = s.Ordinal + 1
		for i := range n.Make {
			t.Unseen = append(t.Unseen, t.From+i)
		}
	}
	in := contract.ReplicateInput{
		Set: s.Object, Generation: s.Set.Generation, Replicas: t.Replicas, From: t.From, Make: t.Make, Why: t.Why,
		Actor:    t.Actor,
		Deadline: t.Deadline,
	}
	in.Remove, t.Remove = s.objectsOf(n.Remove)
	in.Finished, t.Finished = s.objectsOf(n.Finished)
	hopeless := false
	for _, r := range n.Finished {
		hopeless = hopeless || hasNeverRun(r)
	}
	if hopeless {
		s.CrashLoop++
		s.CrashLoopUntil = now.Add(entity.StepBackoff(s.CrashLoop))
	}
	return t, in
}

func (s *State) objectsOf(list []contract.ReplicaObservation) (objects []contract.Object, uids []string) {
	for _, r := range list {
		objects = append(objects, contract.Object{Namespace: s.Object.Namespace, Name: r.Name, UID: r.UID})
		uids = append(uids, r.UID)
	}
	return objects, uids
}

func (e *set) objects(list []contract.ReplicaObservation) []contract.Object {
	objects, _ := e.state.objectsOf(list)
	return objects
}

// transitionClosed records the outcome of the open transition.
func (e *set) transitionClosed(ctx workflow.Context, c contract.TransitionClosed, o entity.Outcome) {
	s := &e.state
	t := *s.Open
	s.Open = nil
	var r contract.ReplicateResult
	if err := entity.Unmarshal(c.Result, &r); err != nil {
		r = contract.ReplicateResult{}
	}
	o.Summary = r.Summary
	s.Ordinal = max(s.Ordinal, r.Taken)
	if c.Error != "" || len(t.Unseen) > 0 {
		s.Known = false // it may have done more than was observed
	}
	s.findMore()
	switch {
	case (t.Cancelled || c.Canceled) && c.Error != "":
		o.Error = t.SupersededText()
	case c.Error != "":
		_ = e.recordResult(ctx, replicate, t.failureReason(), entity.ClosedError(c))
	default:
		_ = e.recordResult(ctx, replicate, "", nil)
		if r.Set != nil { // it was decided from an outdated state
			s.adoptRead(*r.Set)
		}
		if t.Reported.Note == "" && t.Make > 0 {
			s.CrashLoop, s.CrashLoopUntil = 0, time.Time{}
		}
	}
	s.Last = &o
	s.RecordClosed(&t.Transition, c, o)
	e.setSearchAttributes(ctx)
}

// adoptRead records the ReplicaSet that an activity read when it declined to delete replicas. The replicas are read
// again.
func (s *State) adoptRead(now contract.ReplicaSetObservation) {
	if now.UID == s.Object.UID && !s.Set.Gone {
		s.setSet(&now)
	}
	s.Known = false
}

// failureReason returns the reason of the failure condition after a failed transition.
func (t Transition) failureReason() string {
	if t.Make > 0 {
		return contract.ReasonFailedCreate
	}
	return contract.ReasonFailedDelete
}

// signalProgress signals the replicas' progress to the open transition.
func (e *set) signalProgress(ctx workflow.Context) error {
	t := e.state.Open
	t.Reported = e.state.reportedProgress()
	return e.loop.SignalOpen(ctx, &t.Transition, t.Reported)
}
