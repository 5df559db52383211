package subresources

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clusterTimeout bounds one call to the API server.
const clusterTimeout = 10 * time.Second

// Lookup reads the objects that requests are about, as they are now.
type Lookup struct {
	// Reader must not be a cache: this process watches no virtual machines.
	Reader client.Reader
}

// VM answers with a VirtualMachine, or with KubeVirt's error.
func (l Lookup) VM(ctx context.Context, namespace, name string) (*kubevirtv1.VirtualMachine, error) {
	vm := &kubevirtv1.VirtualMachine{}
	err := l.get(ctx, namespace, name, vm)
	switch {
	case apierrors.IsNotFound(err):
		return nil, VMNotFound(name)
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("unable to retrieve vm [%s]: %w", name, err))
	}
	return vm, nil
}

// VMI answers with a VirtualMachineInstance, or with KubeVirt's error.
func (l Lookup) VMI(ctx context.Context, namespace, name string) (*kubevirtv1.VirtualMachineInstance, error) {
	vmi := &kubevirtv1.VirtualMachineInstance{}
	err := l.get(ctx, namespace, name, vmi)
	switch {
	case apierrors.IsNotFound(err):
		return nil, VMINotFound(name)
	case err != nil:
		return nil, apierrors.NewInternalError(fmt.Errorf("unable to retrieve vmi [%s]: %w", name, err))
	}
	return vmi, nil
}

// InstanceOf answers with the instance of a VirtualMachine, or with KubeVirt's error. An instance that only has its
// name is none of its.
func (l Lookup) InstanceOf(ctx context.Context, namespace, name string) (*kubevirtv1.VirtualMachineInstance, error) {
	vm, err := l.VM(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if !vm.Status.Created {
		return nil, VMConflict(name, "VMI is not started")
	}
	vmi, err := l.VMI(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if !belongs(vmi, vm) {
		return nil, apierrors.NewInternalError(
			fmt.Errorf("unable to retrieve vmi [%s] for vm: it is another owner's", name))
	}
	return vmi, nil
}

// belongs says whether an instance is a VM's, and does not only have its name.
func belongs(vmi *kubevirtv1.VirtualMachineInstance, vm *kubevirtv1.VirtualMachine) bool {
	return slices.ContainsFunc(vmi.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == vm.UID })
}

func (l Lookup) get(ctx context.Context, namespace, name string, into client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	return l.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, into)
}
