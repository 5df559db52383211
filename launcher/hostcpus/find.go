package hostcpus

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/virtflow/virtflow/launcher/domain"
)

// Directory is the kernel's description of the host's CPUs.
const Directory = "/sys/devices/system/cpu"

// Find lists the CPUs on which this process may run. The kernel reports up to 1024 CPUs this way, and fails on hosts
// with more.
func Find() ([]domain.HostCPU, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("reading the pod's CPUs: %w", err)
	}
	var ids []int
	for id := range len(set) * strconv.IntSize {
		if set.IsSet(id) {
			ids = append(ids, id)
		}
	}
	return describe(Directory, ids)
}

// describe determines the core and the NUMA node of each CPU. A core is named after its first CPU.
func describe(dir string, ids []int) ([]domain.HostCPU, error) {
	var out []domain.HostCPU
	for _, id := range ids {
		cpu := filepath.Join(dir, "cpu"+strconv.Itoa(id))
		siblings, err := os.ReadFile(filepath.Join(cpu, "topology", "thread_siblings_list"))
		if err != nil {
			return nil, fmt.Errorf("reading the core of CPU %d: %w", id, err)
		}
		core, err := first(string(siblings))
		if err != nil {
			return nil, fmt.Errorf("reading the core of CPU %d: %w", id, err)
		}
		node, err := nodeOf(cpu)
		if err != nil {
			return nil, fmt.Errorf("reading the NUMA node of CPU %d: %w", id, err)
		}
		out = append(out, domain.HostCPU{ID: id, Core: core, Node: node})
	}
	return out, nil
}

// first returns the first CPU of a list such as 3,7 or 0-1.
func first(list string) (int, error) {
	if end := strings.IndexAny(list, ",-\n"); end >= 0 {
		list = list[:end]
	}
	return strconv.Atoi(list)
}

// nodeOf returns the NUMA node of a CPU's directory; a kernel without NUMA has one node.
func nodeOf(cpu string) (int, error) {
	const name = "node"
	found, err := filepath.Glob(filepath.Join(cpu, name+"[0-9]*"))
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return strconv.Atoi(strings.TrimPrefix(filepath.Base(found[0]), name))
}
