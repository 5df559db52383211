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

// Lookup reads the current objects that requests are about.
type Lookup struct {
	// Reader must not be a cache: this process watches no virtual machines.
	Reader client.Reader
}

// VM returns a VirtualMachine, or KubeVirt's error.
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

// VMI returns a VirtualMachineInstance, or KubeVirt's error.
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

// InstanceOf returns the instance of a VirtualMachine, or KubeVirt's error. An instance that only has its name is not
// its own.
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
	if !isOwnedBy(vmi, vm) {
		return nil, apierrors.NewInternalError(
			fmt.Errorf("unable to retrieve vmi [%s] for vm: it is another owner's", name))
	}
	return vmi, nil
}

// isOwnedBy reports whether an instance is owned by a VM, and does not only have its name.
func isOwnedBy(vmi *kubevirtv1.VirtualMachineInstance, vm *kubevirtv1.VirtualMachine) bool {
	return slices.ContainsFunc(vmi.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == vm.UID })
}

func (l Lookup) get(ctx context.Context, namespace, name string, into client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	return l.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, into)
}
