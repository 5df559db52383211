package crdwatch

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"
	"sigs.k8s.io/randfill"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/workflows/contract"
)

func testSet(uid, app string) *kubevirt.VirtualMachineInstanceReplicaSet {
	labels := map[string]string{"app": app}
	set := &kubevirt.VirtualMachineInstanceReplicaSet{}
	set.Namespace, set.Name, set.UID, set.ResourceVersion, set.Generation = "a", uid, types.UID("uid-of-"+uid), "1", 1
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template = &kubevirt.VirtualMachineInstanceTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	return set
}

func testInstance(name, app string, owner metav1.Object) *kubevirt.VirtualMachineInstance {
	vmi := &kubevirt.VirtualMachineInstance{}
	vmi.Namespace, vmi.Name, vmi.UID, vmi.ResourceVersion, vmi.Labels = "a", name, types.UID(name), "1", map[string]string{"app": app}
	if owner != nil {
		vmi.OwnerReferences = controlledBy(owner, "VirtualMachineInstanceReplicaSet")
	}
	return vmi
}

// told takes what waits for a set of its replicas.
func told(t *testing.T, e *evaluator, set string) map[string]contract.ReplicaObservation {
	t.Helper()
	out := map[string]contract.ReplicaObservation{}
	for _, d := range e.outbox.pending["replicaset/a/"+set] {
		if d.Signal != contract.SignalObserveReplicas {
			continue
		}
		require.NotNil(t, d.Start, "the set is there")
		o, ok := d.Payload.(contract.ReplicasObservation)
		require.True(t, ok)
		for _, r := range o.Replicas {
			out[r.Name] = r
		}
	}
	delete(e.outbox.pending, "replicaset/a/"+set)
	return out
}

func put(t *testing.T, e *evaluator, vmi *kubevirt.VirtualMachineInstance) {
	t.Helper()
	require.NoError(t, e.store.vmis.GetStore().Add(vmi))
	e.vmi("a/" + vmi.Name)
}

func TestWhichSetIsToldOfWhichInstance(t *testing.T) {
	e := newTestEvaluator(t)
	web, db := testSet("web", "web"), testSet("db", "db")
	mine := testInstance("mine", "web", web)
	put(t, e, mine)
	require.Empty(t, e.outbox.pending["replicaset/a/web"], "a set that is not there is told nothing")
	for _, set := range []*kubevirt.VirtualMachineInstanceReplicaSet{web, db} {
		require.NoError(t, e.store.sets.GetStore().Add(set))
		e.replicaSet("a/" + set.Name)
	}
	require.Equal(t, "observe-replicaset+ uid-of-web", func() string {
		d := e.outbox.pending["replicaset/a/web"][0]
		require.NotNil(t, d.Start)
		return d.Signal + "+ " + d.UID
	}())
	seen := told(t, e, "web")
	require.Len(t, seen, 1)
	require.Equal(t, "uid-of-web", seen["mine"].OwnerUID)
	require.True(t, seen["mine"].Matches)
	require.Empty(t, told(t, e, "db"))

	put(t, e, testInstance("bare", "db", nil))
	put(t, e, testInstance("of-a-vm", "db", &metav1.ObjectMeta{Name: "vm", UID: "vm"}))
	seen = told(t, e, "db")
	require.Len(t, seen, 1, "one that matches and belongs to nobody")
	require.Empty(t, seen["bare"].OwnerUID)
	require.Empty(t, told(t, e, "web"))

	// Nothing that matters changes, then something does.
	mine = mine.DeepCopy()
	mine.ResourceVersion, mine.Status.Phase = "5", kubevirt.Scheduling
	put(t, e, mine)
	require.Empty(t, told(t, e, "web"), "on its way up, at another step")
	mine = mine.DeepCopy()
	mine.ResourceVersion, mine.Status.Phase = "6", kubevirt.Running
	put(t, e, mine)
	require.Equal(t, "Running", told(t, e, "web")["mine"].Phase)

	// Relabelled, then released: told until it is no business of the set's, and no longer.
	mine = mine.DeepCopy()
	mine.ResourceVersion, mine.Labels = "7", map[string]string{"app": "free"}
	put(t, e, mine)
	require.False(t, told(t, e, "web")["mine"].Matches)
	mine = mine.DeepCopy()
	mine.ResourceVersion, mine.OwnerReferences = "8", nil
	put(t, e, mine)
	require.Empty(t, told(t, e, "web")["mine"].OwnerUID)
	mine = mine.DeepCopy()
	mine.ResourceVersion, mine.Status.Phase = "9", kubevirt.Failed
	put(t, e, mine)
	require.Empty(t, told(t, e, "web"))

	// Another selector: what matches now is told, although no instance has changed.
	web = web.DeepCopy()
	web.ResourceVersion, web.Generation = "10", 2
	web.Spec.Selector.MatchLabels, web.Spec.Template.ObjectMeta.Labels = map[string]string{"app": "free"}, map[string]string{"app": "free"}
	require.NoError(t, e.store.sets.GetStore().Update(web))
	e.replicaSet("a/web")
	require.True(t, told(t, e, "web")["mine"].Matches)

	e.vmiGone(mine)
	require.True(t, told(t, e, "web")["mine"].Gone)
	e.vmiGone(testInstance("stranger", "free", nil))
	require.Empty(t, told(t, e, "web"))
	e.replicaSetGone(web)
	require.Nil(t, e.outbox.pending["replicaset/a/web"][0].Start)
	for which := range e.toldReplica {
		require.NotEqual(t, string(web.UID), which.set, "nothing is remembered of a set that is gone")
	}
}

