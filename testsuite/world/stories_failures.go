package world

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// Failures returns stories of what users have to repair, played without further faults: the status meanwhile is
// KubeVirt's, with the reason, and once the cause is repaired the VM runs by itself.
func Failures() []Scenario {
	return append([]Scenario{
		{Name: "image-absent", Story: func(w *World) {
			w.NoImage = true
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			w.waitForCondition(kubevirt.VirtualMachineStatusErrImagePull, "Synchronized",
				"ErrImagePull", "no such image")
			w.waitForCondition(kubevirt.VirtualMachineStatusImagePullBackOff, "Synchronized",
				"ImagePullBackOff", "no such image")
			w.NoImage = false
		}, Want: ranOnce},
		{Name: "secret-absent", Story: func(w *World) {
			w.NoSecret = true
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			w.waitForCondition(kubevirt.VirtualMachineStatusStarting, "Synchronized",
				"FailedMount", absentSecret)
			w.NoSecret = false
		}, Want: ranOnce},
		{Name: "nothing-of-its-kind-on-any-node", Story: func(w *World) {
			m := Machine(vm, kubevirt.RunStrategyAlways)
			m.Spec.Template.Spec.NodeSelector = map[string]string{"has": "what-is-asked-for"}
			w.Create(m)
			w.waitForCondition(kubevirt.VirtualMachineStatusUnschedulable, "PodScheduled",
				"Unschedulable", "0/2 nodes")
			_, _ = kube.Edit(w.Kube, "", "node2", "", func(n *corev1.Node) { n.Labels["has"] = "what-is-asked-for" })
		}, Want: ranOnce},
		{Name: "claim-being-deleted", Story: func(w *World) {
			w.CreateClaim()
			w.BindClaim()
			w.deleteClaim(true)
			w.Create(withClaim())
			w.waitForCondition(kubevirt.VirtualMachineStatusUnschedulable, "PodScheduled",
				"Unschedulable", "is being deleted")
			w.deleteClaim(false)
			w.Until(time.Minute, func() bool {
				return kube.Get[corev1.PersistentVolumeClaim](w.Kube, Namespace, claim) == nil
			})
			w.CreateClaim()
			w.BindClaim()
		}, Want: runsWithClaimInStatus},
		{Name: "quota-exceeded", Story: func(w *World) {
			w.limitPods(0)
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			w.waitForCondition(kubevirt.VirtualMachineStatusStarting, "Synchronized",
				"FailedCreate", "exceeded quota: pods, "+
					"requested: pods=1, used: pods=0, limited: pods=0")
			w.limitPods(1)
		}, Want: ranOnce},
		{Name: "tap-fails", Story: func(w *World) {
			w.NoTap = "pod link (eth0) is missing"
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			w.waitForCondition(kubevirt.VirtualMachineStatusStarting, "Synchronized",
				"Synchronizing with the Domain failed.",
				"preparing the pod's network: pod link (eth0) is missing")
			w.NoTap = ""
		}, Want: ranOnce},
		{Name: "domain-refused", Options: Options{Guests: map[string]Guest{key: {Refused: "no such machine type"}}},
			Story: func(w *World) {
				w.Create(Machine(vm, kubevirt.RunStrategyAlways))
				w.waitForCondition(kubevirt.VirtualMachineStatusCrashLoopBackOff, "", "", "")
				w.waitForReason("no such machine type")
				w.Guests = nil
			}, Want: wantRunning(vm)},
		{Name: "guest-ends-at-once", Options: Options{Guests: map[string]Guest{key: {PanicsAfter: time.Second}}},
			Story: func(w *World) {
				w.Create(Machine(vm, kubevirt.RunStrategyAlways))
				w.waitForCondition(kubevirt.VirtualMachineStatusCrashLoopBackOff, "", "", "")
				w.Sleep(80 * time.Minute) // launcherCreated counts
				w.Guests = nil
			}, Want: wantRunning(vm)},
	}, outages()...)
}

