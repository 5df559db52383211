package replicaset

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/virtflow/virtflow/workflows/contract"
	"github.com/virtflow/virtflow/workflows/entity"
)

// eachMade is what a transition may take longer for each replica that it makes.
const eachMade = 2 * time.Second

// deadline is how long a transition may take: as long as the start of a VM where it makes replicas, and as long as the
// end of one.
func deadline(n needs, grace time.Duration) time.Duration {
	d := grace + entity.StopSlack
	if n.Make > 0 {
		d += entity.StartTime + time.Duration(n.Make)*eachMade
	}
	return d
}

// batch is how many replicas one activity makes. A few are made within a workflow task.
const batch = 25

// Replicate makes the replicas that are missing, deletes those that are too many or have ended, and waits until the
// set's entity says that they run and are gone. Cancelled, it goes no further and leaves what it has made: what becomes
// of that, the entity decides.
func Replicate(ctx workflow.Context, in contract.ReplicateInput) (contract.ReplicateResult, error) {
	r, err := newReplication(ctx, in).replicate(ctx)
	return entity.Reported(ctx, r, err)
}

func (t *replication) replicate(ctx workflow.Context) (contract.ReplicateResult, error) {
	if err := t.makeAll(ctx); err != nil {
		return contract.ReplicateResult{}, err
	}
	if t.set != nil {
		t.say(ctx, "The set has changed meanwhile; what it wants now is another transition's.")
		return contract.ReplicateResult{Summary: t.summary() + " Then the set changed.", Taken: t.taken,
			Set: t.set}, nil
	}
	if err := t.deleteAll(ctx); err != nil {
		return contract.ReplicateResult{}, err
	}
	if t.set != nil {
		t.say(ctx, "Replicas that were to go are wanted now; they stay.")
		return contract.ReplicateResult{Summary: t.summary() + " Others that were to go are wanted now, and stay.",
			Taken: t.taken, Set: t.set}, nil
	}
	if t.taken > 0 {
		t.say(ctx, "Names were taken; another transition makes up for it.")
		return contract.ReplicateResult{Summary: t.summary() + " Names derived for others were taken.", Taken: t.taken},
			nil
	}
	return t.await(ctx)
}

// replication is one run of Replicate.
type replication struct {
	*entity.Child[contract.ReplicateProgress]
	in      contract.ReplicateInput
	made    int
	deleted int
	set     *contract.ReplicaSetObservation // as it was read when it turned out to want something else by now
	taken   int                             // the highest ordinal whose name somebody else has
}

func newReplication(ctx workflow.Context, in contract.ReplicateInput) *replication {
	t := &replication{in: in}
	t.Child = entity.NewChild[contract.ReplicateProgress](ctx, entity.Record{Why: in.Why, Actor: in.Actor},
		func(ctx workflow.Context) { t.say(ctx, "") })
	return t
}

// say shows how far it is, and what happens now.
func (t *replication) say(ctx workflow.Context, what string) { t.Say(ctx, t.summary(), what) }

// summary is how far it is.
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
			t.say(ctx, "The replicas could not be made: "+entity.Message(err))
			return err
		}
		t.made += r.Made
		for _, ordinal := range r.Taken {
			t.taken = max(t.taken, ordinal)
		}
		if r.Refused != nil {
			return t.refused(ctx, "made", r.Refused)
		}
		if t.set = r.Set; t.set != nil {
			return nil
		}
		next += n
		t.say(ctx, "")
	}
	return nil
}

// deleteAll deletes what is to go, batch after batch.
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
		t.say(ctx, "The replicas could not be deleted: "+entity.Message(err))
		return err
	}
	t.deleted += r.Deleted
	if r.Set != nil {
		t.set = r.Set
	}
	if r.Refused != nil {
		return t.refused(ctx, "deleted", r.Refused)
	}
	t.say(ctx, "")
	return nil
}

// refused ends the transition: what the API server refuses now, it would refuse of the others too. Those that were made
// stay.
func (t *replication) refused(ctx workflow.Context, what string, r *contract.Refusal) error {
	t.say(ctx, "The rest could not be "+what+": "+r.Message)
	return temporal.NewNonRetryableApplicationError(r.Message, r.Type, nil)
}

// await waits until the set's entity says that it is done. Replicas that are merely late stay: they are what the user
// asked for, and Kubernetes keeps trying to place them.
func (t *replication) await(ctx workflow.Context) (contract.ReplicateResult, error) {
	t.say(ctx, "")
	// Its time counts from now: what waited in virtflow's own queues until everything was asked for had not begun.
	limit := t.in.Deadline.Sub(workflow.GetInfo(ctx).WorkflowStartTime)
	ok, err := workflow.AwaitWithTimeout(ctx, limit, func() bool { return t.Latest.Done })
	took := t.Took(ctx, 10*time.Millisecond).String()
	switch {
	case err != nil:
		return contract.ReplicateResult{}, err
	case !ok:
		t.say(ctx, "The deadline has passed. What was made stays, and runs as soon as it can.")
		return contract.ReplicateResult{}, temporal.NewNonRetryableApplicationError(
			t.summary()+" That is all after "+took+
				"; see the conditions of the VirtualMachineInstances", contract.ErrorDeadline, nil)
	default:
		t.say(ctx, t.Latest.Note)
		summary := t.summary() + " It took " + took + "."
		if t.Latest.Note != "" {
			summary += " " + t.Latest.Note
		}
		return contract.ReplicateResult{Summary: summary}, nil
	}
}

// inBatch calls an activity that does many things at once. A transition that is cancelled lets it end: what it did is
// then known.
func inBatch[Out any](ctx workflow.Context, activity, what string, of int, in any) (Out, error) {
	dctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	return entity.CallBatch[Out](dctx, activity, what, of, in)
}