func TestASetsOwnWritesAreNoNews(t *testing.T) {
	e := newTestEvaluator(t)
	web := testSet("web", "web")
	require.NoError(t, e.store.sets.GetStore().Add(web))
	e.replicaSet("a/web")
	require.Len(t, e.outbox.pending["replicaset/a/web"], 1)
	delete(e.outbox.pending, "replicaset/a/web")
	web = web.DeepCopy()
	web.ResourceVersion, web.Status.Replicas = "2", 3
	web.Status.Conditions = []kubevirt.VirtualMachineInstanceReplicaSetCondition{{Type: "ReplicaPaused", Status: "True"}}
	require.NoError(t, e.store.sets.GetStore().Update(web))
	e.replicaSet("a/web")
	require.Empty(t, e.outbox.pending["replicaset/a/web"])
	web = web.DeepCopy()
	n := int32(7)
	web.Spec.Replicas = &n
	require.NoError(t, e.store.sets.GetStore().Update(web))
	e.replicaSet("a/web")
	o, ok := e.outbox.pending["replicaset/a/web"][0].Payload.(contract.ReplicaSetObservation)
	require.True(t, ok)
	require.Equal(t, 7, o.Replicas)
}

func TestStrippedSetsAndInstancesSayTheSame(t *testing.T) {
	web := testSet("web", "web")
	web.Annotations = map[string]string{contract.AnnotationRequestedBy: "alice", contract.AnnotationRequestedGeneration: "1", "other": "x"}
	grace := int64(5)
	web.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
	o, err := stripReplicaSet(web)
	require.NoError(t, err)
	e := newTestEvaluator(t)
	require.NoError(t, e.store.sets.GetStore().Add(o))
	e.replicaSet("a/web")
	seen, ok := e.outbox.pending["replicaset/a/web"][0].Payload.(contract.ReplicaSetObservation)
	require.True(t, ok)
	require.Equal(t, "alice", seen.Actor)
	require.Equal(t, "app=web", seen.Selector)
	require.Equal(t, &grace, seen.GracePeriodSeconds)
	require.Equal(t, 1, seen.Replicas)
	require.Empty(t, seen.Unusable)

	vmi := testInstance("mine", "web", web)
	vmi.Annotations = map[string]string{contract.AnnotationReplica: "4"}
	vmi.CreationTimestamp = metav1.Unix(100, 0)
	s, err := stripVMI(vmi)
	require.NoError(t, err)
	stripped, ok := s.(*kubevirt.VirtualMachineInstance)
	require.True(t, ok)
	put(t, e, stripped)
	r := told(t, e, "web")["mine"]
	require.Equal(t, 4, r.Ordinal)
	require.Equal(t, time.Unix(100, 0).UTC(), r.Created)
}

// TestActorOfAnEarlierGeneration: a scale passes the webhook by; who changed the set before did not ask for it.
func TestActorOfAnEarlierGeneration(t *testing.T) {
	e := newTestEvaluator(t)
	web := testSet("web", "web")
	web.Annotations = map[string]string{contract.AnnotationRequestedBy: "alice", contract.AnnotationRequestedGeneration: "1"}
	web.Generation = 2
	require.NoError(t, e.store.sets.GetStore().Add(web))
	e.replicaSet("a/web")
	o, ok := e.outbox.pending["replicaset/a/web"][0].Payload.(contract.ReplicaSetObservation)
	require.True(t, ok)
	require.Empty(t, o.Actor)
}

func TestMissedReplicasAreLookedFor(t *testing.T) {
	e := newTestEvaluator(t)
	web := testSet("web", "web")
	web.Status.Replicas = 1
	require.NoError(t, e.store.sets.GetStore().Add(web))
	require.NoError(t, e.store.vmis.GetStore().Add(testInstance("mine", "web", web)))
	r := &repairer{evaluator: e, store: e.store}
	r.missedReplicas()
	require.Empty(t, e.outbox.pending, "the status counts what there is")
	require.NoError(t, e.store.vmis.GetStore().Delete(testInstance("mine", "web", web)))
	r.missedReplicas()
	o, ok := e.outbox.pending["replicaset/a/web"][0].Payload.(contract.ReplicasObservation)
	require.True(t, ok)
	require.True(t, o.Resync)
}

