package diff

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"
	"sigs.k8s.io/randfill"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/watch"
	"github.com/virtflow/virtflow/internal/observe"
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
	vmi.Namespace, vmi.Name, vmi.UID, vmi.ResourceVersion, vmi.Labels = "a", name, types.UID(name), "1",
		map[string]string{"app": app}
	if owner != nil {
		vmi.OwnerReferences = controlledBy(owner, "VirtualMachineInstanceReplicaSet")
	}
	return vmi
}

// replicasSent returns the replicas that wait for a set.
func replicasSent(t *testing.T, e *Differ, set string) map[string]contract.ReplicaObservation {
	t.Helper()
	out := map[string]contract.ReplicaObservation{}
	for _, d := range outbox(e).pending["replicaset/a/"+set] {
		if d.Signal != contract.SignalObserveReplicas {
			continue
		}
		require.Nil(t, d.Start, "only the set itself starts its workflow")
		o, ok := d.Payload.(contract.ReplicasObservation)
		require.True(t, ok)
		for _, r := range o.Replicas {
			out[r.Name] = r
		}
	}
	delete(outbox(e).pending, "replicaset/a/"+set)
	return out
}

func see(t *testing.T, e *Differ, vmi *kubevirt.VirtualMachineInstance) {
	t.Helper()
	require.NoError(t, e.informers.VMIs.GetStore().Add(vmi))
	e.entities.vmi.sendChanged("a/"+vmi.Name, change)
}

func TestSendsInstancesToReplicaSet(t *testing.T) {
	e := newTestDiffer(t)
	web, db := testSet("web", "web"), testSet("db", "db")
	mine := testInstance("mine", "web", web)
	see(t, e, mine)
	require.Empty(t, outbox(e).pending["replicaset/a/web"], "nothing is sent to a set that is not there")
	for _, set := range []*kubevirt.VirtualMachineInstanceReplicaSet{web, db} {
		require.NoError(t, e.informers.ReplicaSets.GetStore().Add(set))
		e.entities.set.sendChanged("a/"+set.Name, change)
	}
	require.Equal(t, "observe-replicaset+ uid-of-web", func() string {
		d := outbox(e).pending["replicaset/a/web"][0]
		require.NotNil(t, d.Start)
		return d.Signal + "+ " + d.UID
	}())
	seen := replicasSent(t, e, "web")
	require.Len(t, seen, 1)
	require.Equal(t, "uid-of-web", seen["mine"].OwnerUID)
	require.True(t, seen["mine"].Matches)
	require.Empty(t, replicasSent(t, e, "db"))

	see(t, e, testInstance("bare", "db", nil))
	see(t, e, testInstance("of-a-vm", "db", &metav1.ObjectMeta{Name: "vm", UID: "vm"}))
	seen = replicasSent(t, e, "db")
	require.Len(t, seen, 1, "one that matches and has no controller")
	require.Empty(t, seen["bare"].OwnerUID)
	require.Empty(t, replicasSent(t, e, "web"))

	// Nothing that matters changes, then something does.
	mine = mine.DeepCopy()
	mine.ResourceVersion, mine.Status.Phase = "5", kubevirt.Scheduling
	see(t, e, mine)
	require.Empty(t, replicasSent(t, e, "web"), "on its way up, at another step")
	mine = mine.DeepCopy()
	mine.ResourceVersion, mine.Status.Phase = "6", kubevirt.Running
	see(t, e, mine)
	require.Equal(t, "Running", replicasSent(t, e, "web")["mine"].Phase)

	// Relabelled, then released: sent until it does not concern the set, and no longer.
	mine = mine.DeepCopy()
	mine.ResourceVersion, mine.Labels = "7", map[string]string{"app": "free"}
	see(t, e, mine)
	require.False(t, replicasSent(t, e, "web")["mine"].Matches)
	mine = mine.DeepCopy()
	mine.ResourceVersion, mine.OwnerReferences = "8", nil
	see(t, e, mine)
	require.Empty(t, replicasSent(t, e, "web")["mine"].OwnerUID)
	mine = mine.DeepCopy()
	mine.ResourceVersion, mine.Status.Phase = "9", kubevirt.Failed
	see(t, e, mine)
	require.Empty(t, replicasSent(t, e, "web"))

	// Another selector: what matches now is sent, although no instance has changed.
	web = web.DeepCopy()
	web.ResourceVersion, web.Generation = "10", 2
	web.Spec.Selector.MatchLabels, web.Spec.Template.ObjectMeta.Labels = map[string]string{"app": "free"},
		map[string]string{"app": "free"}
	require.NoError(t, e.informers.ReplicaSets.GetStore().Update(web))
	e.entities.set.sendChanged("a/web", change)
	require.True(t, replicasSent(t, e, "web")["mine"].Matches)

	e.entities.vmi.sendGone(mine, change)
	require.True(t, replicasSent(t, e, "web")["mine"].Gone)
	e.entities.vmi.sendGone(testInstance("other", "free", nil), change)
	require.Empty(t, replicasSent(t, e, "web"))
	e.entities.set.sendGone(web, change)
	require.Nil(t, outbox(e).pending["replicaset/a/web"][0].Start)
	for key := range e.last[replicaKind().name] {
		require.NotContains(t, key, string(web.UID), "nothing is remembered of a set that is gone")
	}
}

