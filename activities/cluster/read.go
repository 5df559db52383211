package cluster

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
)

// ReadVM reads a VM and the instance of its name. It changes nothing.
func (a *Activities) ReadVM(ctx context.Context, in contract.ReadVMInput) (contract.ReadVMResult, error) {
	var out contract.ReadVMResult
	vm, err := a.KubeVirt.VMs(in.VM.Namespace).Get(ctx, in.VM.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return out, failure("reading VirtualMachine "+in.VM.Name, err)
	case string(vm.UID) == in.VM.UID:
		o := observe.VM(vm)
		out.VM = &o
	}
	vmi, err := a.KubeVirt.VMIs(in.VM.Namespace).Get(ctx, in.VM.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return out, nil
	}
	if err != nil {
		return out, failure("reading VirtualMachineInstance "+in.VM.Name, err)
	}
	ref := metav1.GetControllerOfNoCopy(vmi)
	if ref != nil && string(ref.UID) == in.VM.UID || ref == nil && observe.MadeFor(vmi, in.VM.UID) {
		o := observe.VMIForVM(observe.VMI(vmi))
		o.OwnerUID = in.VM.UID
		out.VMI = &o
	}
	return out, nil
}

// ReadVMI reads an instance and its launcher pods. It changes nothing.
func (a *Activities) ReadVMI(ctx context.Context, in contract.ReadVMIInput) (contract.ReadVMIResult, error) {
	var out contract.ReadVMIResult
	vmi, err := a.KubeVirt.VMIs(in.VMI.Namespace).Get(ctx, in.VMI.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return out, failure("reading VirtualMachineInstance "+in.VMI.Name, err)
	case string(vmi.UID) == in.VMI.UID:
		o := observe.VMI(vmi)
		out.VMI, out.Migratable = &o, a.checkMigratable(ctx, vmi)
	}
	out.FindPodResult, err = a.FindLauncherPod(ctx, contract.FindPodInput(in))
	return out, err
}
