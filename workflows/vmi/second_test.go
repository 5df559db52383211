package vmi_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/testsuite/cluster"
	"github.com/virtflow/virtflow/testsuite/kube"
)

const second = "virt-launcher-web-second"

// addSecond makes another pod of the instance, as a migration does.
func (w *world) addSecond(t *testing.T) {
	t.Helper()
	uid := w.VMI().UID
	_, err := kube.Put(w.Kube, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cluster.Namespace, Name: second,
			Labels: map[string]string{contract.LabelLauncher: contract.LabelLauncherValue,
				contract.LabelCreatedBy: uid, contract.LabelMigration: job.UID},
			Annotations: map[string]string{contract.AnnotationMigrationName: job.Name},
			Finalizers:  []string{contract.FinalizerPod},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(
				&metav1.ObjectMeta{Name: cluster.Name, UID: types.UID(uid)},
				kubevirt.VirtualMachineInstanceGroupVersionKind)},
		},
		Spec: corev1.PodSpec{NodeName: "node2", Containers: []corev1.Container{{Name: "compute", Image: "launcher"}}},
	})
	require.NoError(t, err)
	w.secondIs(t, corev1.PodRunning)
}

func (w *world) secondIs(t *testing.T, phase corev1.PodPhase) {
	t.Helper()
	_, err := kube.Edit(w.Kube, cluster.Namespace, second, "status", func(p *corev1.Pod) {
		p.Status.Phase = phase
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "compute", Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		if phase != corev1.PodRunning {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
		}
	})
	require.NoError(t, err)
}

func (w *world) second() *corev1.Pod { return kube.Get[corev1.Pod](w.Kube, cluster.Namespace, second) }

// active returns the pods in the instance's status, with their nodes.
func (w *world) active() map[string]string {
	out := map[string]string{}
	vmi := kube.Get[kubevirt.VirtualMachineInstance](w.Kube, cluster.Namespace, cluster.Name)
	for uid, node := range vmi.Status.ActivePods {
		out[string(uid)] = node
	}
	return out
}

// TestSecondPodIsListedUntilItEnds: nothing is started in it, and its end is not the guest's.
func TestSecondPodIsListedUntilItEnds(t *testing.T) {
	w := newWorld(t)
	w.boot()
	own := ""
	w.at(10*time.Second, func() {
		own = w.Pod().UID
		w.addSecond(t)
	})
	w.at(20*time.Second, func() {
		require.Equal(t, map[string]string{own: cluster.NodeName, string(w.second().UID): "node2"}, w.active())
		require.Equal(t, cluster.NodeName, w.VMIStatus.NodeName)
		require.Empty(t, w.second().Status.Conditions, "its readiness gate stays shut: the guest is elsewhere")
		w.secondIs(t, corev1.PodFailed)
	})
	w.at(30*time.Second, func() {
		require.Empty(t, w.second().Finalizers)
		require.NoError(t, kube.Remove[corev1.Pod](w.Kube, cluster.Namespace, second, new(int64)))
	})
	w.at(40*time.Second, func() {
		require.Equal(t, map[string]string{own: cluster.NodeName}, w.active(), "it has left")
		require.Equal(t, "Running", w.VMIStatus.Phase)
		w.DeleteVMI()
	})
	w.at(50*time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
	require.Equal(t, 1, w.DomainsStarted)
	require.Equal(t, 1, w.Count(contract.ActivityMarkPod))
}

// TestIgnoresForeignNodeNameInStatus: the pod that the entity made is the instance's, wherever it runs.
func TestIgnoresForeignNodeNameInStatus(t *testing.T) {
	w := newWorld(t)
	w.at(0, func() {
		w.CreateVMI(func(vmi *kubevirt.VirtualMachineInstance) { vmi.Status.NodeName = "elsewhere" })
	})
	w.at(time.Second, w.RunPod)
	w.at(10*time.Second, func() {
		require.Equal(t, "Running", w.VMIStatus.Phase)
		require.Equal(t, 1, w.Count(contract.ActivityCreatePod))
		w.DeleteVMI()
	})
	w.at(11*time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
	w.run(t)
}

// All pods of an instance are deleted, and the entity waits for each, whether it was observed or not.
func TestDeletesAllPodsOfInstance(t *testing.T) {
	for name, unseen := range map[string]bool{"seen": false, "not seen": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.boot()
			w.at(10*time.Second, func() {
				if unseen {
					w.Unseen(func() { w.addSecond(t) })
				} else {
					w.addSecond(t)
				}
			})
			w.at(20*time.Second, w.DeleteVMI)
			w.at(30*time.Second, func() { w.EndPod(contract.ReasonShutdown, true, 0) })
			w.at(40*time.Second, func() {
				require.Nil(t, w.Pod())
				require.NotNil(t, w.VMI(), "its other pod may run")
				require.NotNil(t, w.second().DeletionTimestamp)
				require.NotEmpty(t, w.second().Finalizers)
				w.secondIs(t, corev1.PodFailed)
			})
			w.run(t)
			require.Nil(t, w.second())
			require.Equal(t, "Succeeded", w.VMIStatus.Phase, "as its guest ended")
		})
	}
}

// A new entity distinguishes the two pods, also where the second one is observed first.
func TestNewEntityDistinguishesPods(t *testing.T) {
	for name, at := range map[string]string{"before the move": cluster.NodeName, "after it": "node2"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.at(0, func() {
				w.Unseen(func() {
					w.runs(func(vmi *kubevirt.VirtualMachineInstance) {
						vmi.Status.Phase, vmi.Status.NodeName = kubevirt.Running, at
					})
					w.addSecond(t)
				})
				w.SendAll()
			})
			w.at(10*time.Second, func() {
				s := w.state(t)
				require.Equal(t, at, s.Pod.NodeName)
				require.Len(t, s.Others, 1)
				gates := []string{w.Pod().Unpaused, observe.Pod(w.second()).Unpaused}
				if at == "node2" {
					slices.Reverse(gates)
				}
				require.Equal(t, []string{"True", ""}, gates, "only that of the guest's pod is open")
				w.DeleteVMI()
				w.EndPod(contract.ReasonShutdown, true, 0)
				w.secondIs(t, corev1.PodFailed)
			})
			w.run(t)
		})
	}
}
