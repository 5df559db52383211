package launchers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// AllowLocking lets the launcher, and what it has started, lock as much memory as its pod may have: what a device of
// the host reads and writes must stay where it is, and only a privileged process can raise the limit. QEMU, which is
// started later, inherits it.
func (p *Peer) AllowLocking() error {
	cgroup, err := p.open("cgroup", unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer cgroup.Close()
	theirs, err := io.ReadAll(io.LimitReader(cgroup, cgroupFileLimit))
	if err != nil {
		return fmt.Errorf("reading the cgroup of process %d: %w", p.PID, err)
	}
	pids, err := members(filepath.Dir(p.proc.Name()), theirs)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := allowLocking(pid); err != nil {
			return err
		}
	}
	return nil
}

// members are the processes that are in the same cgroups.
func members(procDir string, cgroups []byte) ([]int, error) {
	entries, err := os.ReadDir(procDir)
	if err != nil {
		return nil, fmt.Errorf("looking for the processes of a pod: %w", err)
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// One that has ended meanwhile needs nothing.
		theirs, err := os.ReadFile(filepath.Join(procDir, e.Name(), "cgroup"))
		if err == nil && bytes.Equal(theirs, cgroups) {
			out = append(out, pid)
		}
	}
	return out, nil
}

func allowLocking(pid int) error {
	all := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(pid, unix.RLIMIT_MEMLOCK, &all, nil); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("letting process %d lock memory: %w", pid, err)
	}
	return nil
}