func TestIgnoresReplicaSetStatusWrites(t *testing.T) {
	e := newTestDiffer(t)
	web := testSet("web", "web")
	require.NoError(t, e.informers.ReplicaSets.GetStore().Add(web))
	e.entities.set.sendChanged("a/web", change)
	require.Len(t, outbox(e).pending["replicaset/a/web"], 1)
	delete(outbox(e).pending, "replicaset/a/web")
	web = web.DeepCopy()
	web.ResourceVersion, web.Status.Replicas = "2", 3
	web.Status.Conditions = []kubevirt.VirtualMachineInstanceReplicaSetCondition{
		{Type: "ReplicaPaused", Status: "True"}}
	require.NoError(t, e.informers.ReplicaSets.GetStore().Update(web))
	e.entities.set.sendChanged("a/web", change)
	require.Empty(t, outbox(e).pending["replicaset/a/web"])
	web = web.DeepCopy()
	n := int32(7)
	web.Spec.Replicas = &n
	require.NoError(t, e.informers.ReplicaSets.GetStore().Update(web))
	e.entities.set.sendChanged("a/web", change)
	o, ok := outbox(e).pending["replicaset/a/web"][0].Payload.(contract.ReplicaSetObservation)
	require.True(t, ok)
	require.Equal(t, 7, o.Replicas)
}

func TestStripKeepsReplicaObservations(t *testing.T) {
	web := testSet("web", "web")
	web.Annotations = map[string]string{contract.AnnotationRequestedBy: "alice",
		contract.AnnotationRequestedGeneration: "1", "other": "x"}
	grace := int64(5)
	web.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
	o, err := watch.Strip(web)
	require.NoError(t, err)
	e := newTestDiffer(t)
	require.NoError(t, e.informers.ReplicaSets.GetStore().Add(o))
	e.entities.set.sendChanged("a/web", change)
	seen, ok := outbox(e).pending["replicaset/a/web"][0].Payload.(contract.ReplicaSetObservation)
	require.True(t, ok)
	require.Equal(t, "alice", seen.Actor)
	require.Equal(t, "app=web", seen.Selector)
	require.Equal(t, &grace, seen.GracePeriodSeconds)
	require.Equal(t, 1, seen.Replicas)
	require.Empty(t, seen.Unusable)

	vmi := testInstance("mine", "web", web)
	vmi.Annotations = map[string]string{contract.AnnotationReplica: "4"}
	vmi.CreationTimestamp = metav1.Unix(100, 0)
	s, err := watch.Strip(vmi)
	require.NoError(t, err)
	stripped, ok := s.(*kubevirt.VirtualMachineInstance)
	require.True(t, ok)
	see(t, e, stripped)
	r := replicasSent(t, e, "web")["mine"]
	require.Equal(t, 4, r.Ordinal)
	require.Equal(t, time.Unix(100, 0).UTC(), r.Created)
}

// TestDropsActorOfEarlierGeneration: a scale does not pass the webhook, so its actor is not the one of the change
// before.
func TestDropsActorOfEarlierGeneration(t *testing.T) {
	e := newTestDiffer(t)
	web := testSet("web", "web")
	web.Annotations = map[string]string{contract.AnnotationRequestedBy: "alice",
		contract.AnnotationRequestedGeneration: "1"}
	web.Generation = 2
	require.NoError(t, e.informers.ReplicaSets.GetStore().Add(web))
	e.entities.set.sendChanged("a/web", change)
	o, ok := outbox(e).pending["replicaset/a/web"][0].Payload.(contract.ReplicaSetObservation)
	require.True(t, ok)
	require.Empty(t, o.Actor)
}

