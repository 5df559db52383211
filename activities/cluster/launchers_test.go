package cluster_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
)

// another is a second launcher pod of an instance, as a migration has one, that is changed before it is made.
func (w *world) another(t *testing.T, vmi contract.Object, change func(*corev1.Pod)) contract.Object {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "virt-launcher-web-",
			Labels: map[string]string{contract.LabelLauncher: contract.LabelLauncherValue,
				contract.LabelCreatedBy: vmi.UID, contract.LabelMigration: "job"},
			Finalizers: []string{contract.FinalizerPod},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(
				&metav1.ObjectMeta{Name: vmi.Name, UID: types.UID(vmi.UID)},
				kubevirt.VirtualMachineInstanceGroupVersionKind)},
		},
		Spec: corev1.PodSpec{NodeName: "node2",
			Containers: []corev1.Container{{Name: "compute", Image: "launcher"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	change(pod)
	made, err := w.kubernetes.CoreV1().Pods(w.ns).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	w.podIs(t, made.Name, corev1.PodRunning)
	return contract.Object{Namespace: w.ns, Name: made.Name, UID: string(made.UID)}
}

// TestFindsAllLauncherPods: one request finds all launcher pods of an instance by labels and owner, and no pod of
// another instance.
func TestFindsAllLauncherPods(t *testing.T) {
	owner := func(name, uid string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = name, types.UID(uid)
		}
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		found  bool
	}{
		"made by a migration":           {func(*corev1.Pod) {}, true},
		"made by an unknown client":     {func(p *corev1.Pod) { delete(p.Labels, contract.LabelMigration) }, true},
		"of another instance":           {func(p *corev1.Pod) { p.Labels[contract.LabelCreatedBy] = "other" }, false},
		"controlled by another one":     {owner("other", "other"), false},
		"controlled by an earlier one":  {owner("web", "earlier"), false},
		"no launcher":                   {func(p *corev1.Pod) { delete(p.Labels, contract.LabelLauncher) }, false},
		"without owner, and not marked": {func(p *corev1.Pod) { p.OwnerReferences = nil }, false},
		"orphaned": {func(p *corev1.Pod) {
			p.OwnerReferences = nil
			p.Annotations = map[string]string{contract.AnnotationDomain: "web"}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			vmi, own, _ := w.running(t)
			second := w.another(t, vmi, c.change)
			w.fake.Calls()
			found, err := w.FindLauncherPod(t.Context(), contract.FindPodInput{VMI: vmi})
			require.NoError(t, err)
			w.calls(t, "GET pods")
			nodes := map[string]string{}
			for _, pod := range found.Pods() {
				require.Equal(t, vmi.UID, pod.VMIUID)
				nodes[pod.UID] = pod.NodeName
			}
			want := map[string]string{own.UID: "node1"}
			if c.found {
				want[second.UID] = "node2"
			}
			require.Equal(t, want, nodes)
			read, err := w.ReadVMI(t.Context(), contract.ReadVMIInput{VMI: vmi})
			require.NoError(t, err)
			require.Equal(t, found.Pods(), read.Pods())
		})
	}
}

// TestFinalizersWaitForAllPods: an instance's finalizers wait for all of its pods, whichever ends first.
func TestFinalizersWaitForAllPods(t *testing.T) {
	w := newWorld(t)
	vmi, first, _ := w.running(t)
	second := w.another(t, vmi, func(*corev1.Pod) {})
	release := func(known ...contract.Object) contract.PatchVMIResult {
		out, err := w.PatchVMI(t.Context(), contract.PatchVMIInput{VMI: vmi, Finalizers: &[]string{}, Known: known,
			ResourceVersion: w.there(t, "web").ResourceVersion})
		require.NoError(t, err)
		return out
	}
	for ended, left := range map[string]contract.Object{first.Name: second, second.Name: first} {
		w.podIs(t, ended, corev1.PodSucceeded)
		out := release()
		require.NotEmpty(t, out.Refused)
		require.Equal(t, left.UID, out.Pod.UID)
		require.NotEmpty(t, w.there(t, "web").Finalizers)
		w.podIs(t, ended, corev1.PodRunning)
	}

	// A pod that has lost its labels looks gone to everybody who selects by them.
	w.podIs(t, first.Name, corev1.PodSucceeded)
	_, err := fakekube.Edit(w.fake, w.ns, second.Name, "", func(p *corev1.Pod) { p.Labels = nil })
	require.NoError(t, err)
	out := release(second)
	require.NotEmpty(t, out.Refused)
	require.Equal(t, second.UID, out.Pod.UID)

	w.podIs(t, second.Name, corev1.PodFailed)
	require.True(t, release(second).Written)
	require.Empty(t, w.there(t, "web").Finalizers)
}

// TestListsNoDepartedPod: a status lists the pods that there are.
func TestListsNoDepartedPod(t *testing.T) {
	w := newWorld(t)
	_, vmi := w.machine(t)
	version := w.there(t, "web").ResourceVersion
	write := func(pods map[string]string, left ...string) []string {
		out, err := w.PatchVMI(t.Context(), contract.PatchVMIInput{VMI: vmi, ResourceVersion: version, LeftPods: left,
			Status: &contract.VMIStatus{Phase: "Running", ActivePods: pods}})
		require.NoError(t, err)
		require.True(t, out.Written)
		version = out.Current.ResourceVersion
		return out.Current.ActivePods
	}
	require.Equal(t, []string{"a", "b"}, write(map[string]string{"a": "node1", "b": "node2"}))
	require.Equal(t, []string{"b"}, write(map[string]string{"b": "node2"}, "a"))
	require.Equal(t, []string{"b", "c"}, write(map[string]string{"b": "node2", "c": "node3"}, "a"))
	require.Empty(t, write(nil, "b", "c"))
}

// TestAMigrationsPodIsNotTakenForTheFirst: no guest is booted in it.
func TestAMigrationsPodIsNotTakenForTheFirst(t *testing.T) {
	w := newWorld(t)
	_, vmi := w.machine(t)
	made, err := w.CreateLauncherPod(t.Context(), contract.CreatePodInput{VMI: vmi})
	require.NoError(t, err)
	_, err = fakekube.Edit(w.fake, w.ns, made.Pod.Name, "", func(p *corev1.Pod) {
		p.Labels[contract.LabelMigration] = "job"
	})
	require.NoError(t, err)
	_, err = w.CreateLauncherPod(t.Context(), contract.CreatePodInput{VMI: vmi})
	require.Equal(t, contract.ErrorConflict, errorType(err))
}

// TestMarksEvictedPod: what the instance says at that moment decides about the mark, also after a conflict.
func TestMarksEvictedPod(t *testing.T) {
	w := newWorld(t)
	vmi, pod, _ := w.running(t)
	patch := func(version string) {
		out, err := w.PatchVMI(t.Context(), contract.PatchVMIInput{VMI: vmi, ResourceVersion: version,
			Status: &contract.VMIStatus{Phase: "Running"}, Eviction: &contract.EvictionMark{Pod: pod, Node: "node1"}})
		require.NoError(t, err)
		require.Equal(t, version != "", out.Conflict)
	}
	marked := func() string {
		now, err := w.kubernetes.CoreV1().Pods(w.ns).Get(t.Context(), pod.Name, metav1.GetOptions{})
		require.NoError(t, err)
		return now.Annotations[contract.AnnotationEvictionInProgress]
	}
	request := func(node string) {
		_, err := fakekube.Edit(w.fake, w.ns, vmi.Name, "", func(v *kubevirt.VirtualMachineInstance) {
			v.Status.EvacuationNodeName = node
		})
		require.NoError(t, err)
	}
	request("node1")
	w.fake.Calls()
	patch("")
	w.calls(t, "PATCH virtualmachineinstances", "PATCH pods")
	require.Equal(t, "kubevirt", marked())
	patch("1")
	require.Equal(t, "kubevirt", marked())
	request("")
	patch("1")
	require.Empty(t, marked())
	request("node2")
	patch("")
	require.Empty(t, marked(), "the guest is to leave another node")
	pod.UID = "earlier"
	request("node1")
	patch("")
	require.Empty(t, marked(), "it is another pod of that name")
}
