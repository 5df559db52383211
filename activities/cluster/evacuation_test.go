package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/settings"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
)

const drained = "node-1"

// evacuee makes an instance that runs on the node, is marked, and can be moved.
func (w *world) evacuee(
	t *testing.T, name string, change func(*kubevirt.VirtualMachineInstance),
) contract.Object {
	t.Helper()
	memory := resource.MustParse("128Mi")
	strategy := kubevirt.EvictionStrategyLiveMigrate
	vmi := &kubevirt.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.ns, Labels: map[string]string{
			contract.LabelNodeName: drained}},
		Spec: kubevirt.VirtualMachineInstanceSpec{
			EvictionStrategy: &strategy, Domain: kubevirt.DomainSpec{Memory: &kubevirt.Memory{Guest: &memory}}},
		Status: kubevirt.VirtualMachineInstanceStatus{
			Phase: kubevirt.Running, NodeName: drained, EvacuationNodeName: drained,
			Conditions: []kubevirt.VirtualMachineInstanceCondition{
				{Type: kubevirt.VirtualMachineInstanceIsMigratable, Status: corev1.ConditionTrue}},
		},
	}
	if change != nil {
		change(vmi)
	}
	made, err := w.kubevirt.VMIs(w.ns).Create(t.Context(), vmi, metav1.CreateOptions{})
	require.NoError(t, err)
	return contract.Object{Namespace: w.ns, Name: name, UID: string(made.UID)}
}

// node makes the node, or changes it.
func (w *world) node(t *testing.T, change func(*corev1.Node)) {
	t.Helper()
	nodes := w.kubernetes.CoreV1().Nodes()
	node, err := nodes.Get(t.Context(), drained, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		node, err = nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: drained}},
			metav1.CreateOptions{})
	}
	require.NoError(t, err)
	node.Spec = corev1.NodeSpec{}
	if change != nil {
		change(node)
	}
	_, err = nodes.Update(t.Context(), node, metav1.UpdateOptions{})
	require.NoError(t, err)
}

func cordon(n *corev1.Node) { n.Spec.Unschedulable = true }

func taint(n *corev1.Node) {
	n.Spec.Taints = []corev1.Taint{{Key: contract.TaintDrain, Effect: corev1.TaintEffectNoSchedule}}
}

