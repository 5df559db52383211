package replicaset

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// timePerReplica is added to a transition's deadline for each replica that it makes.
const timePerReplica = 2 * time.Second

// deadline returns how long a transition may take: the time of a VM's start if it makes replicas, and that of a VM's
// end if it deletes some.
func deadline(n needs, grace time.Duration) time.Duration {
	d := grace + entity.StopSlack
	if n.Make > 0 {
		d += entity.StartTime + time.Duration(n.Make)*timePerReplica
	}
	return d
}

// batch is how many replicas one activity makes. A few are made within one workflow task.
const batch = 25

// Replicate makes the missing replicas, deletes those that are too many or have ended, and waits until the set's entity
// signals that they run and are gone. When cancelled it stops and keeps what it has made; the entity decides about
// that.
func Replicate(ctx workflow.Context, in contract.ReplicateInput) (contract.ReplicateResult, error) {
	r, err := newReplication(ctx, in).run(ctx)
	return entity.ReportOutcome(ctx, r, err)
}

func (t *replication) run(ctx workflow.Context) (contract.ReplicateResult, error) {
	if err := t.makeAll(ctx); err != nil {
		return contract.ReplicateResult{}, err
	}
	if t.set != nil {
		t.setDetails(ctx, "The set has changed meanwhile; another transition follows.")
		return contract.ReplicateResult{Summary: t.summary() + " Then the set changed.", Taken: t.maxTakenOrdinal,
			Set: t.set}, nil
	}
	if err := t.deleteAll(ctx); err != nil {
		return contract.ReplicateResult{}, err
	}
	if t.set != nil {
		t.setDetails(ctx, "Replicas to be deleted are needed again; they stay.")
		return contract.ReplicateResult{Summary: t.summary() + " Others to be deleted are needed again, and stay.",
			Taken: t.maxTakenOrdinal, Set: t.set}, nil
	}
	if t.maxTakenOrdinal > 0 {
		t.setDetails(ctx, "Names were taken; another transition makes the missing replicas.")
		return contract.ReplicateResult{Summary: t.summary() + " The names of others were taken.",
				Taken: t.maxTakenOrdinal},
			nil
	}
	return t.awaitDone(ctx)
}

// replication is one run of Replicate.
type replication struct {
	*entity.Child[contract.ReplicateProgress]
	in              contract.ReplicateInput
	made            int
	deleted         int
	set             *contract.ReplicaSetObservation // as it was read, if it no longer asks for this transition
	maxTakenOrdinal int                             // the highest ordinal whose name another owner has
}

func newReplication(ctx workflow.Context, in contract.ReplicateInput) *replication {
	t := &replication{in: in}
	t.Child = entity.NewChild[contract.ReplicateProgress](ctx, entity.Record{Why: in.Why, Actor: in.Actor},
		func(ctx workflow.Context) { t.setDetails(ctx, "") })
	return t
}

// setDetails shows the progress and the current step.
func (t *replication) setDetails(ctx workflow.Context, what string) {
	t.SetDetails(ctx, t.summary(), what)
}

// summary returns the progress, for people.
func (t *replication) summary() string {
	var parts []string
	if t.in.Make > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d made, %d running", t.made, t.in.Make, t.Latest.Running))
	}
	if n := t.toDelete(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d deleted, %d gone", t.deleted, n, t.Latest.Gone))
	}
	return strings.Join(parts, "; ") + "."
}

func (t *replication) toDelete() int { return len(t.in.Remove) + len(t.in.Finished) }

// makeAll makes the replicas, batch after batch.
func (t *replication) makeAll(ctx workflow.Context) error {
	for next := 0; next < t.in.Make; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(t.in.Make-next, batch)
		in := contract.CreateReplicasInput{Set: t.in.Set, Generation: t.in.Generation, From: t.in.From + next, Count: n,
			Actor: t.in.Actor}
		r, err := inBatch[contract.CreateReplicasResult](ctx, contract.ActivityCreateReplicas,
			fmt.Sprintf("make %d of %d replicas", n, t.in.Make), t.in.Make, in)
		if err != nil {
			t.setDetails(ctx, "The replicas could not be made: "+entity.Message(err))
			return err
		}
		t.made += r.Made
		for _, ordinal := range r.Taken {
			t.maxTakenOrdinal = max(t.maxTakenOrdinal, ordinal)
		}
		if r.Refused != nil {
			return t.refuse(ctx, "made", r.Refused)
		}
		if t.set = r.Set; t.set != nil {
			return nil
		}
		next += n
		t.setDetails(ctx, "")
	}
	return nil
}

