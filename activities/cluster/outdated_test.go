package cluster_test

import (
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/settings"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
)

const newLauncher = "localhost/virtflow/launcher:dev"

// kubeVirt has activities that know this KubeVirt object, as it is whenever they look.
func (w *world) kubeVirt(t *testing.T, spec kubevirt.KubeVirtSpec) func() *kubevirt.KubeVirt {
	t.Helper()
	if w.fake == nil {
		t.Skip("it needs a KubeVirt object of its own")
	}
	_, err := fakekube.Put(w.fake, &kubevirt.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "kubevirt"},
		Spec: spec})
	require.NoError(t, err)
	read := func() *kubevirt.KubeVirt { return fakekube.Get[kubevirt.KubeVirt](w.fake, w.ns, "kubevirt") }
	w.Activities, err = cluster.New(cluster.Options{
		Kubernetes: w.kubernetes, KubeVirt: w.kubevirt, LauncherImage: newLauncher, Log: zerolog.Nop(),
		Record: fakekube.Record(w.kubernetes), Object: read,
		Settings: func() settings.Settings { return settings.From(read()) },
	})
	require.NoError(t, err)
	return read
}

func methods(m ...kubevirt.WorkloadUpdateMethod) kubevirt.KubeVirtSpec {
	var spec kubevirt.KubeVirtSpec
	spec.WorkloadUpdateStrategy.WorkloadUpdateMethods = m
	return spec
}

// outdated makes an instance that runs in a launcher of an older image, and can be moved.
func (w *world) outdated(t *testing.T, name string, change func(*kubevirt.VirtualMachineInstance)) contract.Object {
	t.Helper()
	return w.evacuee(t, name, func(v *kubevirt.VirtualMachineInstance) {
		v.Spec.EvictionStrategy, v.Status.EvacuationNodeName = nil, ""
		v.Status.LauncherContainerImageVersion = "localhost/virtflow/launcher:old"
		if change != nil {
			change(v)
		}
	})
}

func unmovable(v *kubevirt.VirtualMachineInstance) { v.Status.Conditions = nil }

func (w *world) find(t *testing.T, all bool) contract.FindOutdatedResult {
	t.Helper()
	out, err := w.FindOutdated(t.Context(), contract.FindOutdatedInput{Image: newLauncher, All: all})
	require.NoError(t, err)
	return out
}

func vmiNames(list []contract.Movable) (names []string) {
	for _, m := range list {
		names = append(names, m.VMI.Name)
	}
	return names
}

func TestFindOutdated(t *testing.T) {
	w := newWorld(t)
	spec := methods(kubevirt.WorkloadUpdateMethodLiveMigrate)
	spec.Configuration.MigrationConfiguration = &kubevirt.MigrationConfiguration{
		ParallelMigrationsPerCluster: new(uint32(3))}
	kv := w.kubeVirt(t, spec)
	w.outdated(t, "fixed", unmovable)
	w.outdated(t, "web", nil)
	w.outdated(t, "current", func(v *kubevirt.VirtualMachineInstance) {
		v.Status.LauncherContainerImageVersion = newLauncher
		v.Labels[contract.LabelOutdatedImage] = "" // it is wrong
	})
	w.outdated(t, "ended", func(v *kubevirt.VirtualMachineInstance) { v.Status.Phase = kubevirt.Failed })
	w.outdated(t, "no-pod", func(v *kubevirt.VirtualMachineInstance) { v.Status.LauncherContainerImageVersion = "" })
	require.Empty(t, w.find(t, false).Instances, "no instance has the label rightly")
	out := w.find(t, true)
	require.Equal(t, []string{"web", "fixed"}, vmiNames(out.Instances))
	require.Equal(t, contract.UpdateStrategy{Migrate: true, Limit: 3, Batch: 10, IntervalSeconds: 60}, out.Strategy)
	require.Zero(t, out.Unmarked+out.More)
	require.Equal(t, 2, *kv().Status.OutdatedVirtualMachineInstanceWorkloads)
	for name, want := range map[string]bool{"web": true, "fixed": true, "current": false, "ended": false,
		"no-pod": false} {
		vmi, err := w.kubevirt.VMIs(w.ns).Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		_, marked := vmi.Labels[contract.LabelOutdatedImage]
		require.Equal(t, want, marked, name)
	}
	w.fake.Calls()
	require.Len(t, w.find(t, false).Instances, 2)
	w.calls(t, "GET virtualmachineinstances", "GET virtualmachineinstancemigrations")

	_, err := w.FindOutdated(t.Context(), contract.FindOutdatedInput{Image: "localhost/virtflow/launcher:newer"})
	require.Equal(t, contract.ErrorOtherLauncher, errorType(err), "it would work towards another image")
}

