package world

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// byHand is a migration whose activities the test itself calls.
type byHand struct {
	*World
	migration, vmi, source, target contract.Object
	from, to                       *launcher
}

const handMade = "11111111-0000-0000-0000-000000000001"

// moving runs a guest on node1, and a second launcher on node2 that waits to receive it.
func moving(w *World) *byHand {
	w.CreateInstance(vm)
	w.Until(time.Minute, func() bool { return wantInstanceRunning(vm)(w) == nil })
	b := &byHand{World: w, from: w.Launcher(vm), migration: contract.Object{Namespace: Namespace, Name: "move",
		UID: handMade}}
	pod := w.Pod(vm)
	b.vmi = contract.Object{Namespace: Namespace, Name: vm, UID: b.from.vmiUID}
	b.source = contract.Object{Namespace: Namespace, Name: pod.Name, UID: string(pod.UID)}
	twin := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: pod.Name + "-target", Labels: pod.Labels,
			Annotations: pod.Annotations, OwnerReferences: pod.OwnerReferences},
		Spec: *pod.Spec.DeepCopy(),
	}
	twin.Labels[contract.LabelMigration] = handMade
	twin.Spec.NodeName = "node2"
	made, err := kube.Put(w.Kube, twin)
	if err != nil {
		panic(err)
	}
	b.target = contract.Object{Namespace: Namespace, Name: made.Name, UID: string(made.UID)}
	w.Until(time.Minute, func() bool { b.to = w.launcherOf(b.target.UID); return b.to != nil })
	return b
}

// on runs an activity on a node.
func on[Out any](w *World, node, name string, in any) (out Out, err error) {
	ctx := workflow.WithActivityOptions(w.ctx, workflow.ActivityOptions{
		TaskQueue: contract.NodeTaskQueue(node), StartToCloseTimeout: 10 * time.Minute,
		ScheduleToStartTimeout: time.Minute, HeartbeatTimeout: 30 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 5},
	})
	err = workflow.ExecuteActivity(ctx, name, in).Get(ctx, &out)
	return out, err
}

// prepare calls all activities before MigrateDomain.
func (b *byHand) prepare() contract.MigrateDomainInput {
	offer, err := on[contract.MigrationOffer](b.World, "node1", contract.ActivityOfferMigration,
		contract.OfferMigrationInput{Migration: b.migration, VMI: b.vmi, Pod: b.source})
	b.must(nil, err)
	prepared, err := on[contract.PreparedTarget](b.World, "node2", contract.ActivityPrepareTarget,
		contract.PrepareTargetInput{Migration: b.migration, VMI: b.vmi, Pod: b.target, Offer: offer})
	b.must(nil, err)
	return contract.MigrateDomainInput{Migration: b.migration, VMI: b.vmi, Pod: b.source, Target: prepared}
}

func (b *byHand) migrate() (contract.MigrationOutcome, error) {
	return on[contract.MigrationOutcome](b.World, "node1", contract.ActivityMigrateDomain, b.prepare())
}

func (b *byHand) inspect(node string, pod contract.Object) contract.MigrationTruth {
	out, err := on[contract.MigrationTruth](b.World, node, contract.ActivityInspectMigration,
		contract.InspectMigrationInput{Migration: b.migration, VMI: b.vmi, Pod: pod})
	b.must(nil, err)
	return out
}

// at calls do as soon as the migration is in that stage.
func (b *byHand) at(s stage, do func()) {
	b.after(time.Millisecond, func() {
		if m := b.from.move; m == nil || m.stage != s {
			b.at(s, do)
			return
		}
		do()
	})
}

// runByHand runs a test in a world of its own.
func runByHand(t *testing.T, o Options, test func(*byHand)) {
	t.Helper()
	w, err := New(o)
	require.NoError(t, err)
	w.Run(func(w *World) { test(moving(w)) })
	for _, broken := range w.Broken { // the instance's entity has received no signal of this migration
		require.NotContains(t, broken, "two running domains")
		require.NotContains(t, broken, "the story failed")
	}
}

