package streams

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/api/subresources"
)

// KubeVirt's texts.
const (
	textNotRunning = "VMI is not running"
	textNoAgent    = "VMI does not have guest agent connected"
)

// check says what keeps an instance from something, or nil.
type check func(vmi *kubevirtv1.VirtualMachineInstance) error

func consoleCheck(vmi *kubevirtv1.VirtualMachineInstance) error {
	switch wanted := vmi.Spec.Domain.Devices.AutoattachSerialConsole; {
	case wanted != nil && !*wanted:
		return apierrors.NewBadRequest("No serial consoles are present.")
	case vmi.Status.Phase == kubevirtv1.Failed:
		return subresources.VMIConflict(vmi.Name, "VMI is in failed status")
	case !vmi.IsRunning():
		return apierrors.NewBadRequest(textNotRunning)
	}
	return nil
}

func screenCheck(vmi *kubevirtv1.VirtualMachineInstance) error {
	switch wanted := vmi.Spec.Domain.Devices.AutoattachGraphicsDevice; {
	case wanted != nil && !*wanted:
		return apierrors.NewBadRequest("No graphics devices are present.")
	case !vmi.IsRunning():
		return apierrors.NewBadRequest(textNotRunning)
	}
	return nil
}

func portCheck(vmi *kubevirtv1.VirtualMachineInstance) error {
	if has(vmi, kubevirtv1.VirtualMachineInstancePaused) {
		return subresources.VMIConflict(vmi.Name, "VMI is paused")
	}
	if len(vmi.Status.Interfaces) == 0 || vmi.Status.Interfaces[0].IP == "" {
		return apierrors.NewBadRequest("no network interfaces are present")
	}
	return nil
}

func agentCheck(vmi *kubevirtv1.VirtualMachineInstance) error {
	switch {
	case !vmi.IsRunning():
		return subresources.VMIConflict(vmi.Name, textNotRunning)
	case !has(vmi, kubevirtv1.VirtualMachineInstanceAgentConnected):
		return subresources.VMIConflict(vmi.Name, textNoAgent)
	}
	return nil
}

func usbCheck(vmi *kubevirtv1.VirtualMachineInstance) error {
	switch {
	case vmi.Spec.Domain.Devices.ClientPassthrough == nil:
		return subresources.VMIConflict(vmi.Name, "Not configured with USB Redirection")
	case !vmi.IsRunning():
		return apierrors.NewBadRequest(textNotRunning)
	}
	return nil
}

func vsockCheck(vmi *kubevirtv1.VirtualMachineInstance) error {
	switch wanted := vmi.Spec.Domain.Devices.AutoattachVSOCK; {
	case wanted == nil || !*wanted:
		return apierrors.NewBadRequest("VSOCK is not attached.")
	case !vmi.IsRunning():
		return apierrors.NewBadRequest(textNotRunning)
	}
	return nil
}

// reachable is asked after every other check: the phases in which a guest's node has something to say of it.
func reachable(vmi *kubevirtv1.VirtualMachineInstance) error {
	if !vmi.IsRunning() && !vmi.IsScheduled() {
		return apierrors.NewBadRequest(
			fmt.Sprintf("Unable to connect to VirtualMachineInstance because phase is %s instead of %s or %s",
				vmi.Status.Phase, kubevirtv1.Running, kubevirtv1.Scheduled))
	}
	return nil
}

func has(vmi *kubevirtv1.VirtualMachineInstance, kind kubevirtv1.VirtualMachineInstanceConditionType) bool {
	for i := range vmi.Status.Conditions {
		if c := &vmi.Status.Conditions[i]; c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// internal is KubeVirt's 500.
func internal(text string) error { return apierrors.NewInternalError(errors.New(text)) }