// deleteAll deletes the surplus and ended replicas, batch after batch.
func (t *replication) deleteAll(ctx workflow.Context) error {
	for _, list := range []struct {
		objects []contract.Object
		input   func([]contract.Object) contract.DeleteReplicasInput
	}{
		{t.in.Remove, func(o []contract.Object) contract.DeleteReplicasInput {
			return contract.DeleteReplicasInput{Set: t.in.Set, Remove: o}
		}},
		{t.in.Finished, func(o []contract.Object) contract.DeleteReplicasInput {
			return contract.DeleteReplicasInput{Set: t.in.Set, Finished: o}
		}},
	} {
		for next := 0; next < len(list.objects); next += batch {
			if err := t.delete(ctx, list.input(list.objects[next:min(next+batch, len(list.objects))])); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *replication) delete(ctx workflow.Context, in contract.DeleteReplicasInput) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	what := fmt.Sprintf("delete %d of %d replicas", len(in.Remove)+len(in.Finished), t.toDelete())
	r, err := inBatch[contract.DeleteReplicasResult](ctx, contract.ActivityDeleteReplicas, what, t.toDelete(), in)
	if err != nil {
		t.setDetails(ctx, "The replicas could not be deleted: "+entity.Message(err))
		return err
	}
	t.deleted += r.Deleted
	if r.Set != nil {
		t.set = r.Set
	}
	if r.Refused != nil {
		return t.refuse(ctx, "deleted", r.Refused)
	}
	t.setDetails(ctx, "")
	return nil
}

// refuse ends the transition: the API server would refuse the remaining replicas, too. Those that were made stay.
func (t *replication) refuse(ctx workflow.Context, what string, r *contract.Refusal) error {
	t.setDetails(ctx, "The rest could not be "+what+": "+r.Message)
	return temporal.NewNonRetryableApplicationError(r.Message, r.Type, nil)
}

// awaitDone waits until the set's entity signals that it is done. Replicas that are merely late stay: the user asked
// for them, and Kubernetes keeps trying to place them.
func (t *replication) awaitDone(ctx workflow.Context) (contract.ReplicateResult, error) {
	t.setDetails(ctx, "")
	// The time counts from now: waiting in virtflow's own queues before that does not use it up.
	limit := t.in.Deadline.Sub(workflow.GetInfo(ctx).WorkflowStartTime)
	ok, err := workflow.AwaitWithTimeout(ctx, limit, func() bool { return t.Latest.Done })
	took := t.Elapsed(ctx, 10*time.Millisecond).String()
	switch {
	case err != nil:
		return contract.ReplicateResult{}, err
	case !ok:
		t.setDetails(ctx, "The deadline has passed. What was made stays, and runs as soon as it can.")
		return contract.ReplicateResult{}, temporal.NewNonRetryableApplicationError(
			t.summary()+" The deadline passed after "+took+
				"; see the conditions of the VirtualMachineInstances", contract.ErrorDeadline, nil)
	default:
		t.setDetails(ctx, t.Latest.Note)
		summary := t.summary() + " It took " + took + "."
		if t.Latest.Note != "" {
			summary += " " + t.Latest.Note
		}
		return contract.ReplicateResult{Summary: summary}, nil
	}
}

// inBatch calls an activity that handles many objects. When the transition is cancelled the activity still ends, so
// that its result is known.
func inBatch[Out any](ctx workflow.Context, activity, what string, of int, in any) (Out, error) {
	dctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	return entity.CallBatch[Out](dctx, activity, what, of, in)
}