func TestMoves(t *testing.T) {
	for name, c := range map[string]struct {
		guest Guest
		// disturb is called before the guest is moved.
		disturb func(*byHand)
		want    contract.MigrationResult
		// runs is the node of the guest at the end, "": none; held: the target holds the guest.
		runs string
		held bool
	}{
		"undisturbed": {want: contract.ResultMoved, runs: "node2"},
		"paused by its user": {disturb: func(b *byHand) { b.from.change(contract.DomainPaused, "") },
			want: contract.ResultMoved, runs: "node2"},
		"aborted": {disturb: func(b *byHand) { b.at(copying, func() { b.from.move.abort("enough", true) }) },
			want: contract.ResultStayed, runs: "node1"},
		"aborted too late": {disturb: func(b *byHand) {
			b.at(switching, func() { b.from.move.abort("enough", true) })
		}, want: contract.ResultMoved, runs: "node2"},
		"the guest powers off": {disturb: func(b *byHand) { b.at(copying, b.from.powersOff) },
			want: contract.ResultGuestEnded},
		"the target's launcher is killed": {disturb: func(b *byHand) { b.at(copying, b.to.kill) },
			want: contract.ResultStayed, runs: "node1"},
		"the source's launcher is killed": {disturb: func(b *byHand) { b.at(copying, b.from.kill) },
			want: contract.ResultLost},
		"the source's node worker is killed": {disturb: func(b *byHand) {
			b.at(copying, func() { b.RestartWorker("node1") })
		}, want: contract.ResultStayed, runs: "node1"},
		"the target's node worker is killed": {disturb: func(b *byHand) {
			b.at(copying, func() { b.RestartWorker("node2") })
		}, want: contract.ResultStayed, runs: "node1"},
		"the source's is, when the target has the guest": {disturb: func(b *byHand) {
			b.at(arrived, func() { b.RestartWorker("node1") })
		}, want: contract.ResultStayed, runs: "node1", held: true},
		"the target's is, when the target has the guest": {disturb: func(b *byHand) {
			b.at(arrived, func() { b.RestartWorker("node2") })
		}, want: contract.ResultStayed, runs: "node1", held: true},
		"the target's is, when the source is off": {disturb: func(b *byHand) {
			b.at(departed, func() { b.RestartWorker("node2") })
		}, want: contract.ResultSourceOff, held: true},
		"the source's node is cut off": {disturb: func(b *byHand) { b.at(copying, func() { b.Cut("node2") }) },
			want: contract.ResultStayed, runs: "node1"},
	} {
		t.Run(name, func(t *testing.T) {
			runByHand(t, Options{Guests: map[string]Guest{key: c.guest}}, func(b *byHand) {
				if c.disturb != nil {
					c.disturb(b)
				}
				paused := b.from.domain.State == contract.DomainPaused
				out, err := b.migrate()
				if err != nil || out.Result != c.want {
					t.Errorf("%v: %+v", err, out)
				}
				b.Sleep(time.Minute)
				l := b.Launcher(vm)
				switch {
				case c.runs == "" && l != nil, c.runs != "" && (l == nil || l.host.name != c.runs):
					t.Errorf("it runs in %+v", l)
				case l != nil && (l.domain.State == contract.DomainPaused) != paused:
					t.Errorf("it is %s, and was paused before: %t", l.domain.State, paused)
				}
				if h := b.hosts["node2"]; h.isPolling() {
					if truth := b.inspect("node2", b.target); truth.Held != c.held {
						t.Errorf("the target says %+v", truth)
					}
				}
				if out.Result != contract.ResultSourceOff {
					return
				}
				_, err = on[contract.FinishTargetResult](b.World, "node2", contract.ActivityFinishTarget,
					contract.FinishTargetInput{Migration: b.migration, VMI: b.vmi, Pod: b.target, Proof: *out.Proof})
				if l := b.Launcher(vm); err != nil || l == nil || l.host.name != "node2" {
					t.Errorf("finishing: %v, it runs in %+v", err, l)
				}
			})
		})
	}
}
