package cluster

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirt "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/activities/cluster/instance"
	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/internal/observe"
	"github.com/virtflow/virtflow/internal/runstrategy"
)

// CreateVMI makes the instance of a VM, and keeps the specification that it was made from as a ControllerRevision.
// Idempotent: the instance has the VM's name and the revision a name from the VM's UID and generation; one that the VM
// controls already, or that has no controller, is what is returned. A VM that does not ask for an instance now gets
// none.
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
			goneError("VirtualMachine %s is another one by now (UID %s)", in.VM.Name, vm.UID))
	case vm.DeletionTimestamp != nil:
		return out, a.release(ctx, in.VM, "", goneError("VirtualMachine %s is being deleted", in.VM.Name))
	case vm.Generation < in.Generation:
		return out, temporal.NewApplicationError(
			fmt.Sprintf("VirtualMachine %s was read at generation %d, wanted is %d", in.VM.Name, vm.Generation,
				in.Generation), errorKubernetes)
	}
	current := observe.VM(vm)
	if desired, _ := runstrategy.Desired(&current, nil,
		current.StatusRunStrategy); desired.Operation != contract.OperationStart {
		return a.refuseCreation(ctx, in.VM, current)
	}
	vmi, err := instance.New(vm, a.Settings(),
		instance.Request{Paused: in.Paused, Actor: in.Actor, Transition: in.Transition, Now: a.Now()})
	if err != nil {
		return out, a.recordRefusal(in.VM, nonRetryable(contract.ErrorInvalid, err.Error()))
	}
	if err := a.keepRevision(ctx, vm); err != nil {
		return a.refuseVMI(ctx, vm, in, err)
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
		return a.refuseVMI(ctx, vm, in, creationFailure("creating VirtualMachineInstance "+vmi.Name, err))
	}
	a.fresh.Add(string(made.UID), made.DeepCopy(), freshFor)
	a.recordEvent(kindVM, in.VM, normalEvent("SuccessfulCreate",
		"Started the virtual machine by creating the new virtual machine instance "+made.Name), string(made.UID))
	return contract.CreateVMIResult{VMI: observe.VMI(made)},
		a.pruneRevisions(ctx, vm, in.Revision, made.Status.VirtualMachineRevisionName)
}

// refuseCreation returns the answer of CreateVMI about a VM that requires no instance. An existing one may be from an
// earlier attempt.
func (a *Activities) refuseCreation(
	ctx context.Context, o contract.Object, vm contract.VMObservation,
) (contract.CreateVMIResult, error) {
	vmi, err := a.ownVMI(ctx, o)
	switch {
	case err != nil:
		return contract.CreateVMIResult{}, err
	case vmi != nil:
		return contract.CreateVMIResult{VMI: observe.VMI(vmi)}, nil
	}
	return contract.CreateVMIResult{
		Refused: fmt.Sprintf("run strategy %s does not ask for an instance now", vm.RunStrategy), VM: &vm}, nil
}

// refuseVMI returns the answer of CreateVMI if the API server refused the instance. An earlier attempt whose answer was
// lost may have made it: a quota that it has used up forbids another.
func (a *Activities) refuseVMI(
	ctx context.Context, vm *kubevirt.VirtualMachine, in contract.CreateVMIInput, refusal error,
) (contract.CreateVMIResult, error) {
	var none contract.CreateVMIResult
	var answer *temporal.ApplicationError
	if !errors.As(refusal, &answer) || !answer.NonRetryable() {
		return none, a.recordRefusal(in.VM, refusal) // another attempt finds the instance
	}
	vmi, err := a.ownVMI(ctx, in.VM)
	switch {
	case err != nil:
		return none, err
	case vmi == nil:
		return none, a.recordRefusal(in.VM, refusal)
	}
	return contract.CreateVMIResult{VMI: observe.VMI(vmi)},
		a.pruneRevisions(ctx, vm, in.Revision, vmi.Status.VirtualMachineRevisionName)
}

// recordRefusal records that no instance could be made, once per reason, and returns the error.
func (a *Activities) recordRefusal(vm contract.Object, err error) error {
	message := message(err)
	a.recordEvent(kindVM, vm,
		warningEvent(contract.ReasonFailedCreate, "Error creating virtual machine instance: "+message), message)
	return err
}
