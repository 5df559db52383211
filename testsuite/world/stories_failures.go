package world

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// Failures are stories of what users have to mend, told without further faults: what is shown meanwhile is what
// KubeVirt shows, with the reason, and once the cause is mended the VM runs by itself.
func Failures() []Scenario {
	return append([]Scenario{
		{Name: "image-absent", Story: func(w *World) {
			w.NoImage = true
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			w.shows(kubevirt.VirtualMachineStatusErrImagePull, "Synchronized", "ErrImagePull", "no such image")
			w.shows(kubevirt.VirtualMachineStatusImagePullBackOff, "Synchronized", "ImagePullBackOff", "no such image")
			w.NoImage = false
		}, Want: ranOnce},
		{Name: "nothing-of-its-kind-on-any-node", Story: func(w *World) {
			m := Machine(vm, kubevirt.RunStrategyAlways)
			m.Spec.Template.Spec.NodeSelector = map[string]string{"has": "what-is-asked-for"}
			w.Create(m)
			w.shows(kubevirt.VirtualMachineStatusUnschedulable, "PodScheduled", "Unschedulable", "0/2 nodes")
			_, _ = kube.Edit(w.Kube, "", "node2", "", func(n *corev1.Node) { n.Labels["has"] = "what-is-asked-for" })
		}, Want: ranOnce},
		{Name: "claim-being-deleted", Story: func(w *World) {
			w.CreateClaim()
			w.BindClaim()
			w.leaveClaim(true)
			w.Create(onClaim())
			w.shows(kubevirt.VirtualMachineStatusUnschedulable, "PodScheduled", "Unschedulable", "is being deleted")
			w.leaveClaim(false)
			w.Until(time.Minute, func() bool {
				return kube.Get[corev1.PersistentVolumeClaim](w.Kube, Namespace, claim) == nil
			})
			w.CreateClaim()
			w.BindClaim()
		}, Want: keeps},
		{Name: "quota-exceeded", Story: func(w *World) {
			w.limitPods(0)
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			w.shows(kubevirt.VirtualMachineStatusStarting, "Synchronized", "FailedCreate", "exceeded quota: pods, "+
				"requested: pods=1, used: pods=0, limited: pods=0")
			w.limitPods(1)
		}, Want: ranOnce},
		{Name: "tap-fails", Story: func(w *World) {
			w.NoTap = "pod link (eth0) is missing"
			w.Create(Machine(vm, kubevirt.RunStrategyAlways))
			w.shows(kubevirt.VirtualMachineStatusStarting, "Synchronized", "Synchronizing with the Domain failed.",
				"preparing the pod's network: pod link (eth0) is missing")
			w.NoTap = ""
		}, Want: ranOnce},
		{Name: "domain-refused", Options: Options{Guests: map[string]Guest{key: {Refused: "no such machine type"}}},
			Story: func(w *World) {
				w.Create(Machine(vm, kubevirt.RunStrategyAlways))
				w.shows(kubevirt.VirtualMachineStatusCrashLoopBackOff, "", "", "")
				w.reasonShown("no such machine type")
				w.Guests = nil
			}, Want: runs(vm)},
	}, outages()...)
}

// limitPods gives the namespace room for so many pods.
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

// leaveClaim deletes the claim, which stays for as long as its finalizer does: another pod has it.
func (w *World) leaveClaim(inUse bool) {
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

// shows waits until the VM has a printable status, and a condition of its own that is False with a reason and a
// message.
func (w *World) shows(status kubevirt.VirtualMachinePrintableStatus, kind, reason, message string) {
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
		w.breakf("VM %s does not become %s, %s %s %q%s", vm, status, kind, reason, message, w.state())
	}
}

// reasonShown waits until somebody who looks at the VM or its instance can read why.
func (w *World) reasonShown(why string) {
	if !w.Until(10*time.Minute, func() bool { return strings.Contains(w.state(), why) }) {
		w.breakf("nothing says %q%s", why, w.state())
	}
}

// ranOnce wants the VM to run in its first domain: what was waited for needed no other instance.
func ranOnce(w *World) error {
	if w.Started[key] != 1 {
		return fmt.Errorf("VM %s has had %d domains so far", vm, w.Started[key])
	}
	return runs(vm)(w)
}

// pullAgain is how long a kubelet waits until it looks for an image again.
const pullAgain = 30 * time.Second

// pulls says why a pod's container does not run: its image is absent. It is looked for again and again.
func (h *host) pulls(box *sandbox, attempt int, up func()) {
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
	h.world.after(pullAgain, func() { h.pulls(box, attempt+1, up) })
}
