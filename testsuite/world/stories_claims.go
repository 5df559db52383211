package world

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/kube"
)

// claim is the name of the VM's PVC in these stories.
const claim = "data"

// claimStories are about VMs with PVCs.
func claimStories() []Scenario {
	return []Scenario{
		{Name: "claim-appears", Story: func(w *World) {
			w.Create(withClaim())
			w.waitForStatus(kubevirt.VirtualMachineStatusPvcNotFound)
			w.CreateClaim()
			w.waitForStatus(kubevirt.VirtualMachineStatusWaitingForVolumeBinding)
			w.BindClaim()
		}, Want: runsWithClaimInStatus},
		{Name: "claim-grows", Story: func(w *World) {
			w.CreateClaim()
			w.BindClaim()
			upAs(w, withClaim())
			w.resizeClaim(claim, "3Gi")
		}, Want: growthReachesLauncher},
		{Name: "claim-never-appears", Story: func(w *World) {
			w.Create(withClaim())
			w.waitForStatus(kubevirt.VirtualMachineStatusPvcNotFound)
			w.Delete(vm)
		}, Want: wantGone(vm)},
		{Name: "state-is-kept", Story: func(w *World) {
			w.Create(withTPM())
			w.Until(w.patience(), w.bindState)
			w.Until(w.patience(), func() bool { return wantRunning(vm)(w) == nil })
			w.Restart(vm)
		}, Want: func(w *World) error {
			if all := kube.List[corev1.PersistentVolumeClaim](w.Kube, Namespace); len(all) != 1 {
				return fmt.Errorf("%d PVCs for the persistent state of VM %s", len(all), vm)
			}
			return restarted(w)
		}},
	}
}

// withTPM returns a VM with a persistent TPM.
func withTPM() *kubevirt.VirtualMachine {
	m, yes := Machine(vm, kubevirt.RunStrategyAlways), true
	m.Spec.Template.Spec.Domain.Devices.TPM = &kubevirt.TPMDevice{Persistent: &yes}
	return m
}

// bindState binds the PVC for the VM's persistent state to a volume, and reports whether the PVC exists.
func (w *World) bindState() bool {
	for _, c := range kube.List[corev1.PersistentVolumeClaim](w.Kube, Namespace) {
		w.bind(c.Name)
		return true
	}
	return false
}

// withClaim returns a VM with a disk on the PVC.
func withClaim() *kubevirt.VirtualMachine {
	m := Machine(vm, kubevirt.RunStrategyAlways)
	spec := &m.Spec.Template.Spec
	spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, kubevirt.Disk{Name: "data",
		DiskDevice: kubevirt.DiskDevice{Disk: &kubevirt.DiskTarget{Bus: "virtio"}}})
	source := &kubevirt.PersistentVolumeClaimVolumeSource{}
	source.ClaimName = claim
	spec.Volumes = append(spec.Volumes, kubevirt.Volume{Name: "data",
		VolumeSource: kubevirt.VolumeSource{PersistentVolumeClaim: source}})
	return m
}

// waitForStatus waits until the VM has a printable status. Only a fault may prevent it.
func (w *World) waitForStatus(status kubevirt.VirtualMachinePrintableStatus) {
	holds := func() bool {
		v := w.VM(vm)
		return v != nil && v.Status.PrintableStatus == status
	}
	if !w.Until(5*time.Minute, holds) && w.Fault == nil && w.Chaos == (Chaos{}) {
		w.breakf("VM %s does not reach status %s%s", vm, status, w.state())
	}
}

// CreateClaim creates the PVC, unbound.
func (w *World) CreateClaim() {
	defer w.requested()
	_, _ = kube.Put(w.Kube, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: claim},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	})
}

// BindClaim binds the PVC to a volume.
func (w *World) BindClaim() { w.bind(claim) }

func (w *World) bind(name string) { w.resizeClaim(name, "2Gi") }

// resizeClaim gives a PVC a volume of that size.
func (w *World) resizeClaim(name, size string) {
	defer w.requested()
	_, _ = kube.Edit(w.Kube, Namespace, name, "status", func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Status.Phase = corev1.ClaimBound
		pvc.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	})
}

// growthReachesLauncher wants the guest to run on, and its launcher to have been notified of the new size of its PVC.
func growthReachesLauncher(w *World) error {
	if err := wantRunning(vm)(w); err != nil {
		return err
	}
	if w.Started[key] > 1 || w.fault != nil && w.fault.Mode == Forever {
		return nil // it started with the new size, or its launcher cannot be reached
	}
	if w.sizes[key] != "3Gi" {
		return fmt.Errorf("the launcher of %s was notified of size %q of its PVC", key, w.sizes[key])
	}
	return nil
}

// runsWithClaimInStatus wants the VM to run, and its instance's status to have the PVC's size.
func runsWithClaimInStatus(w *World) error {
	if err := wantRunning(vm)(w); err != nil {
		return err
	}
	for _, s := range w.VMI(vm).Status.VolumeStatus {
		if c := s.PersistentVolumeClaimInfo; c != nil && c.ClaimName == claim {
			if got := c.Capacity.Storage().String(); got != "2Gi" {
				return fmt.Errorf("instance %s has size %s of its PVC in its status", vm, got)
			}
			return nil
		}
	}
	return fmt.Errorf("instance %s has no PVC in its status", vm)
}
