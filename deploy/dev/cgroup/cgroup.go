package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const mount = "/sys/fs/cgroup"

// unified is the version 2 hierarchy beside version 1. It has no controllers, so no group is made in it; but container
// runtimes put groups there.
const unified = "unified"

// hierarchies returns the mount points of the machine's hierarchies. With version 1 there is one for each controller;
// symlinks (cpu → cpu,cpuacct) are skipped.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err == nil {
		return []string{mount}, nil
	}
	entries, err := os.ReadDir(mount)
	if err != nil {
		return nil, fmt.Errorf("read the cgroup hierarchies: %w", err)
	}
	var found []string
	for _, e := range entries {
		if e.IsDir() {
			found = append(found, filepath.Join(mount, e.Name()))
		}
	}
	return found, nil
}

// Make makes the group of that name in every hierarchy; an existing one is kept.
func Make(name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if filepath.Base(root) == unified {
			continue
		}
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make the cgroup %s: %w", dir, err)
		}
		// A new cpuset has neither processors nor memory, and so takes no process.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(root, file))
			if err != nil || filepath.Base(root) != "cpuset" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
				return fmt.Errorf("set up the cgroup %s: %w", dir, err)
			}
		}
	}
	return nil
}

// Join moves the calling process into the group in every hierarchy. Its later children start there.
func Join(name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	pid := []byte(strconv.Itoa(os.Getpid()))
	for _, root := range roots {
		if filepath.Base(root) == unified {
			continue
		}
		file := filepath.Join(root, name, "cgroup.procs")
		if err := os.WriteFile(file, pid, 0o644); err != nil {
			return fmt.Errorf("enter the cgroup %s: %w", filepath.Dir(file), err)
		}
	}
	return nil
}

// Processes returns the processes in the group and beneath it, in any hierarchy.
func Processes(name string) ([]int, error) {
	roots, err := hierarchies()
	if err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	for _, root := range roots {
		err := filepath.WalkDir(filepath.Join(root, name), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() != "cgroup.procs" {
				return ignoreGone(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return ignoreGone(err)
			}
			for _, field := range strings.Fields(string(data)) {
				if pid, err := strconv.Atoi(field); err == nil {
					seen[pid] = true
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list the processes of the cgroup %s: %w", name, err)
		}
	}
	pids := make([]int, 0, len(seen))
	for pid := range seen {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids, nil
}

// Kill kills every process in the group and beneath it, except the caller, and returns when none is left.
func Kill(ctx context.Context, name string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		pids, err := Processes(name)
		if err != nil {
			return err
		}
		pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getpid() || zombie(pid) })
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // one that is gone already is what is wanted
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("end the processes of the cgroup %s: %v are still there: %w", name, pids, ctx.Err())
		case <-tick.C:
		}
	}
}

// Remove removes the group and everything beneath it in every hierarchy. It has
// to be empty of processes; a group that is just being emptied is waited for.
func Remove(ctx context.Context, name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		for {
			err := removeTree(filepath.Join(root, name))
			if err == nil {
				break
			}
			if !errors.Is(err, syscall.EBUSY) || ctx.Err() != nil {
				return fmt.Errorf("remove the cgroup: %w", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}

// removeTree removes directories only: a cgroup's files go with its directory.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ignoreGone(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return ignoreGone(syscall.Rmdir(dir), dir)
}

func ignoreGone(err error, path ...string) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	if len(path) > 0 {
		return fmt.Errorf("%s: %w", path[0], err)
	}
	return err
}

// zombie reports whether a process has ended and only waits to be reaped.
func zombie(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, ok := strings.Cut(string(data), ") ")
	return ok && strings.HasPrefix(after, "Z")
}