func TestResyncsMissedReplicas(t *testing.T) {
	e := newTestDiffer(t)
	web := testSet("web", "web")
	web.Status.Replicas = 1
	require.NoError(t, e.informers.ReplicaSets.GetStore().Add(web))
	require.NoError(t, e.informers.VMIs.GetStore().Add(testInstance("mine", "web", web)))
	e.others.replicas.resyncMissed()
	require.Empty(t, outbox(e).pending, "the status counts what there is")
	require.NoError(t, e.informers.VMIs.GetStore().Delete(testInstance("mine", "web", web)))
	e.others.replicas.resyncMissed()
	o, ok := outbox(e).pending["replicaset/a/web"][0].Payload.(contract.ReplicasObservation)
	require.True(t, ok)
	require.True(t, o.Resync)
}

// observed returns an observation of replicas.
func observed(uids ...string) contract.ReplicasObservation {
	var o contract.ReplicasObservation
	for _, uid := range uids {
		o.Replicas = append(o.Replicas, contract.ReplicaObservation{UID: uid})
	}
	return o
}

func TestMergesReplicaObservations(t *testing.T) {
	require.Equal(t, observed("a", "b", "c"), mergeReplicas(observed("a", "b"), observed("b", "c")))
	var many []string
	for i := range maxReplicasTogether {
		many = append(many, strconv.Itoa(i))
	}
	require.Equal(t, observed(many...), mergeReplicas(observed(many[0]), observed(many[1:]...)))
	require.Equal(t, contract.ReplicasObservation{Resync: true}, mergeReplicas(observed(many...), observed("another")),
		"the set lists them")
}

// TestStripKeepsReplicaSetFields: see TestStripKeepsObservedFields.
func TestStripKeepsReplicaSetFields(t *testing.T) {
	const objects = 200
	seed := rand.Uint64()
	fill := randfill.NewWithSeed(int64(seed)).NilChance(0.2).NumElements(1, 3).MaxDepth(8)
	selector := labels.SelectorFromSet(labels.Set{"app": "web"})
	for range objects {
		var set kubevirt.VirtualMachineInstanceReplicaSet
		for _, part := range []any{&set.Name, &set.UID, &set.ResourceVersion, &set.Generation, &set.Annotations,
			&set.DeletionTimestamp, &set.Status, &set.Spec.Replicas, &set.Spec.Paused, &set.Spec.Selector} {
			fill.Fill(part)
		}
		set.Spec.Template = testSet("x", "web").Spec.Template
		fill.Fill(&set.Spec.Template.Spec.TerminationGracePeriodSeconds)
		less, err := watch.Strip(set.DeepCopy())
		require.NoError(t, err)
		stripped, ok := less.(*kubevirt.VirtualMachineInstanceReplicaSet)
		require.True(t, ok)
		require.Equal(t, observe.ReplicaSet(&set), observe.ReplicaSet(stripped), "seed %d", seed)

		vmi := testInstance("x", "web", &set)
		for _, part := range []any{&vmi.CreationTimestamp, &vmi.DeletionTimestamp, &vmi.Status.Phase,
			&vmi.Status.Conditions, &vmi.Status.PhaseTransitionTimestamps} {
			fill.Fill(part)
		}
		vmi.Annotations = map[string]string{contract.AnnotationReplica: "7"}
		less, err = watch.Strip(vmi.DeepCopy())
		require.NoError(t, err)
		instance, ok := less.(*kubevirt.VirtualMachineInstance)
		require.True(t, ok)
		require.Equal(t, observe.Replica(vmi, selector), observe.Replica(instance, selector), "seed %d", seed)
		require.Equal(t, observe.GoneReplica(vmi), observe.GoneReplica(instance), "seed %d", seed)
	}
}

// TestTooManyReplicasCauseResync: what is merged stays small however many replicas come and go.
func TestTooManyReplicasCauseResync(t *testing.T) {
	var all any = observed()
	for i := range 10 * maxReplicasTogether {
		all = mergeReplicas(all, observed(strconv.Itoa(i)))
		require.LessOrEqual(t, len(all.(contract.ReplicasObservation).Replicas), maxReplicasTogether)
	}
	require.True(t, all.(contract.ReplicasObservation).Resync, "some are not in the observation")
}
