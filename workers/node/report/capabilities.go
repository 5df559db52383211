package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/virtflow/virtflow/contract"
)

// maxFile is how much is read of the file that the launcher's program writes, in bytes; a real one has some 10 KiB.
const maxFile = 256 << 10

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
	if len(c.HostModel) > contract.LongestCapability || len(c.VirtType) > contract.LongestCapability {
		return nil, fmt.Errorf("reading what this host offers guests: a name is longer than %d bytes", contract.LongestCapability)
	}
	c = c.Bounded()
	return &c, nil
}
