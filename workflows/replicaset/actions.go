package replicaset

import (
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// act does one step.
func (e *set) act(ctx workflow.Context, d decision) error {
	switch d.Action {
	case actNext:
		e.state = e.state.next()
		e.describe(ctx)
		return nil
	case actFind:
		return e.find(ctx)
	case actClaim:
		return e.claim(ctx)
	case actWrite:
		return e.write(ctx)
	case actReplicate:
		return e.open(ctx, d)
	case actCancel:
		e.state.Open.Cancelled = true
		e.cancelOpen()
		return nil
	case actSignal:
		return e.signalProgress(ctx, d.Progress)
	case actNone, actFinish:
	}
	return nil
}

// find asks the API server for every replica.
func (e *set) find(ctx workflow.Context) error {
	s := &e.state
	in := contract.FindReplicasInput{Set: s.Object, Selector: s.Set.Selector}
	r, err := entity.Call[contract.FindReplicasResult](ctx, contract.ActivityFindReplicas, string(actFind), in)
	if err != nil {
		return e.failed(ctx, string(actFind), reasonFailedCreate, err)
	}
	s.found(r)
	e.succeeded(string(actFind))
	return nil
}

// claim adopts and releases instances.
func (e *set) claim(ctx workflow.Context) error {
	s := &e.state
	adopt, release := s.claims()
	in := contract.ClaimReplicasInput{Set: s.Object, Adopt: e.objects(adopt), Release: e.objects(release)}
	r, err := entity.Call[contract.ClaimReplicasResult](ctx, contract.ActivityClaimReplicas, string(actClaim), in)
	if err != nil {
		return e.failed(ctx, string(actClaim), reasonFailedCreate, err)
	}
	for _, o := range r.Replicas {
		s.observeReplica(o)
	}
	s.lookAgain()
	e.succeeded(string(actClaim))
	return nil
}

// write writes the status, locked by what was seen last.
func (e *set) write(ctx workflow.Context) error {
	s := &e.state
	st := s.status()
	in := contract.PatchReplicaSetInput{Set: s.Object, ResourceVersion: s.Set.ResourceVersion, Status: st, Events: s.events(st)}
	r, err := entity.Call[contract.PatchReplicaSetResult](ctx, contract.ActivityPatchReplicaSet, string(actWrite), in)
	if err != nil {
		s.OutcomeUnknown = true
		return e.failed(ctx, string(actWrite), "FailedUpdateError", err)
	}
	if r.Gone {
		s.Set = entity.Gone(s.Set)
	}
	if r.Written {
		s.Written, s.OutcomeUnknown = &st, false
		s.WrittenAt = workflow.Now(ctx)
	}
	if r.Conflict {
		s.OutcomeUnknown = true // what it met may be its own first attempt, whose answer was lost
	}
	if r.Conflict {
		if err := s.met(r.Current); err != nil {
			return e.failed(ctx, string(actWrite), "FailedUpdateError", err)
		}
	} else if r.Current != nil {
		s.observeSet(*r.Current)
	}
	if r.Written {
		s.Conflicts = 0
	}
	e.succeeded(string(actWrite))
	e.describe(ctx)
	return nil
}

// met takes in what a write met instead of the version that it was made for: the set as it is now, whatever its version. An error says
// that there was nothing new in it once more: the same write would meet the same.
func (s *State) met(now *contract.ReplicaSetObservation) error {
	was := s.Set.ResourceVersion
	if now != nil && now.UID == s.Object.UID && !s.Set.Gone {
		s.believe(now)
	} else if now != nil {
		s.observeSet(*now)
	}
	return s.Conflicts.Met(s.Set.Gone || s.Set.ResourceVersion != was, "VirtualMachineInstanceReplicaSet", was)
}

// open starts a transition as a child workflow and follows it from a coroutine of its own.
func (e *set) open(ctx workflow.Context, d decision) error {
	s := &e.state
	s.Count++
	now := workflow.Now(ctx)
	t, in := s.transition(d, now)
	cctx, cancel := workflow.WithCancel(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:               t.ID,
		TaskQueue:                contract.ControlTaskQueue,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		ParentClosePolicy:        enums.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		WaitForCancellation:      true,
		StaticSummary:            entity.Summary("replicate " + s.Object.Namespace + "/" + s.Object.Name + ": " + d.Why),
		TypedSearchAttributes:    e.transitionAttributes(t),
		WorkflowExecutionTimeout: in.Deadline.Sub(now) + 10*time.Minute,
	}))
	child := workflow.ExecuteChildWorkflow(cctx, contract.WorkflowReplicate, in)
	if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
		cancel()
		return e.failed(ctx, string(actReplicate), reason(in), err)
	}
	s.Open = &t
	s.Record(t.record(s.Attempts(contract.OperationReplicate)))
	e.cancelOpen = cancel
	e.child = child
	e.describe(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		var r contract.ReplicateResult
		err := child.Get(ctx, &r)
		e.closed(ctx, in, r, err)
	})
	return nil
}

