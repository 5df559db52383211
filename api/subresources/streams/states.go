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

// check returns why an instance is not in a state for a request, or nil.
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
	if hasCondition(vmi, kubevirtv1.VirtualMachineInstancePaused) {
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
	case !hasCondition(vmi, kubevirtv1.VirtualMachineInstanceAgentConnected):
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

// checkReachable comes after every other check: it fails unless the guest's node can answer for it in this phase.
func checkReachable(vmi *kubevirtv1.VirtualMachineInstance) error {
	if !vmi.IsRunning() && !vmi.IsScheduled() {
		return apierrors.NewBadRequest(
			fmt.Sprintf("Unable to connect to VirtualMachineInstance because phase is %s instead of %s or %s",
				vmi.Status.Phase, kubevirtv1.Running, kubevirtv1.Scheduled))
	}
	return nil
}

// hasCondition reports whether a condition of the instance is true.
func hasCondition(vmi *kubevirtv1.VirtualMachineInstance, kind kubevirtv1.VirtualMachineInstanceConditionType) bool {
	for i := range vmi.Status.Conditions {
		if c := &vmi.Status.Conditions[i]; c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// internalError returns KubeVirt's 500.
func internalError(text string) error { return apierrors.NewInternalError(errors.New(text)) }
