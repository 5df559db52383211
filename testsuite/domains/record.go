package domains

import (
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtflow/virtflow/testsuite/suite"
)

// Variant is a cluster and a host for which a case was recorded.
type Variant string

// The variants.
const (
	KVM      Variant = "kvm"
	Emulated Variant = "emulated"
	Stage    Variant = "kvm-stage"
	Block    Variant = "kvm-block"
)

// Record is one case of either file.
type Record struct {
	ID     string                            `json:"id"`
	Title  string                            `json:"title"`
	Config string                            `json:"config"` // default or open
	VMI    kubevirtv1.VirtualMachineInstance `json:"vmi"`
	Facts  struct {
		DirectIO bool              `json:"directIO"`
		PodMTU   int               `json:"podMTU"`
		Claims   map[string]string `json:"claims"` // volume mode by name
		// Permitted are the resources that the configuration permits as host devices.
		Permitted []string `json:"permittedHostDevices"`
	} `json:"facts"`
	Domains map[Variant]string     `json:"domains"`
	Pods    map[Variant]corev1.Pod `json:"pods"`
	Ports   struct {
		Extra        int `json:"extra"`
		Placeholders int `json:"placeholders"`
	} `json:"hotplug_ports"`
}

// Read reads a file of records.
func Read(name string) ([]*Record, error) { return suite.ReadRecorded[Record](name) }
