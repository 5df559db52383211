package cluster

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtflow/virtflow/activities/cluster/instance"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/internal/runstrategy"
	"github.com/virtflow/virtflow/workflows/contract"
)

// CreateVMI makes the instance of a VM, and keeps the specification that it was made from as a ControllerRevision.
// Idempotent: the instance has the VM's name and the revision a name from the VM's UID and generation; one that the VM
// controls already, or that nobody controls, is what is returned. A VM that does not ask for an instance now gets none.
func (a *Activities) CreateVMI(ctx context.Context, in contract.CreateVMIInput) (contract.CreateVMIResult, error) {
	var out contract.CreateVMIResult
	vm, err := a.KubeVirt.VMs(in.VM.Namespace).Get(ctx, in.VM.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return out, a.release(ctx, in.VM, "", failure("reading VirtualMachine "+in.VM.Name, err))
	case err != nil:
		return out, failure("reading VirtualMachine "+in.VM.Name, err)
	case string(vm.UID) != in.VM.UID:
		return out, a.release(ctx, in.VM, "",
			gone("VirtualMachine %s is another one by now (UID %s)", in.VM.Name, vm.UID))
	case vm.DeletionTimestamp != nil:
		return out, a.release(ctx, in.VM, "", gone("VirtualMachine %s is being deleted", in.VM.Name))
	case vm.Generation < in.Generation:
		return out, temporal.NewApplicationError(
			fmt.Sprintf("VirtualMachine %s was read at generation %d, wanted is %d", in.VM.Name, vm.Generation,
				in.Generation), errorKubernetes)
	}
	current := observe.VM(vm)
	if desired, _ := runstrategy.Desired(&current, nil,
		current.StatusRunStrategy); desired.Operation != contract.OperationStart {
		return a.unwanted(ctx, in.VM, current)
	}
	vmi, err := instance.New(vm, a.Settings(),
		instance.Request{Paused: in.Paused, Actor: in.Actor, Transition: in.Transition, Now: a.Now()})
	if err != nil {
		return out, a.refused(in.VM, final(contract.ErrorInvalid, err.Error()))
	}
	if err := a.keepRevision(ctx, vm); err != nil {
		return out, a.refused(in.VM, err)
	}
	made, err := a.KubeVirt.VMIs(vm.Namespace).Create(ctx, vmi, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		out, err := a.existingVMI(ctx, in.VM)
		if err == nil {
			err = a.pruneRevisions(ctx, vm, in.Revision, out.VMI.Revision)
		}
		return out, err
	}
	if err != nil {
		return out, a.refused(in.VM, failure("creating VirtualMachineInstance "+vmi.Name, err))
	}
	a.fresh.Add(string(made.UID), made.DeepCopy(), freshFor)
	a.recordEvent(kindVM, in.VM, normal("SuccessfulCreate",
		"Started the virtual machine by creating the new virtual machine instance "+made.Name), string(made.UID))
	return contract.CreateVMIResult{VMI: observe.VMI(made)},
		a.pruneRevisions(ctx, vm, in.Revision, made.Status.VirtualMachineRevisionName)
}

// unwanted is the answer of CreateVMI about a VM that does not ask for an instance. One that is there may be what an
// attempt before has made.
func (a *Activities) unwanted(
	ctx context.Context, o contract.Object, vm contract.VMObservation,
) (contract.CreateVMIResult, error) {
	vmi, err := a.KubeVirt.VMIs(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case err == nil && controls(o, vmi):
		return contract.CreateVMIResult{VMI: observe.VMI(vmi)}, nil
	case err != nil && !apierrors.IsNotFound(err):
		return contract.CreateVMIResult{}, failure("reading VirtualMachineInstance "+o.Name, err)
	}
	return contract.CreateVMIResult{
		Refused: fmt.Sprintf("run strategy %s does not ask for an instance now", vm.RunStrategy), VM: &vm}, nil
}

// refused records that no instance could be made, once per reason, and passes the error on.
func (a *Activities) refused(vm contract.Object, err error) error {
	message := message(err)
	a.recordEvent(kindVM, vm,
		warning(contract.ReasonFailedCreate, "Error creating virtual machine instance: "+message), message)
	return err
}
