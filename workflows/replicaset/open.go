package replicaset

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// open starts a transition.
func (e *set) open(ctx workflow.Context, d decision) error {
	s := &e.state
	t, in := s.transition(s.needs(), d.Why, workflow.Now(ctx))
	err := e.loop.OpenTransition(ctx, &t.Transition, entity.Opening{
		Object: s.Object, Entity: contract.ReplicaSetID(s.Object.Namespace, s.Object.Name), Count: &s.Count,
		Type: contract.WorkflowReplicate, Input: in,
	})
	if err != nil {
		return e.settle(ctx, replicate, t.reason(), err)
	}
	s.Open = &t
	s.Opened(&t.Transition)
	e.describe(ctx)
	return nil
}

// transition makes the record of a transition and its input.
func (s *State) transition(n needs, why string, now time.Time) (Transition, contract.ReplicateInput) {
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
	in.Remove, t.Remove = s.named(n.Remove)
	in.Finished, t.Finished = s.named(n.Finished)
	hopeless := false
	for _, r := range n.Finished {
		hopeless = hopeless || neverRan(r)
	}
	if hopeless {
		s.CrashLoop++
		s.CrashLoopUntil = now.Add(entity.Pause(s.CrashLoop))
	}
	return t, in
}

func (s *State) named(list []contract.ReplicaObservation) (objects []contract.Object, uids []string) {
	for _, r := range list {
		objects = append(objects, contract.Object{Namespace: s.Object.Namespace, Name: r.Name, UID: r.UID})
		uids = append(uids, r.UID)
	}
	return objects, uids
}

func (e *set) objects(list []contract.ReplicaObservation) []contract.Object {
	objects, _ := e.state.named(list)
	return objects
}

// closed notes how the open transition went.
func (e *set) closed(ctx workflow.Context, c contract.TransitionClosed, o entity.Outcome) {
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
	s.lookAgain()
	switch {
	case (t.Cancelled || c.Canceled) && c.Error != "":
		o.Error = t.Superseded()
	case c.Error != "":
		_ = e.settle(ctx, replicate, t.reason(), entity.ClosedError(c))
	default:
		_ = e.settle(ctx, replicate, "", nil)
		if r.Set != nil { // it was decided from what is true no longer
			s.correct(*r.Set)
		}
		if t.Reported.Note == "" && t.Make > 0 {
			s.CrashLoop, s.CrashLoopUntil = 0, time.Time{}
		}
	}
	s.Last = &o
	s.Closed(&t.Transition, c, o)
	e.describe(ctx)
}

// correct takes in what an activity read of the set when it kept replicas that it was to delete: that is true, whatever
// was remembered. What there is of them is looked for.
func (s *State) correct(now contract.ReplicaSetObservation) {
	if now.UID == s.Object.UID && !s.Set.Gone {
		s.believe(&now)
	}
	s.Known = false
}

// reason is that of the failure condition when a transition fails.
func (t Transition) reason() string {
	if t.Make > 0 {
		return contract.ReasonFailedCreate
	}
	return contract.ReasonFailedDelete
}

// signalProgress tells the open transition how far the replicas are.
func (e *set) signalProgress(ctx workflow.Context) error {
	t := e.state.Open
	t.Reported = e.state.latest()
	return e.loop.SignalOpen(ctx, &t.Transition, t.Reported)
}