func (w *world) migrations(t *testing.T) []kubevirt.VirtualMachineInstanceMigration {
	t.Helper()
	list, err := w.kubevirt.Migrations(w.ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	return list.Items
}

func (w *world) ends(t *testing.T, name string, phase kubevirt.VirtualMachineInstanceMigrationPhase) {
	t.Helper()
	m, err := w.kubevirt.Migrations(w.ns).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	m.Status.Phase = phase
	m.Status.PhaseTransitionTimestamps = []kubevirt.VirtualMachineInstanceMigrationPhaseTransitionTimestamp{
		{Phase: phase, PhaseTransitionTimestamp: metav1.NewTime(time.Now().Truncate(time.Second))}}
	_, err = w.kubevirt.Migrations(w.ns).UpdateStatus(t.Context(), m, metav1.UpdateOptions{})
	require.NoError(t, err)
}

func TestFindEvacuees(t *testing.T) {
	w := newWorld(t)
	w.evacuee(t, "big", func(v *kubevirt.VirtualMachineInstance) {
		memory := resource.MustParse("4Gi")
		v.Spec.Domain.Memory.Guest = &memory
	})
	small := w.evacuee(t, "small", func(v *kubevirt.VirtualMachineInstance) {
		v.Annotations = map[string]string{kubevirt.EvictionSourceAnnotation: "descheduler"}
	})
	w.evacuee(t, "fixed", func(v *kubevirt.VirtualMachineInstance) {
		v.Status.EvacuationNodeName = ""
		v.Spec.EvictionStrategy = nil
		v.Status.Conditions[0].Status, v.Status.Conditions[0].Message = corev1.ConditionFalse, "it bridges"
	})
	w.evacuee(t, "ended", func(v *kubevirt.VirtualMachineInstance) { v.Status.Phase = kubevirt.Succeeded })
	w.evacuee(t, "elsewhere", func(v *kubevirt.VirtualMachineInstance) {
		v.Labels[contract.LabelNodeName], v.Status.NodeName = "node-2", "node-2"
	})
	find := func(scope contract.DrainScope) (names []string, all []contract.Movable) {
		t.Helper()
		out, err := w.FindEvacuees(t.Context(), contract.FindEvacueesInput{Node: drained, Scope: scope})
		require.NoError(t, err)
		require.Equal(t, 2, out.Outbound)
		for _, e := range out.Evacuees {
			names = append(names, e.VMI.Name)
		}
		return names, out.Evacuees
	}
	names, all := find(contract.ScopeAll)
	require.Equal(t, []string{"small", "big", "fixed"}, names)
	require.Equal(t, small, all[0].VMI)
	require.True(t, all[0].Descheduled && all[0].Marked && all[0].Migratable && all[0].Running)
	require.EqualValues(t, 128<<20, all[0].Memory)
	require.Equal(t, "it bridges", all[2].Why)
	require.Equal(t, "None", all[2].Strategy, "the cluster's")
	names, _ = find(contract.ScopeMarked)
	require.Equal(t, []string{"small", "big"}, names)

	in := contract.CreateMigrationsInput{Node: drained, Instances: all[:1]}
	for range 2 {
		_, err := w.CreateMigrations(t.Context(), in)
		require.NoError(t, err)
	}
	_, all = find(contract.ScopeMarked)
	require.Equal(t, w.migrations(t)[0].Name, all[0].Migration.Name)
	require.True(t, all[0].Evacuates)
	w.ends(t, all[0].Migration.Name, kubevirt.MigrationFailed)
	_, all = find(contract.ScopeMarked)
	require.Empty(t, all[0].Migration)
	require.Equal(t, 1, all[0].Failures)
	require.WithinDuration(t, time.Now(), all[0].LastFailure, time.Minute)
}

// TestLongNamesAreMoved: a label takes 63 characters of the 253 that the name of an instance may have.
func TestLongNamesAreMoved(t *testing.T) {
	w := newWorld(t)
	vmi := w.evacuee(t, strings.Repeat("long-name.", 20)+"x", nil)
	in := contract.CreateMigrationsInput{Node: drained, Instances: []contract.Movable{{VMI: vmi}}}
	out, err := w.CreateMigrations(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, contract.CreateMigrationsResult{Made: 1}, out)
	m := w.migrations(t)[0]
	require.Equal(t, vmi.Name, m.Spec.VMIName)
	require.Empty(t, validation.IsValidLabelValue(m.Labels[kubevirt.MigrationSelectorLabel]))
	movable := func() contract.Movable {
		all, err := w.FindEvacuees(t.Context(), contract.FindEvacueesInput{Node: drained, Scope: contract.ScopeAll})
		require.NoError(t, err)
		require.Len(t, all.Evacuees, 1)
		return all.Evacuees[0]
	}
	require.Equal(t, m.Name, movable().Migration.Name)
	w.ends(t, m.Name, kubevirt.MigrationFailed)
	require.Equal(t, 1, movable().Failures)
	_, err = w.CreateMigrations(t.Context(), in)
	require.NoError(t, err)
	require.Len(t, w.migrations(t), 2)
}

func TestCreateMigrations(t *testing.T) {
	w := newWorld(t)
	web := contract.Movable{VMI: w.evacuee(t, "web", nil)}
	low := contract.Movable{VMI: w.evacuee(t, "low", func(v *kubevirt.VirtualMachineInstance) {
		v.Annotations = map[string]string{kubevirt.EvictionSourceAnnotation: "descheduler"}
	})}
	moved := contract.Movable{VMI: w.evacuee(t, "moved", func(v *kubevirt.VirtualMachineInstance) {
		v.Status.NodeName = "node-2"
	})}
	other := contract.Movable{VMI: contract.Object{Namespace: w.ns, Name: "web", UID: "another"}}
	in := contract.CreateMigrationsInput{Node: drained, Actor: "alice",
		Instances: []contract.Movable{web, low, moved, other}}
	for range 2 {
		out, err := w.CreateMigrations(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, contract.CreateMigrationsResult{Made: 2}, out)
	}
	all := w.migrations(t)
	require.Len(t, all, 2)
	for _, m := range all {
		require.Regexp(t, "^kubevirt-evacuation-[0-9a-f]{10}$", m.Name)
		require.Equal(t, map[string]string{contract.AnnotationEvacuation: drained,
			contract.AnnotationRequestedBy: "alice"}, m.Annotations)
		require.Equal(t, map[string]string{kubevirt.MigrationSelectorLabel: m.Spec.VMIName}, m.Labels)
		require.Equal(t, []string{contract.FinalizerMigration}, m.Finalizers)
		vmi, err := w.kubevirt.VMIs(w.ns).Get(t.Context(), m.Spec.VMIName, metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstance",
			Name: vmi.Name, UID: vmi.UID}}, m.OwnerReferences, "it goes with the instance")
		want := kubevirt.PrioritySystemCritical
		if m.Spec.VMIName == "low" {
			want = kubevirt.PrioritySystemMaintenance
		}
		require.Equal(t, want, *m.Spec.Priority)
	}
	// The next one has another name.
	for _, m := range all {
		w.ends(t, m.Name, kubevirt.MigrationFailed)
	}
	_, err := w.CreateMigrations(t.Context(), contract.CreateMigrationsInput{Node: drained,
		Instances: []contract.Movable{web}})
	require.NoError(t, err)
	require.Len(t, w.migrations(t), 3)

	in2 := contract.DeleteMigrationsInput{Migrations: []contract.Object{
		{Namespace: w.ns, Name: all[0].Name, UID: string(all[0].UID)},
		{Namespace: w.ns, Name: all[1].Name, UID: "another"}, {Namespace: w.ns, Name: "absent", UID: "u"}}}
	for range 2 {
		require.NoError(t, w.DeleteMigrations(t.Context(), in2))
	}
	for _, m := range w.migrations(t) {
		require.Equal(t, m.Name == all[0].Name, m.DeletionTimestamp != nil)
	}
}

