package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"
	cdi "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/claims"
	"github.com/virtflow/virtflow/internal/observe"
)

// readClaims reads the PVCs of an instance, and puts them into its status (of this copy; nothing is written): its pod
// and whether it can move depend on that. It returns what the instance waits for if no pod can be made yet.
func (a *Activities) readClaims(
	ctx context.Context, vmi *kubevirt.VirtualMachineInstance,
) ([]contract.VolumeClaim, *contract.Awaits, error) {
	var all []contract.VolumeClaim
	var awaits *contract.Awaits
	read := map[string]*corev1.PersistentVolumeClaim{} // volumes may share one
	for i := range vmi.Spec.Volumes {
		v := &vmi.Spec.Volumes[i]
		name, isClaim := claims.Of(v)
		if !isClaim {
			continue
		}
		pvc, known := read[name]
		if !known {
			var err error
			if pvc, err = a.readClaim(ctx, vmi.Namespace, name); err != nil {
				return nil, nil, err
			}
			read[name] = pvc
		}
		c := observe.VolumeClaim(v.Name, name, pvc)
		var err error
		c.DataVolume, err = observe.PopulatedBy(claims.DataVolume(v), pvc, func(name string) (*cdi.DataVolume, error) {
			return a.readDataVolume(ctx, vmi.Namespace, name)
		})
		if err != nil {
			return nil, nil, err
		}
		if awaits == nil {
			awaits = checkPopulated(vmi.Namespace, c)
		}
		all = append(all, c)
	}
	state, lacks, err := a.readState(ctx, vmi)
	if err != nil {
		return nil, nil, err
	}
	if state != nil {
		all = append(all, *state)
	}
	if awaits == nil {
		awaits = lacks
	}
	setClaims(vmi, all)
	return all, awaits, nil
}

// checkPopulated returns what is waited for before a pod may have a PVC; nil: nothing.
func checkPopulated(namespace string, c contract.VolumeClaim) *contract.Awaits {
	switch v := c.DataVolume; {
	case v != nil && v.Failing():
		return &contract.Awaits{Reason: contract.ReasonDataVolumeFailed, Message: v.Waits()}
	case v != nil && !v.Usable():
		return &contract.Awaits{Reason: contract.ReasonDataVolumesWait, Message: v.Waits()}
	case c.UID == "":
		return &contract.Awaits{Reason: contract.ReasonNoClaim,
			Message: fmt.Sprintf("PVC %s/%s does not exist, waiting for it to appear", namespace, c.Claim)}
	default:
		return nil
	}
}

// readClaim reads a PVC; nil: it does not exist.
func (a *Activities) readClaim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	if name == "" {
		return nil, nil // no claim has this name
	}
	pvc, err := a.Kubernetes.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // it does not exist
	}
	if err != nil {
		return nil, failure("reading PersistentVolumeClaim "+name, err)
	}
	return pvc, nil
}

// setClaims sets the PVCs in the status of an instance.
func setClaims(vmi *kubevirt.VirtualMachineInstance, all []contract.VolumeClaim) {
	vmi.Status.VolumeStatus = nil
	for _, c := range all {
		if c.UID != "" {
			vmi.Status.VolumeStatus = append(vmi.Status.VolumeStatus,
				kubevirt.VolumeStatus{Name: c.Volume, PersistentVolumeClaimInfo: claims.Info(c)})
		}
	}
}