// TestLabelsAreWrittenInParts: with a new image every instance needs one at once.
func TestLabelsAreWrittenInParts(t *testing.T) {
	w := newWorld(t)
	w.kubeVirt(t, kubevirt.KubeVirtSpec{})
	const n = contract.MaxMarked + 5
	for i := range n {
		w.outdated(t, "vm-"+strconv.Itoa(i), nil)
	}
	out := w.find(t, true)
	require.Equal(t, []int{contract.MaxMovables, n - contract.MaxMovables, 5},
		[]int{len(out.Instances), out.More, out.Unmarked})
	require.Zero(t, w.find(t, true).Unmarked)
	first := w.find(t, false)
	require.Equal(t, n-contract.MaxMovables, first.More)

	// Those that nothing can be done about hide no other, and one that leaves is not missed.
	stuck, leaving := uids(first.Instances), uids(first.Instances)[:1]
	out, err := w.FindOutdated(t.Context(), contract.FindOutdatedInput{Image: newLauncher,
		Priority: contract.Priority{Stuck: stuck, Leaving: leaving}})
	require.NoError(t, err)
	require.Len(t, out.Instances, contract.MaxMovables)
	require.Subset(t, uids(out.Instances), leaving)
	for _, uid := range stuck[1:] {
		require.NotContains(t, uids(out.Instances), uid)
	}
}

func uids(list []contract.Movable) (uids []string) {
	for _, m := range list {
		uids = append(uids, m.VMI.UID)
	}
	return uids
}

// TestRefusedLabelDelaysNoOther: a VMI whose label is refused delays no other VMI, and is not tried again at once for
// ever.
func TestRefusedLabelDelaysNoOther(t *testing.T) {
	w := newWorld(t)
	w.kubeVirt(t, kubevirt.KubeVirtSpec{})
	w.outdated(t, "web", nil)
	for i := range contract.MaxMarked + 1 {
		w.outdated(t, "refused-"+strconv.Itoa(i), nil)
	}
	w.fake.Intercept(func(r fakekube.Request) *fakekube.Fault {
		if r.Method != http.MethodPatch || r.Resource != "virtualmachineinstances" || r.Name == "web" {
			return nil
		}
		why := errors.New("a webhook does not like it")
		status := apierrors.NewForbidden(schema.GroupResource{}, r.Name, why).Status()
		return &fakekube.Fault{Status: &status}
	})
	w.find(t, true)
	out := w.find(t, true)
	require.Zero(t, out.Unmarked, "it would be looked at again at once, for ever")
	require.Equal(t, contract.MaxMarked+2, len(out.Instances)+out.More)
}

