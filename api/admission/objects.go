package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/api/validation"
	"github.com/virtflow/virtflow/internal/defaults"
)

// getInstance reads a VirtualMachineInstance; without a Reader none exists.
func (h *handler) getInstance(ctx context.Context, namespace, name string) (*kubevirtv1.VirtualMachineInstance, error) {
	if h.Reader == nil {
		return nil, apierrors.NewNotFound(kubevirtv1.Resource(h.vmi.resource), name)
	}
	vmi := &kubevirtv1.VirtualMachineInstance{}
	return vmi, h.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, vmi)
}

// getPod reads a pod; without a Reader none exists.
func (h *handler) getPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	if h.Reader == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	pod := &corev1.Pod{}
	return pod, h.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, pod)
}

// volumeRequests checks the requests in a VM's status against the VM and its running instance.
func (h *handler) volumeRequests(
	ctx context.Context, vm *kubevirtv1.VirtualMachine, cluster defaults.Cluster,
) ([]metav1.StatusCause, error) {
	if len(vm.Status.VolumeRequests) == 0 || !vm.Status.Ready {
		return validation.VolumeRequests(vm, nil, cluster), nil
	}
	vmi, err := h.getInstance(ctx, vm.Namespace, vm.Name)
	switch {
	case apierrors.IsNotFound(err):
		vmi = nil
	case err != nil:
		return nil, err
	case vmi.DeletionTimestamp != nil:
		vmi = nil
	}
	return validation.VolumeRequests(vm, vmi, cluster), nil
}