// TestUnmarkedInstanceMovesOnlyDuringDrain: the Node's current state decides, whatever the drain's state says.
func TestUnmarkedInstanceMovesOnlyDuringDrain(t *testing.T) {
	w := newWorld(t)
	if w.fake == nil {
		t.Skip("it needs a node of its own")
	}
	made := func(name string, change func(*kubevirt.VirtualMachineInstance)) contract.CreateMigrationsResult {
		t.Helper()
		out, err := w.CreateMigrations(t.Context(), contract.CreateMigrationsInput{Node: drained,
			Instances: []contract.Movable{{VMI: w.evacuee(t, name, change)}}})
		require.NoError(t, err)
		return out
	}
	unmarked := func(v *kubevirt.VirtualMachineInstance) { v.Status.EvacuationNodeName = "" }
	require.Equal(t, "node node-1 exists no more", made("no-node", unmarked).Refused[0].Why)
	w.node(t, nil)
	require.Equal(t, "node node-1 is neither cordoned nor tainted kubevirt.io/drain now",
		made("stays", unmarked).Refused[0].Why)
	require.Empty(t, w.migrations(t))
	require.Equal(t, 1, made("marked", nil).Made)
	w.node(t, cordon)
	require.Equal(t, 1, made("cordoned", unmarked).Made)
	w.node(t, taint)
	require.Equal(t, 1, made("tainted", unmarked).Made)
	w.ReadSettings = func(context.Context) (settings.Settings, error) { // Settings still has the former taint
		s := settings.Default()
		s.Configuration.MigrationConfiguration = &kubevirt.MigrationConfiguration{
			NodeDrainTaintKey: new("example.com/maintenance")}
		return s, nil
	}
	require.Equal(t, "node node-1 is neither cordoned nor tainted example.com/maintenance now",
		made("other-taint", unmarked).Refused[0].Why)
}

// TestANameThatIsNoLabelHidesNoOther: an instance whose name is no valid label value does not hide the migrations of
// other instances.
func TestANameThatIsNoLabelHidesNoOther(t *testing.T) {
	w := newWorld(t)
	web := w.evacuee(t, "web", nil)
	w.evacuee(t, strings.Repeat("long", 20), nil)
	_, err := w.CreateMigrations(t.Context(), contract.CreateMigrationsInput{Node: drained,
		Instances: []contract.Movable{{VMI: web}}})
	require.NoError(t, err)
	out, err := w.FindEvacuees(t.Context(), contract.FindEvacueesInput{Node: drained, Scope: contract.ScopeMarked})
	require.NoError(t, err)
	require.Len(t, out.Evacuees, 2)
	for _, e := range out.Evacuees {
		require.Equal(t, e.VMI == web, e.Migration.UID != "", e.VMI.Name)
	}
}

