package observe

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// ComputeContainer is the container of a launcher pod that runs the guest.
const ComputeContainer = "compute"

// Owner returns the VirtualMachineInstance for which a launcher pod was made, or nil. The pod's ownerReference names
// it, which a kubelet cannot change by writing the pod's status. When the VMI is deleted with --cascade=orphan, the
// garbage collector removes that reference: then the launcher's label and annotation count.
func Owner(pod *corev1.Pod) *contract.Object {
	owner := contract.Object{Namespace: pod.Namespace}
	if ref := OwnerVMI(pod); ref != nil {
		owner.UID, owner.Name = string(ref.UID), ref.Name
	} else if pod.Labels[contract.LabelLauncher] == contract.LabelLauncherValue {
		owner.UID, owner.Name = pod.Labels[contract.LabelCreatedBy], pod.Annotations[contract.AnnotationDomain]
	}
	if owner.UID == "" || owner.Name == "" {
		return nil
	}
	return &owner
}

// OwnerVMI returns the VirtualMachineInstance that controls a pod, or nil.
func OwnerVMI(pod *corev1.Pod) *metav1.OwnerReference {
	return controller(pod, "VirtualMachineInstance")
}

// OwnerVM returns the VirtualMachine that controls a VMI, or nil.
func OwnerVM(vmi *kubevirt.VirtualMachineInstance) *metav1.OwnerReference {
	return controller(vmi, "VirtualMachine")
}

// Pod observes a launcher pod.
func Pod(pod *corev1.Pod) contract.PodObservation {
	o := contract.PodObservation{
		UID:               string(pod.UID),
		Name:              pod.Name,
		ResourceVersion:   pod.ResourceVersion,
		DeletionTimestamp: moment(pod.DeletionTimestamp),
		Finalizers:        cloneOrNil(pod.Finalizers),
		Phase:             string(pod.Status.Phase),
		NodeName:          pod.Spec.NodeName,
		QOSClass:          string(pod.Status.QOSClass),

		GraceSeconds: pod.Spec.TerminationGracePeriodSeconds, DeletionGraceSeconds: pod.DeletionGracePeriodSeconds,
	}
	if ref := Owner(pod); ref != nil {
		o.VMIUID, o.Migration = ref.UID, word(pod.Labels[contract.LabelMigration])
	}
	if o.Migration != "" {
		o.MigrationName = word(pod.Annotations[contract.AnnotationMigrationName])
	}
	for i, ip := range pod.Status.PodIPs {
		if i < maxIPs {
			o.IPs = append(o.IPs, word(ip.IP))
		}
	}
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == ComputeContainer {
			o.LauncherImage = contract.Cut(pod.Spec.Containers[i].Image, maxMessage)
		}
	}
	podConditions(&o, pod.Status.Conditions)
	podContainers(&o, &pod.Status)
	o.PhaseUnconfirmed = phaseUnconfirmed(&pod.Status)
	return o
}

// reasonPodGC is the reason of condition DisruptionTarget on pods that the pod garbage collector has marked Failed.
const reasonPodGC = "DeletionByPodGC"

// phaseUnconfirmed reports whether a pod's phase is final although no kubelet has reported that its containers ended. A
// kubelet reports a pod as Failed or Succeeded only when no container runs any more; the pod garbage collector does so
// for every pod of a node that is gone or out of service.
func phaseUnconfirmed(status *corev1.PodStatus) bool {
	if status.Phase != corev1.PodFailed && status.Phase != corev1.PodSucceeded {
		return false
	}
	collected := false
	for _, c := range status.Conditions {
		collected = collected || c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue &&
			c.Reason == reasonPodGC
	}
	for _, c := range status.ContainerStatuses {
		if c.Name == ComputeContainer {
			return c.State.Running != nil || collected && c.State.Terminated == nil
		}
	}
	return collected
}