func TestMoveOutdated(t *testing.T) {
	w := newWorld(t)
	w.kubeVirt(t, methods(kubevirt.WorkloadUpdateMethodLiveMigrate))
	web, fixed := w.outdated(t, "web", nil), w.outdated(t, "fixed", unmovable)
	current := w.outdated(t, "current", func(v *kubevirt.VirtualMachineInstance) {
		v.Status.LauncherContainerImageVersion = newLauncher
	})
	in := contract.UpdateInstancesInput{Image: newLauncher, Instances: []contract.Object{web, fixed, current,
		{Namespace: w.ns, Name: "web", UID: "another"}, {Namespace: w.ns, Name: "absent", UID: "u"}}}
	for range 2 {
		out, err := w.MoveOutdated(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, []contract.InstanceRefusal{{UID: fixed.UID, Why: "it cannot be moved: "}}, out.Refused)
	}
	all := w.migrations(t)
	require.Len(t, all, 1)
	m := all[0]
	require.Regexp(t, "^kubevirt-workload-update-[0-9a-f]{10}$", m.Name)
	require.Equal(t, "web", m.Spec.VMIName)
	require.Equal(t, map[string]string{contract.AnnotationWorkloadUpdate: "",
		contract.AnnotationLauncherImage: newLauncher}, m.Annotations)
	require.Equal(t, map[string]string{kubevirt.MigrationSelectorLabel: "web"}, m.Labels)
	require.Equal(t, []string{contract.FinalizerMigration}, m.Finalizers)
	require.Equal(t, kubevirt.PrioritySystemCritical, *m.Spec.Priority)
	require.Equal(t, []string{"Created Migration " + m.Name + " for automated workload update"},
		w.eventsBy(t, "workload-update-controller", "VirtualMachineInstance", "SuccessfulCreate"))
	require.Equal(t, m.Name, w.find(t, true).Instances[0].Migration.Name)

	// The next one waits for longer, and has another name.
	w.ends(t, m.Name, kubevirt.MigrationFailed)
	found := w.find(t, true).Instances[0]
	require.Equal(t, 1, found.Failures)
	require.WithinDuration(t, time.Now(), found.LastFailure, time.Minute)
	w.later += 2 * time.Second
	// Its owner may take the label away, so that it is not found, and its name would come again and again.
	label := func(value string) {
		_, err := w.KubeVirt.Migrations(w.ns).Patch(t.Context(), m.Name, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"`+kubevirt.MigrationSelectorLabel+`":`+value+`}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	label("null")
	out, err := w.MoveOutdated(t.Context(), in)
	require.NoError(t, err)
	require.Contains(t, out.Refused[0].Why, m.Name+" has ended and lacks the label")
	label(`"web"`)
	_, err = w.MoveOutdated(t.Context(), in)
	require.NoError(t, err)
	all = w.migrations(t)
	require.Len(t, all, 2)

	// Something gives pods another image than was asked for: no guest moves for ever.
	for _, one := range all {
		if one.Name != m.Name {
			w.ends(t, one.Name, kubevirt.MigrationSucceeded)
		}
	}
	out, err = w.MoveOutdated(t.Context(), in)
	require.NoError(t, err)
	require.Contains(t, out.Refused[0].Why, "has moved it, and its launcher is of the image localhost/virtflow/launcher:old")
	require.Len(t, w.migrations(t), 2)

	in.Image = "localhost/virtflow/launcher:newer"
	_, err = w.MoveOutdated(t.Context(), in)
	require.Equal(t, contract.ErrorOtherLauncher, errorType(err))
}

func TestEvictOutdated(t *testing.T) {
	w := newWorld(t)
	w.kubeVirt(t, methods(kubevirt.WorkloadUpdateMethodLiveMigrate, kubevirt.WorkloadUpdateMethodEvict))
	on := func(vmi contract.Object) contract.Object {
		return w.another(t, vmi, func(p *corev1.Pod) { p.Spec.NodeName = drained })
	}
	goes := func(pod contract.Object) bool {
		now, err := w.kubernetes.CoreV1().Pods(w.ns).Get(t.Context(), pod.Name, metav1.GetOptions{})
		require.NoError(t, err)
		return now.DeletionTimestamp != nil
	}
	moves, fixed := w.outdated(t, "moves", nil), w.outdated(t, "fixed", unmovable)
	guarded, twice := w.outdated(t, "guarded", unmovable), w.outdated(t, "twice", unmovable)
	leaves := w.outdated(t, "leaves", func(vmi *kubevirt.VirtualMachineInstance) {
		unmovable(vmi)
		vmi.Status.MigrationState = &kubevirt.VirtualMachineInstanceMigrationState{MigrationUID: "another's"}
	})
	movesPod, fixedPod, guardedPod, twicePod, leavesPod := on(moves), on(fixed), on(guarded), on(twice), on(leaves)
	w.fake.Intercept(func(r fakekube.Request) *fakekube.Fault {
		if r.Subresource != "eviction" || r.Name != guardedPod.Name && r.Name != twicePod.Name {
			return nil
		}
		status := apierrors.NewTooManyRequests("a budget protects it", 0).Status()
		if r.Name == twicePod.Name {
			status = apierrors.NewInternalError(errors.New("two budgets protect it")).Status()
		}
		return &fakekube.Fault{Status: &status}
	})
	podless := w.outdated(t, "podless", unmovable)
	in := contract.UpdateInstancesInput{Image: newLauncher,
		Instances: []contract.Object{moves, twice, leaves, fixed, guarded, podless}}
	for range 2 {
		out, err := w.EvictOutdated(t.Context(), in)
		require.NoError(t, err)
		require.Len(t, out.Refused, 5)
		require.Contains(t, out.Refused[4].Why, "no pod")
		require.Equal(t, contract.InstanceRefusal{UID: moves.UID, Why: "it can be moved now"}, out.Refused[0])
		require.Contains(t, out.Refused[1].Why, "two budgets protect it")
		require.Contains(t, out.Refused[2].Why, "is being moved")
		require.Contains(t, out.Refused[3].Why, "a budget protects it")
	}
	require.True(t, goes(fixedPod))
	require.False(t, goes(movesPod) || goes(guardedPod) || goes(twicePod) || goes(leavesPod))
	require.Equal(t, []string{"Initiated eviction of VMI as part of automated workload update"},
		w.eventsBy(t, "workload-update-controller", "VirtualMachineInstance", "SuccessfulEvict"))
	failed := w.eventsBy(t, "workload-update-controller", "VirtualMachineInstance", "FailedEvict")
	require.Len(t, failed, 2, "once for each, however often it is tried")
	require.Contains(t, failed[0], "Error evicting pod ")
}

// TestNothingIsDoneThatTheStrategyDoesNotName: the configured strategy decides, whatever the workflow's state says.
func TestNothingIsDoneThatTheStrategyDoesNotName(t *testing.T) {
	w := newWorld(t)
	w.kubeVirt(t, kubevirt.KubeVirtSpec{})
	web := w.outdated(t, "web", nil)
	in := contract.UpdateInstancesInput{Image: newLauncher, Instances: []contract.Object{web}}
	for _, do := range []func() (contract.UpdateInstancesResult, error){
		func() (contract.UpdateInstancesResult, error) { return w.MoveOutdated(t.Context(), in) },
		func() (contract.UpdateInstancesResult, error) { return w.EvictOutdated(t.Context(), in) },
	} {
		out, err := do()
		require.NoError(t, err)
		require.Equal(t, web.UID, out.Refused[0].UID)
	}
	require.Empty(t, w.migrations(t))
}
