package diff

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/crdwatch/delivery"
	"github.com/virtflow/virtflow/internal/observe"
)

// pods sends VMIs the observations of their launcher pods.
type pods struct{ *record }

// send sends a launcher pod to its VMI. A pod that has just been made is skipped, because the VMI's entity has made it,
// unless the entity may have lost that state or a migration has made the pod.
func (p pods) send(pod *corev1.Pod, ref *contract.Object, from delivery.Cause) {
	k, o := podKind(), observe.Pod(pod)
	_, known := recall(p.record, k, o.UID)
	if !known && from == change && o.Migration == "" && k.same(observe.NewPod(o), o) {
		p.metrics.CountSkipped(k.name)
	} else if recordNew(p.record, k, o.UID, o) {
		start := p.startFor(pod, ref)
		if start != nil && !known {
			forget(p.record, nodeStateKind(), o.UID) // it may have been sent before there was a workflow
		}
		cause := podCause(o, slices.Contains(o.Finalizers, contract.FinalizerPod), p.informers.IsOwnerDeleted(pod, ref))
		put(p.record, k, contract.VMIID(pod.Namespace, ref.Name), o.UID, o, start, refine(from, cause))
	}
}

// startFor returns how a pod starts the workflow of its VMI: only if the VMI is gone and its pod is still to be
// handled. A VMI that exists starts its workflow itself, with everything that it has to know. A workflow that a pod had
// started would miss what was sent before.
func (p pods) startFor(pod *corev1.Pod, ref *contract.Object) *delivery.Start {
	if p.informers.HasOwner(pod, ref) {
		return nil
	}
	return newStart(contract.WorkflowVMI, titleVMI, pod.Namespace, ref.Name, ref.UID)
}

// sendGone sends its VMI that a launcher pod does not exist any more.
func (p pods) sendGone(pod *corev1.Pod, ref *contract.Object, from delivery.Cause) {
	uid := string(pod.UID)
	last, known := recall(p.record, podKind(), uid)
	p.forget(uid)
	put(p.record, podKind(), contract.VMIID(pod.Namespace, ref.Name), uid, observe.GonePod(uid, pod.Name, ref.UID), nil,
		refine(from, podGoneCause(last, known)))
}

// forget drops the record of a pod, and of its node.
func (p pods) forget(uid string) {
	forget(p.record, podKind(), uid)
	forget(p.record, nodeStateKind(), uid)
}

func (p pods) forgetOf(vmi *kubevirt.VirtualMachineInstance) {
	for _, pod := range p.informers.PodsOf(string(vmi.UID)) {
		p.forget(string(pod.UID))
	}
}
