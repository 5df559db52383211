package cluster_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/settings"
	fakekube "github.com/virtflow/virtflow/testsuite/kube"
)

// moving is an instance that runs on node1, with a migration.
func (w *world) moving(t *testing.T) contract.CreateTargetPodInput {
	t.Helper()
	vmi, pod, _ := w.running(t)
	_, err := w.kubernetes.CoreV1().Nodes().Create(t.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	w.vmiIs(t, func(v *kubevirt.VirtualMachineInstance) {
		v.Status.Phase, v.Status.NodeName = kubevirt.Running, "node1"
	})
	in := contract.CreateTargetPodInput{VMI: vmi, Source: pod,
		Migration: w.migration(t, "move", func(m *kubevirt.VirtualMachineInstanceMigration) {
			m.Spec.AddedNodeSelector = map[string]string{"zone": "b"}
		})}
	w.fake.Calls()
	return in
}

func (w *world) vmiIs(t *testing.T, change func(*kubevirt.VirtualMachineInstance)) {
	t.Helper()
	_, err := fakekube.Edit(w.fake, w.ns, "web", "", change)
	require.NoError(t, err)
}

func (w *world) phaseIs(t *testing.T, phase kubevirt.VirtualMachineInstanceMigrationPhase) {
	t.Helper()
	_, err := fakekube.Edit(w.fake, w.ns, "move", "status", func(m *kubevirt.VirtualMachineInstanceMigration) {
		m.Status.Phase = phase
	})
	require.NoError(t, err)
}

// events returns the events of migrations.
func (w *world) events(t *testing.T, reason string) []string {
	t.Helper()
	return w.eventsBy(t, "virtualmachine-controller", "VirtualMachineInstanceMigration", reason)
}

func (w *world) eventsBy(t *testing.T, component, kind, reason string) []string {
	t.Helper()
	list, err := w.kubernetes.CoreV1().Events(w.ns).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var out []string
	for _, e := range list.Items {
		if e.Reason == reason && e.InvolvedObject.Kind == kind {
			require.Equal(t, "kubevirt.io/v1", e.InvolvedObject.APIVersion)
			require.Equal(t, component, e.Source.Component)
			out = append(out, e.Message)
		}
	}
	return out
}

// TestTargetHasCurrentCPULimit: a migration applies the setting of autoCPULimitNamespaceLabelSelector again.
func TestTargetHasCurrentCPULimit(t *testing.T) {
	w := newWorld(t)
	in := w.moving(t)
	source, err := w.kubernetes.CoreV1().Pods(w.ns).Get(t.Context(), in.Source.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.True(t, source.Spec.Containers[0].Resources.Limits.Cpu().IsZero())
	w.Settings = func() settings.Settings {
		s := settings.Default()
		s.UseEmulation = true
		s.Configuration.AutoCPULimitNamespaceLabelSelector = &metav1.LabelSelector{}
		return s
	}
	out, err := w.CreateTargetPod(t.Context(), in)
	require.NoError(t, err)
	target, err := w.kubernetes.CoreV1().Pods(w.ns).Get(t.Context(), out.Pod.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.False(t, target.Spec.Containers[0].Resources.Limits.Cpu().IsZero())
}

// TestCreatesTargetOnce: the target pod is created once, however often it is requested.
func TestCreatesTargetOnce(t *testing.T) {
	w := newWorld(t)
	in := w.moving(t)
	in.PreferNode = "node3"
	out, err := w.CreateTargetPod(t.Context(), in)
	require.NoError(t, err)
	w.calls(t, "GET virtualmachineinstancemigrations", "GET virtualmachineinstances", "GET pods", "GET nodes",
		"POST pods", "POST events")
	require.Equal(t, in.Migration.UID, out.Pod.Migration)
	require.Equal(t, in.VMI.UID, out.Pod.VMIUID)
	require.Equal(t, []string{"Created migration target pod " + out.Pod.Name}, w.events(t, "SuccessfulCreate"))
	pod, err := w.kubernetes.CoreV1().Pods(w.ns).Get(t.Context(), out.Pod.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "move", pod.Annotations[contract.AnnotationMigrationName])
	require.Equal(t, "b", pod.Spec.NodeSelector["zone"])
	again, err := w.again(t).CreateTargetPod(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, out.Pod.UID, again.Pod.UID)

	// It has run, and is found; once it is gone there is no other.
	w.phaseIs(t, kubevirt.MigrationRunning)
	again, err = w.CreateTargetPod(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, out.Pod.UID, again.Pod.UID)
	_, err = fakekube.Edit(w.fake, w.ns, out.Pod.Name, "", func(p *corev1.Pod) { p.Finalizers = nil })
	require.NoError(t, err)
	require.NoError(t, w.kubernetes.CoreV1().Pods(w.ns).
		Delete(t.Context(), out.Pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	again, err = w.CreateTargetPod(t.Context(), in)
	require.NoError(t, err)
	require.Contains(t, again.Refused, "its target's pod is gone")
}

// TestUnrequestedTargetIsNotMade.
func TestUnrequestedTargetIsNotMade(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *world, *contract.CreateTargetPodInput)
		why    string
	}{
		"the migration is another one": {func(_ *testing.T, _ *world, in *contract.CreateTargetPodInput) {
			in.Migration.UID = "other"
		}, "the migration does not exist"},
		"the migration is being deleted": {func(t *testing.T, w *world, _ *contract.CreateTargetPodInput) {
			require.NoError(t, w.kubevirt.Migrations(w.ns).Delete(t.Context(), "move", metav1.DeleteOptions{}))
		}, "the migration is being deleted"},
		"the migration has failed": {func(t *testing.T, w *world, _ *contract.CreateTargetPodInput) {
			w.phaseIs(t, kubevirt.MigrationFailed)
		}, "the migration has ended"},
		"the VMI is another one": {func(_ *testing.T, _ *world, in *contract.CreateTargetPodInput) {
			in.VMI.UID = "other"
		}, "does not exist"},
		"the VMI is being deleted": {func(t *testing.T, w *world, _ *contract.CreateTargetPodInput) {
			require.NoError(t, w.kubevirt.VMIs(w.ns).Delete(t.Context(), "web", metav1.DeleteOptions{}))
		}, "being deleted"},
		"the VMI has ended": {func(t *testing.T, w *world, _ *contract.CreateTargetPodInput) {
			w.vmiIs(t, func(v *kubevirt.VirtualMachineInstance) { v.Status.Phase = kubevirt.Succeeded })
		}, "has ended"},
		"the source has ended": {func(t *testing.T, w *world, in *contract.CreateTargetPodInput) {
			w.podIs(t, in.Source.Name, corev1.PodFailed)
		}, "the pod that the guest was in has ended"},
		"it would bring no newer launcher": {func(t *testing.T, w *world, _ *contract.CreateTargetPodInput) {
			_, err := fakekube.Edit(w.fake, w.ns, "move", "", func(m *kubevirt.VirtualMachineInstanceMigration) {
				m.Annotations = map[string]string{contract.AnnotationWorkloadUpdate: ""}
			})
			require.NoError(t, err)
		}, "of the image already that this control worker gives"},
		"the source is another one": {func(_ *testing.T, _ *world, in *contract.CreateTargetPodInput) {
			in.Source.UID = "other"
		}, "does not exist"},
		"the source is another's": {func(t *testing.T, w *world, in *contract.CreateTargetPodInput) {
			pod, err := w.kubernetes.CoreV1().Pods(w.ns).Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "x"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}}},
				metav1.CreateOptions{})
			require.NoError(t, err)
			in.Source = contract.Object{Namespace: w.ns, Name: "x", UID: string(pod.UID)}
		}, "does not belong"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			in := w.moving(t)
			c.change(t, w, &in)
			w.fake.Calls()
			out, err := w.CreateTargetPod(t.Context(), in)
			require.NoError(t, err)
			require.Contains(t, out.Refused, c.why)
			require.NotContains(t, w.fake.Calls(), "POST pods")
		})
	}
}

