package reaper

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pidOffset is the offset of a child's process ID in siginfo_t on 64-bit machines.
const pidOffset = 16

// ownerDelay is the time that the code which started a process has to collect it before the reaper checks again.
const ownerDelay = 20 * time.Millisecond

// Reaper starts processes and collects all others. The launcher starts every process through it.
type Reaper struct {
	mu    sync.Mutex
	own   map[int]struct{}
	again chan struct{}
}

// New returns a Reaper, which collects nothing before Reap runs.
func New() *Reaper {
	return &Reaper{own: map[int]struct{}{}, again: make(chan struct{}, 1)}
}

// Start is like cmd.Start. The caller must call Wait.
func (r *Reaper) Start(cmd *exec.Cmd) error {
	// Under the lock no process can end between its start and its registration.
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	r.own[cmd.Process.Pid] = struct{}{}
	return nil
}

// Wait is like cmd.Wait.
func (r *Reaper) Wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	r.mu.Lock()
	delete(r.own, cmd.Process.Pid)
	r.mu.Unlock()
	select {
	case r.again <- struct{}{}:
	default:
	}
	return err
}

// Run starts cmd, passes its process ID to started, and waits for it.
func (r *Reaper) Run(cmd *exec.Cmd, started func(pid int)) error {
	if err := r.Start(cmd); err != nil {
		return err
	}
	if started != nil {
		started(cmd.Process.Pid)
	}
	return r.Wait(cmd)
}

// Reap collects orphans until ctx ends.
func (r *Reaper) Reap(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		var again <-chan time.Time
		if !r.sweep() {
			again = time.After(ownerDelay)
		}
		select {
		case <-ctx.Done():
			return
		case <-ended:
		case <-r.again:
		case <-again:
		}
	}
}

// sweep collects orphans, and reports whether it has collected all: a process of the launcher that has ended may hide
// others.
// others.
func (r *Reaper) sweep() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		pid, err := peek()
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid == 0 {
			return true
		}
		if _, ours := r.own[pid]; ours {
			return false
		}
		// The process was not started through the Reaper: its status is not needed.
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
}

// peek returns the process ID of an ended child without collecting it; 0 if there is none.
func peek() (int, error) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err != nil {
		return 0, err
	}
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), pidOffset))), nil
}
