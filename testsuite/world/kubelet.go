package world

import (
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/launcher/lifecycle"
	"github.com/virtflow/virtflow/testsuite/kube"
)

var errNoLauncher = errors.New("no launcher answers")

const (
	kubeletLag  = 17 * time.Millisecond
	containerUp = 600 * time.Millisecond
)

// host simulates a node: a machine, its kubelet, and its node worker.
type host struct {
	world     *World
	name      string
	powered   bool
	connected bool // to the API server and Temporal
	// unsynced: the node is back, and its kubelet has not synced with the API server yet.
	unsynced bool
	// worker: the node worker is up; each start of it has another epoch.
	worker bool
	epoch  int
	pods   map[string]*sandbox // by UID
	// own has the memory of the present run of the worker.
	own *nodeWorker
	// unsuitable is the reason why no guest can be received here that the node worker finds; unfit is the launchers'.
	unsuitable, unfit string
}

// sandbox has the kubelet's state of a pod that it runs.
type sandbox struct {
	namespace, name, uid string
	launcher             *launcher
	stopping             bool
	// lost: the node lost power while the pod ran.
	lost bool
	// exit is how its container ended, once it has.
	exit *corev1.ContainerStateTerminated
}

func (h *host) isAlive() bool { return h.powered && h.connected }

// sync brings one pod to the state that its object asks for.
func (h *host) sync(namespace, name, uid string) {
	if !h.isAlive() || h.unsynced || h.world.missing[PartAPIServer] {
		return
	}
	pod := kube.Get[corev1.Pod](h.world.Kube, namespace, name)
	if pod != nil && string(pod.UID) != uid {
		pod = nil
	}
	box := h.pods[uid]
	switch {
	case pod == nil && box == nil:
	case pod == nil: // force-deleted, or unknown to a restored etcd: the kubelet ends the container
		if l := box.launcher; l != nil && l.running && h.world.delivery.silent {
			h.world.Started[l.key()]--
		}
		h.stop(box, 0)
	case box == nil && ended(pod):
		h.removeDeleted(pod)
	case box == nil && pod.DeletionTimestamp != nil:
		h.end(pod, &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown"})
	case box == nil:
		h.start(pod)
	case box.exit != nil:
		h.end(pod, box.exit)
	case pod.DeletionTimestamp != nil:
		grace := time.Duration(0)
		if s := pod.DeletionGracePeriodSeconds; s != nil {
			grace = time.Duration(*s) * time.Second
		}
		h.stop(box, grace)
	default:
		h.syncReadiness(pod)
	}
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// start runs a pod's container.
func (h *host) start(pod *corev1.Pod) {
	ref := observe.Owner(pod)
	if ref == nil {
		return
	}
	box := &sandbox{namespace: pod.Namespace, name: pod.Name, uid: string(pod.UID)}
	h.pods[box.uid] = box
	grace := 30 * time.Second
	if g := pod.Spec.TerminationGracePeriodSeconds; g != nil {
		grace = time.Duration(*g)*time.Second - 30*time.Second
	}
	up := h.world.PodUp[pod.Namespace+"/"+ref.Name]
	if up == 0 {
		up = containerUp
	}
	h.world.after(up, func() { h.waitForSecret(box, func() { h.failPull(box, 0, func() { h.run(box, ref, grace) }) }) })
}

// run starts the container of a pod that still exists.
func (h *host) run(box *sandbox, of *contract.Object, grace time.Duration) {
	if !h.powered || h.pods[box.uid] != box || box.exit != nil || box.stopping || box.lost {
		return
	}
	box.launcher = &launcher{
		world: h.world, host: h, namespace: box.namespace, vmi: of.Name, vmiUID: of.UID, podUID: box.uid,
		grace: grace, guest: h.world.Guests[box.namespace+"/"+of.Name], machine: lifecycle.New(),
	}
	h.reportRunning(box)
}

// reportRunning writes that a pod's container runs.
func (h *host) reportRunning(box *sandbox) {
	h.update(box, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.9"}}
		p.Status.PodIP = "10.0.0.9"
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: observe.ComputeContainer, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}
		condition(p, corev1.PodReady, corev1.ConditionFalse, "ReadinessGatesNotReady")
	})
}

