package launcher

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/contract"
)

// ReadVMI reads the VMI that Kubernetes has mounted into the pod.
func ReadVMI(path string) (*v1.VirtualMachineInstance, error) {
	b, err := os.ReadFile(path) // named by the pod's own command line
	if err != nil {
		return nil, fmt.Errorf("reading the VMI: %w", err)
	}
	vmi := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(b, vmi); err != nil {
		return nil, fmt.Errorf("reading the VMI from %s: %w", path, err)
	}
	if vmi.Name == "" || vmi.Namespace == "" {
		return nil, fmt.Errorf("reading the VMI from %s: it has no name or namespace", path)
	}
	return vmi, nil
}

// GracePeriod returns the time that the guest has to shut down; 0 if it has none.
func GracePeriod(vmi *v1.VirtualMachineInstance) time.Duration {
	return contract.Grace(vmi.Spec.TerminationGracePeriodSeconds)
}
