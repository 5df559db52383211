package world

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/internal/temporalclient"
	"github.com/virtflow/virtflow/testsuite/kube"
)

// Delays after which Kubernetes' controllers act on nodes.
const (
	nodeMonitorGrace = 40 * time.Second  // without a heartbeat: not Ready, unreachable
	evictAfter       = 300 * time.Second // the toleration that every pod gets
	podGCEvery       = 20 * time.Second
	workerUp         = 2 * time.Second
)

const taintUnreachable = "node.kubernetes.io/unreachable"

// addHost adds a node with a kubelet and a node worker that has reported.
func (w *World) addHost(name string) {
	h := &host{world: w, name: name, powered: true, connected: true, worker: true, pods: map[string]*sandbox{},
		own: newNodeWorker(0)}
	w.hosts[name] = h
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelArchStable: "amd64"}}}
	w.must(kube.Put(w.Kube, node))
	w.must(kube.Edit(w.Kube, "", name, "status", func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.Now())}}
	}))
	w.must(kube.Put(w.Kube, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "virtflow-node-worker-" + name,
			Labels: map[string]string{"app.kubernetes.io/name": "virtflow-node-worker"}},
		Spec: corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "worker", Image: "worker"}}},
	}))
	w.setWorkerReady(h)
	w.after(time.Second, h.reportNode)
}

// must panics where a story cannot be set up.
func (w *World) must(_ any, err error) {
	if err != nil {
		panic("setting up the world: " + err.Error())
	}
}

// reportNode sends the node worker's report of its host when it starts, until the entity accepts it.
func (h *host) reportNode() {
	if !h.isPolling() {
		return
	}
	id := contract.NodeID(h.name)
	if h.world.workflows.isClosed(id) || !h.world.workflows.runs[id].open {
		h.world.after(time.Second, h.reportNode)
		return
	}
	h.world.send(&delivery.Delivery{Workflow: id, Signal: contract.SignalReportNode, UID: h.name, Kind: "report",
		Payload: h.report()})
}

func (h *host) report() contract.NodeReport {
	return contract.NodeReport{Incarnation: h.name + "-" + strconv.Itoa(h.epoch), Sequence: 1, Arch: "amd64",
		CPUVendor: "AMD", Capabilities: &contract.HostCapabilities{
			VirtType: "qemu", MachineTypes: []string{"q35", "pc-q35-7.2"}, CPUModels: []string{"EPYC"},
			HostModel: "EPYC",
		}}
}

func (h *host) isPolling() bool { return h.isAlive() && h.worker }

func (w *World) isWorkerPolling(node string) bool {
	h := w.hosts[node]
	return h != nil && h.isPolling()
}

func (w *World) setWorkerReady(h *host) {
	status := corev1.ConditionFalse
	if h.isPolling() {
		status = corev1.ConditionTrue
	}
	_, _ = kube.Edit(w.Kube, systemNamespace, "virtflow-node-worker-"+h.name, "status", func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		condition(p, corev1.PodReady, status, "")
	})
}

// RestartWorker kills a node worker, which starts again shortly after.
func (w *World) RestartWorker(node string) {
	h := w.hosts[node]
	w.tracef("node worker on %s: killed", node)
	h.workerDies(cutLag)
	h.epoch++
	w.setWorkerReady(h)
	w.after(workerUp, func() { w.workerStarts(h) })
}

// workerDies ends a node worker and the streams that it carries. The other end notices after a while.
func (h *host) workerDies(noticed time.Duration) {
	h.worker = false
	h.sever(noticed, "the node worker of "+h.name+" has gone")
	h.own = newNodeWorker(h.own.run + 1)
}

func (w *World) workerStarts(h *host) {
	h.worker = true
	if !h.isAlive() {
		return
	}
	w.setWorkerReady(h)
	h.reportNode()
	h.reportDomains()
}

// reportDomains reports the domain of every launcher that the worker followed.
func (h *host) reportDomains() {
	for _, uid := range h.podUIDs() {
		if l := h.pods[uid].launcher; l != nil {
			l.report()
		}
	}
}

// resendSince sends again what was reported since the connection to Temporal was lost.
func (h *host) resendSince(lost time.Time) {
	for _, uid := range h.podUIDs() {
		if l := h.pods[uid].launcher; l != nil {
			l.redeliver(lost.Add(-temporalclient.Forgotten))
		}
	}
}

