package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// handle is one running process, a child or an adopted one.
type handle struct {
	pid   int
	since time.Time
	fd    int           // a pidfd: it can never mean another process
	done  chan struct{} // closed when the process has ended
	end   string        // how; read only after done
}

// record identifies the process for a later supervisor.
type record struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // in clock ticks since boot: a PID alone may be used again
	Hash  string `json:"hash"`
	Boot  string `json:"boot"`
	// Since is when it was started.
	Since time.Time `json:"since"`
}

// start starts the process, its output appended to the log.
func start(s Spec, log string) (*handle, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", s.Name, err)
	}
	defer out.Close()
	h := &handle{since: time.Now(), fd: -1, done: make(chan struct{})}
	cmd := exec.Command(s.Args[0], s.Args[1:]...)
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, PidFD: &h.fd}
	if s.Isolated {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
			syscall.CLONE_NEWUTS
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	h.pid = cmd.Process.Pid
	go func() {
		err := cmd.Wait()
		h.end = "ended by itself with success"
		if err != nil {
			h.end = err.Error()
		}
		_ = unix.Close(h.fd)
		close(h.done)
	}()
	return h, nil
}

// adopt takes over the process of a record, when it is still the same one.
func adopt(r record) (*handle, error) {
	fd, err := unix.PidfdOpen(r.PID, 0)
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", r.PID, err)
	}
	// Compared after opening: from here on the descriptor means this process.
	if start, err := startTime(r.PID); err != nil || start != r.Start || bootID() != r.Boot {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("process %d is another one by now", r.PID)
	}
	h := &handle{pid: r.PID, since: r.Since, fd: fd, done: make(chan struct{})}
	go func() {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			if _, err := unix.Poll(poll, -1); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		h.end = "ended; how is unknown, as an earlier supervisor started it"
		_ = unix.Close(fd)
		close(h.done)
	}()
	return h, nil
}

func (h *handle) signal(s syscall.Signal) {
	select {
	case <-h.done:
	default:
		// It may end right now; then there is nothing to do.
		_ = unix.PidfdSendSignal(h.fd, s, nil, 0)
	}
}

// save writes down which process it is.
func (h *handle) save(path, hash string) error {
	start, err := startTime(h.pid)
	if err != nil {
		return fmt.Errorf("record the process: %w", err)
	}
	data, err := json.Marshal(record{PID: h.pid, Start: start, Hash: hash, Boot: bootID(), Since: h.since})
	if err != nil {
		return fmt.Errorf("record the process: %w", err)
	}
	if err := renameio.WriteFile(path, data, 0o644, renameio.WithTempDir(filepath.Dir(path))); err != nil {
		return fmt.Errorf("record the process: %w", err)
	}
	return nil
}

func readRecord(path string) (record, error) {
	var r record
	data, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(data, &r)
}

// startTime is field 22 of /proc/PID/stat. A process that has ended and only waits to be reaped counts as gone.
func startTime(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	_, after, ok := strings.Cut(string(data), ") ")
	fields := strings.Fields(after)
	if !ok || len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return fields[19], nil
}

func bootID() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data))
}

// Alive reports whether a process exists and has not ended.
func Alive(pid int) bool {
	_, err := startTime(pid)
	return err == nil
}