func TestEvictPod(t *testing.T) {
	w := newWorld(t)
	if w.fake == nil {
		t.Skip("a pod has to be on a node that there is not")
	}
	w.node(t, taint)
	launcher := func(vmi contract.Object, node string) contract.Object {
		return w.another(t, vmi, func(p *corev1.Pod) { p.Spec.NodeName = node })
	}
	evict := func(vmi contract.Object) string {
		out, err := w.EvictPod(t.Context(), contract.EvictPodInput{Node: drained, VMI: vmi})
		require.NoError(t, err)
		return out.Refused
	}
	goes := func(pod contract.Object) bool {
		now, err := w.kubernetes.CoreV1().Pods(w.ns).Get(t.Context(), pod.Name, metav1.GetOptions{})
		require.NoError(t, err)
		return now.DeletionTimestamp != nil
	}
	vmi := w.evacuee(t, "web", func(v *kubevirt.VirtualMachineInstance) { v.Spec.EvictionStrategy = nil })
	require.Contains(t, evict(vmi), "it has no pod on node "+drained)
	here, elsewhere := launcher(vmi, drained), launcher(vmi, "node-2")
	w.fake.Intercept(func(r fakekube.Request) *fakekube.Fault {
		if r.Subresource != "eviction" {
			return nil
		}
		status := apierrors.NewTooManyRequests("a budget protects it", 0).Status()
		return &fakekube.Fault{Status: &status}
	})
	require.Contains(t, evict(vmi), "a budget protects it")
	w.fake.Intercept(nil)
	w.node(t, nil)
	require.Contains(t, evict(vmi), "neither cordoned nor tainted")
	require.False(t, goes(here))
	w.node(t, cordon)
	for range 2 {
		require.Empty(t, evict(vmi))
		require.True(t, goes(here))
		require.False(t, goes(elsewhere))
	}
	for name, c := range map[string]struct {
		change  func(*kubevirt.VirtualMachineInstance)
		refused string
	}{
		"moves": {nil, "its eviction strategy is LiveMigrate now"},
		"moves-by-others": {func(v *kubevirt.VirtualMachineInstance) {
			v.Spec.EvictionStrategy = new(kubevirt.EvictionStrategyExternal)
		}, "its eviction strategy is External now"},
		"moves-if-possible": {func(v *kubevirt.VirtualMachineInstance) {
			v.Spec.EvictionStrategy = new(kubevirt.EvictionStrategyLiveMigrateIfPossible)
		}, "it can be moved now"},
		"has-moved": {func(v *kubevirt.VirtualMachineInstance) { v.Status.NodeName = "node-2" }, ""},
	} {
		stays := w.evacuee(t, name, c.change)
		pod := launcher(stays, drained)
		require.Equal(t, c.refused, evict(stays), name)
		require.False(t, goes(pod), name)
	}
	cannot := w.evacuee(t, "cannot", func(v *kubevirt.VirtualMachineInstance) {
		v.Spec.EvictionStrategy = new(kubevirt.EvictionStrategyLiveMigrateIfPossible)
		v.Status.Conditions = nil
	})
	pod := launcher(cannot, drained)
	require.Empty(t, evict(cannot))
	require.True(t, goes(pod))
}

func TestClearEvacuation(t *testing.T) {
	w := newWorld(t)
	marked := w.evacuee(t, "marked", nil)
	elsewhere := w.evacuee(t, "elsewhere", func(v *kubevirt.VirtualMachineInstance) {
		v.Status.EvacuationNodeName = "node-2"
	})
	other := contract.Object{Namespace: w.ns, Name: "elsewhere", UID: "another"}
	absent := contract.Object{Namespace: w.ns, Name: "absent", UID: "u"}
	for range 2 {
		require.NoError(t, w.ClearEvacuation(t.Context(), contract.ClearEvacuationInput{Node: drained,
			Instances: []contract.Object{elsewhere, other, absent, marked}}))
	}
	for name, want := range map[string]string{"marked": "", "elsewhere": "node-2"} {
		vmi, err := w.kubevirt.VMIs(w.ns).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, want, vmi.Status.EvacuationNodeName)
	}
}
