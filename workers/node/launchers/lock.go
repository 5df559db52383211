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
	procDir := filepath.Dir(p.proc.Name())
	pids, err := members(procDir, theirs)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := allowLocking(procDir, pid, theirs); err != nil {
			return err
		}
	}
	return nil
}

// members returns the processes that are in the same cgroups.
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
		if isMember(procDir, pid, cgroups) {
			out = append(out, pid)
		}
	}
	return out, nil
}

// isMember reports whether a process is in these cgroups. One that has ended is not.
func isMember(procDir string, pid int, cgroups []byte) bool {
	theirs, err := os.ReadFile(filepath.Join(procDir, strconv.Itoa(pid), "cgroup"))
	return err == nil && bytes.Equal(theirs, cgroups)
}

// allowLocking raises the limit of a process, unless it has ended and another one of its ID is not in these cgroups.
// prlimit(2) takes no pidfd, so the ID could still be given to another process between the last check and the call:
// that one would have to come and go within microseconds with all other IDs.
func allowLocking(procDir string, pid int, cgroups []byte) error {
	process, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("letting process %d lock memory: %w", pid, err)
	}
	defer unix.Close(process)
	// Where the process lives on after its cgroups were read, they are its own.
	if !isMember(procDir, pid, cgroups) || errors.Is(unix.PidfdSendSignal(process, 0, nil, 0), unix.ESRCH) {
		return nil
	}
	all := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(pid, unix.RLIMIT_MEMLOCK, &all, nil); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("letting process %d lock memory: %w", pid, err)
	}
	return nil
}