func (h *host) podUIDs() []string {
	var uids []string
	for uid := range h.pods {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	return uids
}

// Cut disconnects a node from the network; its guests run on.
func (w *World) Cut(node string) {
	defer w.requested()
	w.tracef("node %s: cut off", node)
	h := w.hosts[node]
	h.connected = false
	h.sever(keepAlive, "the network of "+h.name+" has gone")
	h.epoch++
	w.markUnreachable(h)
}

// PowerOff powers a node and everything on it off. For the cluster it looks like a node that is cut off.
func (w *World) PowerOff(node string) {
	defer w.requested()
	w.tracef("node %s: power lost", node)
	h := w.hosts[node]
	h.powered = false
	h.workerDies(keepAlive)
	h.epoch++
	for _, uid := range h.podUIDs() {
		h.pods[uid].lost = true
		if l := h.pods[uid].launcher; l != nil && !l.dead {
			if l.running && !w.isFenced(h.name) {
				w.possiblyRunning[l.key()] = h.name
			}
			l.kill()
		}
	}
	w.markUnreachable(h)
}

// markUnreachable acts as the node controller does for a node without heartbeats, and then as the taint manager does
// for its pods.
func (w *World) markUnreachable(h *host) {
	epoch := h.epoch
	lost := func() bool { return h.epoch == epoch && !h.isAlive() }
	w.after(nodeMonitorGrace, func() {
		if !lost() {
			return
		}
		w.setNodeReady(h, corev1.ConditionUnknown)
		for _, pod := range w.podsOn(h.name) {
			_, _ = kube.Edit(w.Kube, pod.Namespace, pod.Name, "status", func(p *corev1.Pod) {
				condition(p, corev1.PodReady, corev1.ConditionFalse, "NodeNotReady")
			})
		}
		w.after(evictAfter, func() {
			if !lost() {
				return
			}
			for _, pod := range w.podsOn(h.name) {
				if pod.Namespace != systemNamespace {
					_ = kube.Remove[corev1.Pod](w.Kube, pod.Namespace, pod.Name, nil)
				}
			}
		})
	})
}

// setNodeReady writes a node's condition Ready, and the taint that belongs to it.
func (w *World) setNodeReady(h *host, ready corev1.ConditionStatus) {
	_, _ = kube.Edit(w.Kube, "", h.name, "status", func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(w.Now())}}
	})
	_, _ = kube.Edit(w.Kube, "", h.name, "", func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintUnreachable })
		if ready != corev1.ConditionTrue {
			n.Spec.Taints = append(n.Spec.Taints,
				corev1.Taint{Key: taintUnreachable, Effect: corev1.TaintEffectNoExecute})
		}
	})
}

func (w *World) podsOn(node string) []*corev1.Pod {
	return slices.DeleteFunc(kube.List[corev1.Pod](w.Kube, ""), func(p *corev1.Pod) bool {
		return p.Spec.NodeName != node
	})
}

// Return brings a node back: powered and connected.
func (w *World) Return(node string) {
	defer w.requested()
	w.tracef("node %s: back", node)
	h := w.hosts[node]
	rebooted := !h.powered
	h.unsynced = h.unsynced || !h.isAlive()
	h.powered, h.connected, h.worker = true, true, !rebooted
	h.epoch++
	for key, name := range w.possiblyRunning {
		if name == node {
			delete(w.possiblyRunning, key)
		}
	}
	w.after(time.Second, func() {
		if !h.isAlive() {
			return
		}
		h.unsynced = false
		for _, uid := range h.podUIDs() { // what ran when the power was lost, and nothing newer
			if box := h.pods[uid]; box.lost && box.exit == nil {
				box.exit = &corev1.ContainerStateTerminated{ExitCode: 255, Reason: "Unknown"}
			}
		}
		h.resync()
		w.setNodeReady(h, corev1.ConditionTrue)
		w.workerStarts(h)
	})
}

// OutOfService adds the taint by which a person states that a node is off: the garbage collector then deletes its pods.
// The node must really be off.
func (w *World) OutOfService(node string) {
	defer w.requested()
	w.tracef("node %s: out of service", node)
	for key, name := range w.possiblyRunning {
		if name == node {
			delete(w.possiblyRunning, key)
		}
	}
	_, _ = kube.Edit(w.Kube, "", node, "", func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints,
			corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
	})
}

// InService removes the out-of-service taint.
func (w *World) InService(node string) {
	defer w.requested()
	_, _ = kube.Edit(w.Kube, "", node, "", func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == corev1.TaintNodeOutOfService
		})
	})
}

// isFenced reports whether a person has stated that a node is off, or no such node exists any more.
func (w *World) isFenced(node string) bool {
	n := kube.Get[corev1.Node](w.Kube, "", node)
	return n == nil || isOutOfService(n)
}

func isOutOfService(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService
	})
}

// podGC is the garbage collector for pods: those of nodes that are out of service or do not exist, and those deleted
// before they had a node.
func (w *World) podGC() {
	for _, pod := range kube.List[corev1.Pod](w.Kube, "") {
		var node *corev1.Node
		if pod.Spec.NodeName != "" {
			node = kube.Get[corev1.Node](w.Kube, "", pod.Spec.NodeName)
		}
		off := node != nil && !isNodeReady(node) && isOutOfService(node) && pod.DeletionTimestamp != nil
		orphaned := pod.Spec.NodeName != "" && node == nil
		unplaced := pod.Spec.NodeName == "" && pod.DeletionTimestamp != nil
		if !off && !orphaned && !unplaced {
			continue
		}
		if !ended(pod) {
			_, _ = kube.Edit(w.Kube, pod.Namespace, pod.Name, "status", func(p *corev1.Pod) {
				p.Status.Phase = corev1.PodFailed
			})
		}
		if g := pod.DeletionGracePeriodSeconds; pod.DeletionTimestamp == nil || g == nil || *g > 0 {
			zero := int64(0)
			_ = kube.Remove[corev1.Pod](w.Kube, pod.Namespace, pod.Name, &zero)
		}
	}
}

// cordon makes every node unschedulable, or schedulable again.
func (w *World) cordon(on bool) {
	defer w.requested()
	for _, n := range kube.List[corev1.Node](w.Kube, "") {
		_, _ = kube.Edit(w.Kube, "", n.Name, "", func(n *corev1.Node) { n.Spec.Unschedulable = on })
	}
}
