package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/virtflow/virtflow/workflows/contract"
)

// What is taken over of the file that the launcher's program writes, in bytes and in elements; a real one has some 10
// KiB.
const (
	maxFile     = 256 << 10
	maxElements = 512
	maxName     = 63 // of a label
)

// ReadCapabilities reads what the launcher's libvirt and QEMU offer on this host.
func ReadCapabilities(path string) (*contract.HostCapabilities, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading what this host offers guests: %w", err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, fmt.Errorf("reading what this host offers guests: %w", err)
	}
	var c contract.HostCapabilities
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("reading what this host offers guests: %w", err)
	}
	for _, list := range []*[]string{&c.MachineTypes, &c.CPUModels, &c.CPUFeatures, &c.HostModelFeatures} {
		var kept []string
		for _, name := range (*list)[:min(maxElements, len(*list))] {
			if name != "" && len(name) <= maxName {
				kept = append(kept, name)
			}
		}
		*list = kept
	}
	if len(c.HostModel) > maxName || len(c.VirtType) > maxName {
		return nil, fmt.Errorf("reading what this host offers guests: a name is longer than %d bytes", maxName)
	}
	return &c, nil
}