func replicaNews(hold time.Duration, uids ...string) Delivery {
	var o contract.ReplicasObservation
	for _, uid := range uids {
		o.Replicas = append(o.Replicas, contract.ReplicaObservation{UID: uid})
	}
	return Delivery{Workflow: "replicaset/a/web", Signal: contract.SignalObserveReplicas, UID: replicasUID, Payload: o, Merge: mergeReplicas, Hold: hold}
}

func uidsIn(t *testing.T, d Delivery) []string {
	t.Helper()
	o, ok := d.Payload.(contract.ReplicasObservation)
	require.True(t, ok)
	var out []string
	for _, r := range o.Replicas {
		out = append(out, r.UID)
	}
	return out
}

func TestNewsOfReplicasGoTogether(t *testing.T) {
	r := &recording{held: make(chan struct{})}
	o := newOutbox(r, newMetrics(nil), zerolog.Nop())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); o.Run(ctx, 2) }()
	t.Cleanup(func() { cancel(); <-done })
	o.Put(replicaNews(50*time.Millisecond, "a", "b"))
	o.Put(replicaNews(50*time.Millisecond, "b", "c"))
	underWay := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.busy["replicaset/a/web"] == 1
	}
	require.Eventually(t, underWay, 10*time.Second, time.Millisecond)
	o.Put(replicaNews(50*time.Millisecond, "d")) // too late for what is on its way
	r.held <- struct{}{}
	r.held <- struct{}{}
	require.Eventually(t, func() bool { return len(r.all()) == 2 }, 10*time.Second, time.Millisecond)
	require.Equal(t, []string{"a", "b", "c"}, uidsIn(t, r.all()[0]))
	require.Equal(t, []string{"a", "b", "c", "d"}, uidsIn(t, r.all()[1]), "it might not have arrived")
}

// TestNewsOfTheSetWaitForNoReplica: they go at once, and what was waiting with them.
func TestNewsOfTheSetWaitForNoReplica(t *testing.T) {
	r := &recording{}
	o := newOutbox(r, newMetrics(nil), zerolog.Nop())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); o.Run(ctx, 1) }()
	t.Cleanup(func() { cancel(); <-done })
	o.Put(replicaNews(time.Hour, "a"))
	o.Put(Delivery{Workflow: "replicaset/a/web", Signal: contract.SignalObserveReplicaSet, UID: "set"})
	require.Eventually(t, func() bool { return len(r.all()) == 2 }, 10*time.Second, time.Millisecond)
}

// TestWhatReplicaSetsNeedIsKept: see TestWhatAnObservationNeedsIsKept.
func TestWhatReplicaSetsNeedIsKept(t *testing.T) {
	const objects = 200
	seed := rand.Uint64()
	fill := randfill.NewWithSeed(int64(seed)).NilChance(0.2).NumElements(1, 3).MaxDepth(8)
	selector := labels.SelectorFromSet(labels.Set{"app": "web"})
	for range objects {
		var set kubevirt.VirtualMachineInstanceReplicaSet
		for _, part := range []any{&set.Name, &set.UID, &set.ResourceVersion, &set.Generation, &set.Annotations, &set.DeletionTimestamp, &set.Status, &set.Spec.Replicas, &set.Spec.Paused, &set.Spec.Selector} {
			fill.Fill(part)
		}
		set.Spec.Template = testSet("x", "web").Spec.Template
		fill.Fill(&set.Spec.Template.Spec.TerminationGracePeriodSeconds)
		less, err := stripReplicaSet(set.DeepCopy())
		require.NoError(t, err)
		stripped, ok := less.(*kubevirt.VirtualMachineInstanceReplicaSet)
		require.True(t, ok)
		require.Equal(t, observe.ReplicaSet(&set), observe.ReplicaSet(stripped), "seed %d", seed)

		vmi := testInstance("x", "web", &set)
		for _, part := range []any{&vmi.CreationTimestamp, &vmi.DeletionTimestamp, &vmi.Status.Phase, &vmi.Status.Conditions, &vmi.Status.PhaseTransitionTimestamps} {
			fill.Fill(part)
		}
		vmi.Annotations = map[string]string{contract.AnnotationReplica: "7"}
		less, err = stripVMI(vmi.DeepCopy())
		require.NoError(t, err)
		instance, ok := less.(*kubevirt.VirtualMachineInstance)
		require.True(t, ok)
		require.Equal(t, observe.Replica(vmi, selector), observe.Replica(instance, selector), "seed %d", seed)
		require.Equal(t, observe.GoneReplica(vmi), observe.GoneReplica(instance), "seed %d", seed)
	}
}