func podConditions(o *contract.PodObservation, conditions []corev1.PodCondition) {
	for _, c := range conditions {
		seen := condition(string(c.Type), string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
		switch c.Type { //nolint:exhaustive // no decision depends on the others
		case corev1.PodReady:
			o.Ready = &seen
		case corev1.PodScheduled:
			if c.Status == corev1.ConditionFalse {
				o.Unschedulable = &seen
			}
		case contract.ConditionUnpaused:
			o.Unpaused = seen.Status
		}
	}
}

func podContainers(o *contract.PodObservation, status *corev1.PodStatus) {
	computeRuns, othersReady := false, true
	for _, c := range status.ContainerStatuses {
		if c.Name != ComputeContainer {
			othersReady = othersReady && c.Ready
			continue
		}
		computeRuns = c.State.Running != nil
		if t := c.State.Terminated; t != nil {
			code := t.ExitCode
			o.ExitCode, o.ExitReason = &code, word(t.Reason)
			o.TerminationMessage = contract.Cut(t.Message, maxTermination)
		}
	}
	o.ComputeRunning = computeRuns && othersReady
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for _, c := range list {
			if w := c.State.Waiting; w != nil && isStuck(w.Reason) && o.WaitingReason == "" {
				o.WaitingReason, o.WaitingMessage = word(w.Reason), contract.Cut(w.Message, maxMessage)
			}
		}
	}
}

// isStuck reports whether a container cannot start, rather than has not started yet.
func isStuck(reason string) bool {
	return reason != "" && reason != "ContainerCreating" && reason != "PodInitializing"
}

// GonePod observes that a launcher pod of that UID no longer exists.
func GonePod(uid, name, vmiUID string) contract.PodObservation {
	return contract.PodObservation{UID: uid, Name: name, VMIUID: vmiUID, Gone: true}
}

// NewPod returns what a VMI entity assumes of a launcher pod that it has just made.
func NewPod(o contract.PodObservation) contract.PodObservation {
	return contract.PodObservation{
		UID: o.UID, Name: o.Name, VMIUID: o.VMIUID, Phase: string(corev1.PodPending),
		Finalizers: []string{contract.FinalizerPod},
	}
}

// SignificantPod reports whether a decision may depend on what has changed between two observations of one pod. Most
// updates of a starting pod (a node assigned, volumes mounted, one condition after the other) change nothing for its
// VMI.
func SignificantPod(before, after contract.PodObservation) bool {
	return factsOf(before) != factsOf(after)
}

// podFacts has the parts of a pod observation on which decisions depend, in a form that compares with ==.
type podFacts struct {
	uid, vmiUID, phase        string
	gone, deleting, held      bool
	computeRunning, ready     bool
	notReadyReason, ips, node string
	paused                    bool
	unschedulable, waiting    string
	exited                    bool
	exitCode                  int32
	terminationMessage        string
	phaseUnconfirmed          bool
	deletionGrace             int64
	others                    string
}

// factsOf returns the part of an observation that decisions depend on.
func factsOf(o contract.PodObservation) podFacts {
	f := podFacts{
		uid: o.UID, vmiUID: o.VMIUID, phase: o.Phase,
		gone: o.Gone, deleting: o.DeletionTimestamp != nil, held: slices.Contains(o.Finalizers, contract.FinalizerPod),
		computeRunning:   o.ComputeRunning,
		ready:            o.Ready != nil && o.Ready.Status == string(corev1.ConditionTrue),
		paused:           o.Unpaused == string(corev1.ConditionFalse),
		waiting:          o.WaitingReason,
		phaseUnconfirmed: o.PhaseUnconfirmed,
	}
	if o.DeletionGraceSeconds != nil {
		f.deletionGrace = *o.DeletionGraceSeconds
	}
	if o.DeletionTimestamp != nil { // finalizers may keep a pod that has ended
		f.others = strings.Join(o.Finalizers, ",")
	}
	if o.ComputeRunning { // before that they are incomplete, and nothing waits for them
		f.node = o.NodeName
		for _, ip := range o.IPs {
			f.ips += ip + ","
		}
		if o.Ready != nil && !f.ready {
			f.notReadyReason = o.Ready.Reason
		}
	}
	if o.Unschedulable != nil {
		f.unschedulable = o.Unschedulable.Reason + ": " + o.Unschedulable.Message
	}
	if o.ExitCode != nil {
		f.exited, f.exitCode, f.terminationMessage = true, *o.ExitCode, o.TerminationMessage
	}
	return f
}