// syncReadiness writes the condition Ready as the readiness gate asks for.
func (h *host) syncReadiness(pod *corev1.Pod) {
	if pod.Status.Phase != corev1.PodRunning {
		return
	}
	want, reason := corev1.ConditionFalse, "ReadinessGatesNotReady"
	for _, c := range pod.Status.Conditions {
		if c.Type == contract.ConditionUnpaused && c.Status == corev1.ConditionTrue {
			want, reason = corev1.ConditionTrue, ""
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == want {
			return
		}
	}
	h.update(h.pods[string(pod.UID)], func(p *corev1.Pod) { condition(p, corev1.PodReady, want, reason) })
}

// stop ends a pod's container: with SIGTERM first, where there is a grace period.
func (h *host) stop(box *sandbox, grace time.Duration) {
	if box.launcher == nil { // nothing runs yet
		box.stopping = true
		h.ended(box, &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown"})
		return
	}
	if grace == 0 {
		box.stopping = true
		box.launcher.kill()
		h.ended(box, &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"})
		return
	}
	if box.stopping {
		return
	}
	box.stopping = true
	box.launcher.terminate(false)
	h.world.after(grace, func() {
		if box.exit == nil && h.powered {
			box.launcher.kill()
			h.ended(box, &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error"})
		}
	})
}

// exited is called by a launcher that ends.
func (h *host) exited(l *launcher, code int32, message string) {
	if box := h.pods[l.podUID]; box != nil {
		h.ended(box, &corev1.ContainerStateTerminated{ExitCode: code, Message: message})
	}
}

func (h *host) ended(box *sandbox, exit *corev1.ContainerStateTerminated) {
	if box.exit != nil {
		return
	}
	box.exit = exit
	h.world.after(kubeletLag, func() { h.sync(box.namespace, box.name, box.uid) })
	if kube.Get[corev1.Pod](h.world.Kube, box.namespace, box.name) == nil {
		delete(h.pods, box.uid)
	}
}

// end writes how a pod ended, once, and then removes the pod.
func (h *host) end(pod *corev1.Pod, exit *corev1.ContainerStateTerminated) {
	if !ended(pod) || len(pod.Status.ContainerStatuses) == 0 ||
		pod.Status.ContainerStatuses[0].State.Terminated == nil {
		phase := corev1.PodFailed
		if exit.ExitCode == 0 {
			phase = corev1.PodSucceeded
		}
		h.update(&sandbox{namespace: pod.Namespace, name: pod.Name, uid: string(pod.UID)}, func(p *corev1.Pod) {
			p.Status.Phase = phase
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: observe.ComputeContainer, State: corev1.ContainerState{Terminated: exit},
			}}
			condition(p, corev1.PodReady, corev1.ConditionFalse, "PodCompleted")
		})
		return // the change brings the kubelet back here
	}
	h.removeDeleted(pod)
}

// removeDeleted removes a deleted pod that has ended from the API server.
func (h *host) removeDeleted(pod *corev1.Pod) {
	if pod.DeletionTimestamp == nil {
		return
	}
	delete(h.pods, string(pod.UID))
	if s := pod.DeletionGracePeriodSeconds; s != nil && *s == 0 {
		return
	}
	zero := int64(0)
	_ = kube.Remove[corev1.Pod](h.world.Kube, pod.Namespace, pod.Name, &zero)
}

// update writes a pod's status.
func (h *host) update(box *sandbox, change func(*corev1.Pod)) {
	if !h.isAlive() || box == nil || h.world.missing[PartAPIServer] {
		return
	}
	_, err := kube.Edit(h.world.Kube, box.namespace, box.name, "status", func(p *corev1.Pod) {
		if string(p.UID) == box.uid {
			change(p)
		}
	})
	if err != nil {
		h.world.tracef("kubelet %s: pod %s: %v", h.name, box.name, err)
	}
}

// resync syncs all pods, as a kubelet does when it reaches the API server again.
func (h *host) resync() {
	var uids []string
	for uid := range h.pods {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	for _, uid := range uids {
		box := h.pods[uid]
		if box.launcher != nil && box.exit == nil && !box.launcher.dead {
			if pod := kube.Get[corev1.Pod](h.world.Kube, box.namespace, box.name); pod != nil &&
				pod.Status.Phase == corev1.PodPending {
				h.reportRunning(box)
			}
		}
		h.sync(box.namespace, box.name, box.uid)
	}
	for _, pod := range kube.List[corev1.Pod](h.world.Kube, "") {
		if pod.Spec.NodeName == h.name && h.pods[string(pod.UID)] == nil {
			h.sync(pod.Namespace, pod.Name, string(pod.UID))
		}
	}
}

// condition sets a pod's condition.
func condition(p *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) {
	c := corev1.PodCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.Time{}}
	i := slices.IndexFunc(p.Status.Conditions, func(x corev1.PodCondition) bool { return x.Type == kind })
	if i < 0 {
		p.Status.Conditions = append(p.Status.Conditions, c)
		return
	}
	p.Status.Conditions[i] = c
}
