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

// claim is the one of the VM in these stories.
const claim = "data"

// claimStories are about VMs that keep their data.
func claimStories() []Scenario {
	return []Scenario{
		{Name: "claim-appears", Story: func(w *World) {
			w.Create(onClaim())
			w.says(kubevirt.VirtualMachineStatusPvcNotFound)
			w.CreateClaim()
			w.says(kubevirt.VirtualMachineStatusWaitingForVolumeBinding)
			w.BindClaim()
		}, Want: keeps},
		{Name: "claim-grows", Story: func(w *World) {
			w.CreateClaim()
			w.BindClaim()
			upAs(w, onClaim())
			w.resizeClaim(claim, "3Gi")
		}, Want: seesGrowth},
		{Name: "claim-never-appears", Story: func(w *World) {
			w.Create(onClaim())
			w.says(kubevirt.VirtualMachineStatusPvcNotFound)
			w.Delete(vm)
		}, Want: gone(vm)},
		{Name: "state-is-kept", Story: func(w *World) {
			w.Create(remembers())
			w.Until(w.patience(), w.bindState)
			w.Until(w.patience(), func() bool { return runs(vm)(w) == nil })
			w.Restart(vm)
		}, Want: func(w *World) error {
			if all := kube.List[corev1.PersistentVolumeClaim](w.Kube, Namespace); len(all) != 1 {
				return fmt.Errorf("%d claims for what machine %s remembers", len(all), vm)
			}
			return restarted(w)
		}},
	}
}

// remembers is a VM whose TPM remembers.
func remembers() *kubevirt.VirtualMachine {
	m, yes := Machine(vm, kubevirt.RunStrategyAlways), true
	m.Spec.Template.Spec.Domain.Devices.TPM = &kubevirt.TPMDevice{Persistent: &yes}
	return m
}

// bindState gives the claim that was made for what the machine remembers a volume of the cluster's.
func (w *World) bindState() bool {
	for _, c := range kube.List[corev1.PersistentVolumeClaim](w.Kube, Namespace) {
		w.bind(c.Name)
		return true
	}
	return false
}

// onClaim is a VM with a disk on the claim.
func onClaim() *kubevirt.VirtualMachine {
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

// says waits until the VM has a printable status. Only a fault may keep that from being written.
func (w *World) says(status kubevirt.VirtualMachinePrintableStatus) {
	holds := func() bool {
		v := w.VM(vm)
		return v != nil && v.Status.PrintableStatus == status
	}
	if !w.Until(5*time.Minute, holds) && w.Fault == nil && w.Chaos == (Chaos{}) {
		w.breakf("VM %s does not become %s%s", vm, status, w.state())
	}
}

// CreateClaim makes the claim; nothing binds it.
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

// BindClaim gives the claim a volume of the cluster's.
func (w *World) BindClaim() { w.bind(claim) }

func (w *World) bind(name string) { w.resizeClaim(name, "2Gi") }

// resizeClaim gives a claim a volume of that size.
func (w *World) resizeClaim(name, size string) {
	defer w.requested()
	_, _ = kube.Edit(w.Kube, Namespace, name, "status", func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Status.Phase = corev1.ClaimBound
		pvc.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	})
}

// seesGrowth wants the guest to run on, and its launcher to have heard that its claim is larger by now.
func seesGrowth(w *World) error {
	if err := runs(vm)(w); err != nil {
		return err
	}
	if w.Started[key] > 1 || w.fault != nil && w.fault.Mode == Forever {
		return nil // it has seen it when it was started, or cannot be told
	}
	if w.sizes[key] != "3Gi" {
		return fmt.Errorf("the launcher of %s knows of %q of its claim", key, w.sizes[key])
	}
	return nil
}

// keeps wants the VM to run, and its instance to say what its claim is.
func keeps(w *World) error {
	if err := runs(vm)(w); err != nil {
		return err
	}
	for _, s := range w.VMI(vm).Status.VolumeStatus {
		if c := s.PersistentVolumeClaimInfo; c != nil && c.ClaimName == claim {
			if got := c.Capacity.Storage().String(); got != "2Gi" {
				return fmt.Errorf("the claim of instance %s is said to have %s", vm, got)
			}
			return nil
		}
	}
	return fmt.Errorf("instance %s says nothing of its claim", vm)
}