// limitPods sets the namespace's quota of pods.
func (w *World) limitPods(n int64) {
	defer w.requested()
	hard := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(n, resource.DecimalSI)}
	if kube.Get[corev1.ResourceQuota](w.Kube, Namespace, "pods") != nil {
		_, _ = kube.Edit(w.Kube, Namespace, "pods", "", func(q *corev1.ResourceQuota) { q.Spec.Hard = hard })
		return
	}
	_, _ = kube.Put(w.Kube, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "pods"},
		Spec: corev1.ResourceQuotaSpec{Hard: hard}})
}

// deleteClaim deletes the PVC. While it is in use by another pod, a finalizer keeps it.
func (w *World) deleteClaim(inUse bool) {
	defer w.requested()
	_, _ = kube.Edit(w.Kube, Namespace, claim, "", func(c *corev1.PersistentVolumeClaim) {
		c.Finalizers = nil
		if inUse {
			c.Finalizers = []string{"kubernetes.io/pvc-protection"}
		}
	})
	if inUse {
		_ = kube.Remove[corev1.PersistentVolumeClaim](w.Kube, Namespace, claim, nil)
	}
}

// waitForCondition waits until the VM has a printable status, and a condition that is False with this reason and
// message.
func (w *World) waitForCondition(status kubevirt.VirtualMachinePrintableStatus, kind, reason, message string) {
	holds := func() bool {
		v := w.VM(vm)
		if v == nil || v.Status.PrintableStatus != status {
			return false
		}
		for _, c := range v.Status.Conditions {
			if string(c.Type) == kind && c.Status == corev1.ConditionFalse && c.Reason == reason &&
				strings.Contains(c.Message, message) {
				return true
			}
		}
		return kind == ""
	}
	if !w.Until(10*time.Minute, holds) {
		w.breakf("VM %s does not reach %s, %s %s %q%s", vm, status, kind, reason, message, w.state())
	}
}

// waitForReason waits until the VM or its instance has the reason in a condition.
func (w *World) waitForReason(why string) {
	if !w.Until(10*time.Minute, func() bool { return strings.Contains(w.state(), why) }) {
		w.breakf("no condition has %q%s", why, w.state())
	}
}

// ranOnce wants the VM to run in its first domain: no second instance was needed.
func ranOnce(w *World) error {
	if w.Started[key] != 1 {
		return fmt.Errorf("VM %s has had %d domains so far", vm, w.Started[key])
	}
	return wantRunning(vm)(w)
}

// pullAgain is a kubelet's back-off before it pulls an image again.
const pullAgain = 30 * time.Second

// absentSecret is a kubelet's warning where a Secret does not exist.
const absentSecret = `MountVolume.SetUp failed for volume "app": secret "app" not found`

// waitForSecret waits for the Secret that a pod mounts. The kubelet reports an absent one in an event, not in the pod's
// status.
func (h *host) waitForSecret(box *sandbox, up func()) {
	if !h.world.NoSecret {
		up()
		return
	}
	_, _ = kube.Put(h.world.Kube, &corev1.Event{ // it may exist
		ObjectMeta: metav1.ObjectMeta{Namespace: box.namespace, Name: box.name + ".mount"},
		Type:       corev1.EventTypeWarning, Reason: "FailedMount", Message: absentSecret,
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: box.namespace, Name: box.name,
			UID: types.UID(box.uid)},
	})
	h.world.after(pullAgain, func() { h.waitForSecret(box, up) })
}

// failPull writes that the image cannot be pulled, which the kubelet tries again and again.
func (h *host) failPull(box *sandbox, attempt int, up func()) {
	if !h.world.NoImage {
		up()
		return
	}
	reason := "ErrImagePull"
	if attempt%2 == 1 {
		reason = "ImagePullBackOff"
	}
	h.update(box, func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: observe.ComputeContainer,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: reason, Message: "no such image"}}}}
	})
	h.world.after(pullAgain, func() { h.failPull(box, attempt+1, up) })
}