// TestNoTargetOfAnotherRelease: its migration ends, and holds up no other.
func TestNoTargetOfAnotherRelease(t *testing.T) {
	w := newWorld(t)
	in := w.moving(t)
	_, err := fakekube.Edit(w.fake, w.ns, "move", "", func(m *kubevirt.VirtualMachineInstanceMigration) {
		m.Annotations = map[string]string{contract.AnnotationWorkloadUpdate: "",
			contract.AnnotationLauncherImage: "localhost/virtflow/launcher:another"}
	})
	require.NoError(t, err)
	w.fake.Calls()
	_, err = w.CreateTargetPod(t.Context(), in)
	require.Equal(t, contract.ErrorOtherLauncher, errorType(err))
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.True(t, app.NonRetryable())
	require.ErrorContains(t, err, "is to bring a launcher of the image localhost/virtflow/launcher:another")
	require.NotContains(t, w.fake.Calls(), "POST pods")
}

// TestRefusedTargetIsReported: a quota may have room later, and a pod of its name is not taken for it.
func TestRefusedTargetIsReported(t *testing.T) {
	w := newWorld(t)
	in := w.moving(t)
	refuse := func(message string) {
		w.fake.Intercept(func(r fakekube.Request) *fakekube.Fault {
			if r.Call() != "POST pods" || message == "" {
				return nil
			}
			return &fakekube.Fault{Status: &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden,
				Reason: metav1.StatusReasonForbidden, Message: message}}
		})
	}
	refuse("pods \"x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1")
	for range 2 {
		out, err := w.CreateTargetPod(t.Context(), in)
		require.NoError(t, err)
		require.Contains(t, out.Quota, "exceeded quota: few")
		require.Empty(t, out.Pod.UID)
	}
	require.Len(t, w.events(t, "FailedCreate"), 1)
	refuse("violates PodSecurity")
	_, err := w.CreateTargetPod(t.Context(), in)
	require.Equal(t, contract.ErrorForbidden, errorType(err))
	require.Len(t, w.events(t, "FailedCreate"), 2)

	refuse("")
	out, err := w.CreateTargetPod(t.Context(), in)
	require.NoError(t, err)
	_, err = fakekube.Edit(w.fake, w.ns, out.Pod.Name, "", func(p *corev1.Pod) {
		p.Labels[contract.LabelMigration] = "another"
	})
	require.NoError(t, err)
	_, err = w.CreateTargetPod(t.Context(), in)
	require.Equal(t, contract.ErrorConflict, errorType(err))
	require.NoError(t, w.kubernetes.CoreV1().Nodes().Delete(t.Context(), "node1", metav1.DeleteOptions{}))
	_, err = w.CreateTargetPod(t.Context(), in)
	require.Equal(t, contract.ErrorInvalid, errorType(err))
}

