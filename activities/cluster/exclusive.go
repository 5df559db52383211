package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster/render"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/internal/observe"
)

// findDeviceConflict returns what an instance waits for where another's guest has one of its devices. QEMU cannot
// detect that: it locks a file, and each container has a special file of its own for one device. Pods decide: the other
// one's counts until it has ended. With a version they are as they were in it: of two pods that are made at once,
// exactly the second finds the first. Own is the instance's pod, if there is one.
func (a *Activities) findDeviceConflict(
	ctx context.Context, vmi *kubevirt.VirtualMachineInstance, all []contract.VolumeClaim, version string,
) (awaits *contract.Awaits, own *corev1.Pod, err error) {
	devices := devicesOf(all)
	if len(devices) == 0 {
		return nil, nil, nil
	}
	options := metav1.ListOptions{LabelSelector: contract.LabelLauncher + "=" + contract.LabelLauncherValue}
	if version != "" {
		options.ResourceVersion, options.ResourceVersionMatch = version, metav1.ResourceVersionMatchExact
	}
	list, err := a.Kubernetes.CoreV1().Pods(vmi.Namespace).List(ctx, options)
	if err != nil {
		return nil, nil, failure("listing the pods that may use the claims of VirtualMachineInstance "+vmi.Name, err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		switch o := observe.Pod(pod); {
		case pod.Name == render.PodName(vmi.Name, string(vmi.UID)):
			own = pod
		case o.VMIUID == string(vmi.UID) || o.Ended() || awaits != nil:
		default:
			if claim := conflictingClaim(vmi, pod, devices); claim != "" {
				awaits = &contract.Awaits{Reason: contract.ReasonClaimInUse, Message: fmt.Sprintf(
					"PVC %s/%s is a block device that pod %s uses, waiting for its end: it is one guest's at a time, unless "+
						"the disks of all are shareable", vmi.Namespace, claim, pod.Name)}
			}
		}
	}
	return awaits, own, nil
}

// devicesOf returns the names of the PVCs that are block devices.
func devicesOf(all []contract.VolumeClaim) []string {
	var out []string
	for _, c := range all {
		if c.VolumeMode == string(corev1.PersistentVolumeBlock) {
			out = append(out, c.Claim)
		}
	}
	return out
}

// conflictingClaim returns a PVC that an instance and the pod of another cannot have at once; "": there is none.
func conflictingClaim(vmi *kubevirt.VirtualMachineInstance, pod *corev1.Pod, names []string) string {
	var other kubevirt.VirtualMachineInstance
	known := json.Unmarshal([]byte(pod.Annotations[contract.AnnotationVMISpec]), &other) == nil
	for _, name := range names {
		if !mountsPVC(pod, name) {
			continue
		}
		mine, theirs := claims.UseOf(vmi, name), claims.Use{Writes: true}
		if known {
			theirs = claims.UseOf(&other, name)
		}
		if !mine.With(theirs) {
			return name
		}
	}
	return ""
}

func mountsPVC(pod *corev1.Pod, claim string) bool {
	for i := range pod.Spec.Volumes {
		if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil && c.ClaimName == claim {
			return true
		}
	}
	return false
}

// discard deletes a pod that was made too late: no guest was ever started in it, and its finalizer keeps nothing.
func (a *Activities) discard(ctx context.Context, pod *corev1.Pod) error {
	o := contract.Object{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
	_, err := a.removePodFinalizer(ctx, o, pod.ResourceVersion)
	if err == nil {
		err = a.Kubernetes.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: uidOf(o.UID)}})
	}
	if err != nil && !isOtherObject(err) {
		return failure("deleting pod "+pod.Name, err)
	}
	return nil
}