// transition makes the record of a transition and its input.
func (s *State) transition(d decision, now time.Time) (Transition, contract.ReplicateInput) {
	n := d.Needs
	t := Transition{
		ID:  contract.TransitionID(contract.ReplicaSetID(s.Object.Namespace, s.Object.Name), s.Object.UID, contract.OperationReplicate, s.Count),
		Why: d.Why, Actor: s.actor(), Since: now, Replicas: s.Set.Replicas, Make: n.Make,
	}
	if n.Make > 0 {
		t.From = s.Ordinal + 1
		for i := range n.Make {
			t.Unseen = append(t.Unseen, t.From+i)
		}
	}
	in := contract.ReplicateInput{
		Set: s.Object, Generation: s.Set.Generation, Replicas: t.Replicas, From: t.From, Make: t.Make, Why: t.Why, Actor: t.Actor,
		Deadline: now.Add(deadline(n, s.grace())),
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
func (e *set) closed(ctx workflow.Context, in contract.ReplicateInput, r contract.ReplicateResult, err error) {
	s := &e.state
	t := *s.Open
	o := Outcome{ID: t.ID, Summary: r.Summary, At: workflow.Now(ctx)}
	s.Open, e.child, e.cancelOpen = nil, nil, nil
	s.Ordinal = max(s.Ordinal, r.Taken)
	if err != nil || len(t.Unseen) > 0 {
		s.Known = false // it may have done more than was observed
	}
	s.lookAgain()
	switch {
	case err == nil:
		e.succeeded(string(actReplicate))
		if r.Set != nil { // it was decided from what is true no longer
			s.correct(*r.Set)
		}
		if t.Reported.Note == "" && t.Make > 0 {
			s.CrashLoop, s.CrashLoopUntil = 0, time.Time{}
		}
	case t.Cancelled || temporal.IsCanceledError(err):
		o.Error = "superseded by a newer desired state"
		if t.CancelReason != "" {
			o.Error = t.CancelReason
		}
	default:
		o.Error = entity.Message(err)
		_ = e.failed(ctx, string(actReplicate), reason(in), err)
	}
	s.Last = &o
	record := t.record(s.Attempts(contract.OperationReplicate))
	record.Until, record.Outcome = o.At, entity.OutcomeDone
	if o.Error != "" {
		record.Outcome = o.Error
	}
	s.Record(record)
	e.describe(ctx)
	e.loop.Wake()
}

// correct takes in what an activity read of the set when it kept replicas that it was to delete: that is true, whatever was remembered. What there
// is of them is looked for.
func (s *State) correct(now contract.ReplicaSetObservation) {
	if now.UID == s.Object.UID && !s.Set.Gone {
		s.believe(&now)
	}
	s.Known = false
}

// record is a transition as the history query answers it while it is open.
func (t Transition) record(attempts int) contract.OperationRecord {
	return contract.OperationRecord{Operation: contract.OperationReplicate, ID: t.ID, Why: t.Why, Actor: t.Actor, Since: t.Since, Attempts: attempts}
}

// reason is that of the failure condition when a transition fails.
func reason(in contract.ReplicateInput) string {
	if in.Make > 0 {
		return reasonFailedCreate
	}
	return reasonFailedDelete
}

// signalProgress tells the open transition how far the replicas are.
func (e *set) signalProgress(ctx workflow.Context, p contract.ReplicateProgress) error {
	e.state.Open.Reported = p
	if e.child == nil {
		return nil
	}
	return e.child.SignalChildWorkflow(ctx, contract.SignalProgress, p).Get(ctx, nil)
}

func (e *set) failed(ctx workflow.Context, step, reason string, err error) error {
	s := &e.state
	s.Failure = s.Failure.Failed(workflow.Now(ctx), step, reason, err)
	return err
}

func (e *set) succeeded(step string) { e.state.Failure = e.state.Failure.Succeeded(step) }

// forgetFailure drops a failure whose aim has been reached another way, or is nobody's any more.
func (s *State) forgetFailure() {
	f := s.Failure
	if f == nil || s.Open != nil {
		return
	}
	over := false
	switch action(f.Step) {
	case actReplicate:
		over = s.Known && s.needs().none() && (!f.Late || !s.waiting())
	case actClaim:
		adopt, release := s.claims()
		over = len(adopt)+len(release) == 0
	case actFind:
		over = s.Known
	default:
	}
	if over {
		s.Failure = nil
	}
}

// waiting says that a replica does not run yet, or is not gone yet.
func (s *State) waiting() bool {
	return len(s.pick(func(r contract.ReplicaObservation) bool {
		return s.mine(r) && (r.Deleting || s.counts(r) && r.Phase != "Running")
	})) > 0
}

// grace is how long a guest's end is waited for, before it is killed.
func (s *State) grace() time.Duration { return contract.GraceWait(s.Set.GracePeriodSeconds) }