// TestKeepsPodWithGuest: it is where the VMI's status says, until it has ended, or the VMI has.
func TestKeepsPodWithGuest(t *testing.T) {
	const source, target = "source", "target"
	on := func(node string) func(*testing.T, *world) {
		return func(t *testing.T, w *world) {
			w.vmiIs(t, func(v *kubevirt.VirtualMachineInstance) { v.Status.NodeName = node })
		}
	}
	for name, c := range map[string]struct {
		pod     string
		change  func(*testing.T, *world)
		refused string
	}{
		"the source's, before it was moved": {source, on("node1"), "the guest is on node node1 now"},
		"the target's, before it was moved": {target, on("node1"), ""},
		"the source's, when it was moved":   {source, on("node2"), ""},
		"the target's, when it was moved":   {target, on("node2"), "the guest is on node node2 now"},
		"the source's, the node not known":  {source, on(""), "does not say where"},
		"the target's, the node not known":  {target, on(""), ""},
		"the source's, and the VMI has ended": {source, func(t *testing.T, w *world) {
			w.vmiIs(t, func(v *kubevirt.VirtualMachineInstance) { v.Status.Phase = kubevirt.Failed })
		}, ""},
		"the source's, and the VMI shuts down": {source, func(t *testing.T, w *world) {
			require.NoError(t, w.kubevirt.VMIs(w.ns).Delete(t.Context(), "web", metav1.DeleteOptions{}))
		}, "the guest is on node node1 now"},
		"the source's, and it has ended": {source, func(t *testing.T, w *world) {
			list, err := w.kubernetes.CoreV1().Pods(w.ns).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			for _, p := range list.Items {
				w.podIs(t, p.Name, corev1.PodSucceeded)
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			made := w.moving(t)
			in := contract.DeleteMigrationPodInput{VMI: made.VMI, Migration: made.Migration, Pod: made.Source}
			targetPod := w.another(t, made.VMI, func(p *corev1.Pod) {
				p.Labels[contract.LabelMigration] = made.Migration.UID
			})
			if c.pod == target {
				in.Pod = targetPod
			}
			c.change(t, w)
			out, err := w.DeleteMigrationPod(t.Context(), in)
			require.NoError(t, err)
			pod, err := w.kubernetes.CoreV1().Pods(w.ns).Get(t.Context(), in.Pod.Name, metav1.GetOptions{})
			require.NoError(t, err)
			if c.refused != "" {
				require.Contains(t, out.Refused, c.refused)
				require.Equal(t, made.VMI.UID, out.VMI.UID)
				require.Nil(t, pod.DeletionTimestamp)
				return
			}
			require.Equal(t, contract.DeleteMigrationPodResult{}, out)
			require.NotNil(t, pod.DeletionTimestamp, "its finalizer keeps the record")
			require.Equal(t, []string{"Deleted migration " + c.pod + " pod " + in.Pod.Name},
				w.events(t, "SuccessfulDelete"))
			out, err = w.DeleteMigrationPod(t.Context(), in)
			require.NoError(t, err)
			require.Empty(t, out.Refused)
		})
	}
}

// TestAnOrphanedPod: a pod of a migration is deleted once the migration no longer exists.
func TestAnOrphanedPod(t *testing.T) {
	w := newWorld(t)
	made := w.moving(t)
	pod := w.another(t, made.VMI, func(p *corev1.Pod) { p.Labels[contract.LabelMigration] = made.Migration.UID })
	in := contract.DeleteMigrationPodInput{VMI: made.VMI, Migration: made.Migration, Pod: pod, Orphaned: true}
	deleted := func() bool {
		p, err := w.kubernetes.CoreV1().Pods(w.ns).Get(t.Context(), pod.Name, metav1.GetOptions{})
		require.NoError(t, err)
		return p.DeletionTimestamp != nil
	}
	out, err := w.DeleteMigrationPod(t.Context(), in)
	require.NoError(t, err)
	require.Contains(t, out.Refused, "is there, and sees to it")
	require.False(t, deleted())

	in.Migration.UID = "another"
	out, err = w.DeleteMigrationPod(t.Context(), in)
	require.NoError(t, err)
	require.Empty(t, out.Refused)
	require.True(t, deleted())
}

// TestDeletesEndedPodAtOnce: an ended pod is deleted at once, unless it has changed since it was observed: then its
// finalizer keeps the record until its end is observed.
func TestDeletesEndedPodAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, *world, string)
		want   contract.DeleteMigrationPodResult
		calls  []string
		gone   bool
	}{
		"as it was seen": {
			want: contract.DeleteMigrationPodResult{Released: true}, gone: true,
			calls: []string{"PATCH pods", "DELETE pods", "POST events"},
		},
		"it has changed": {
			change: func(t *testing.T, w *world, pod string) { w.podIs(t, pod, corev1.PodFailed) },
			calls:  []string{"PATCH pods", "GET pods", "DELETE pods", "POST events"},
		},
		"another finalizer keeps it": {
			change: func(t *testing.T, w *world, pod string) {
				_, err := fakekube.Edit(w.fake, w.ns, pod, "", func(p *corev1.Pod) {
					p.Finalizers = append(p.Finalizers, "example.com/kept")
				})
				require.NoError(t, err)
			},
			calls: []string{"PATCH pods", "GET pods", "DELETE pods", "POST events"},
		},
		"another client has deleted it": {
			change: func(t *testing.T, w *world, pod string) {
				_, err := fakekube.Edit(w.fake, w.ns, pod, "", func(p *corev1.Pod) { p.Finalizers = nil })
				require.NoError(t, err)
				require.NoError(t, w.kubernetes.CoreV1().Pods(w.ns).Delete(t.Context(), pod, metav1.DeleteOptions{}))
			},
			want: contract.DeleteMigrationPodResult{Absent: true}, gone: true,
			calls: []string{"PATCH pods"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			made := w.moving(t)
			in := contract.DeleteMigrationPodInput{VMI: made.VMI, Migration: made.Migration, Pod: made.Source}
			w.podIs(t, in.Pod.Name, corev1.PodSucceeded)
			pods := w.kubernetes.CoreV1().Pods(w.ns)
			pod, err := pods.Get(t.Context(), in.Pod.Name, metav1.GetOptions{})
			require.NoError(t, err)
			in.ResourceVersion = pod.ResourceVersion
			if c.change != nil {
				c.change(t, w, in.Pod.Name)
			}
			w.fake.Calls()
			out, err := w.DeleteMigrationPod(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, c.want, out)
			require.Equal(t, c.calls, w.fake.Calls())
			_, err = pods.Get(t.Context(), in.Pod.Name, metav1.GetOptions{})
			require.Equal(t, c.gone, apierrors.IsNotFound(err), "%v", err)
		})
	}
}

func TestAPodThatIsGoneNeedsNoDeletion(t *testing.T) {
	w := newWorld(t)
	made := w.moving(t)
	in := contract.DeleteMigrationPodInput{VMI: made.VMI, Migration: made.Migration, Pod: made.Source}
	in.Pod.UID = "other"
	out, err := w.DeleteMigrationPod(t.Context(), in)
	require.NoError(t, err)
	require.True(t, out.Absent)
	in.Pod.Name = "gone"
	out, err = w.DeleteMigrationPod(t.Context(), in)
	require.NoError(t, err)
	require.True(t, out.Absent)
}
