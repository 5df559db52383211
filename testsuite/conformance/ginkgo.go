package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// sharedStorage is the StorageClass of make storage.
const sharedStorage = "shared"

// endTime is how long an interrupted run may take to remove what its specs have made.
const endTime = 5 * time.Minute

// run has what runs specs.
type run struct {
	// ginkgo and tests are programs.
	ginkgo, tests string
	// folder has the reports, and Ginkgo's output.
	folder    string
	processes int
	// attempts is how often a spec may run until it passes.
	attempts int
	lasts    time.Duration
	out      io.Writer
}

// dryRun returns a report on all specs, none of which runs. It needs no cluster.
func (r run) dryRun(ctx context.Context) (report, error) {
	const name = "specs.json"
	cmd := r.command(ctx, r.tests, "-ginkgo.dry-run", "-ginkgo.json-report="+name, "-artifacts="+r.folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		return report{}, fmt.Errorf("list the specs: %w: %s", err, out)
	}
	return readReport(filepath.Join(r.folder, name))
}

// execute runs specs in several processes, and returns the report on all specs. Each process has namespaces of its own.
func (r run) execute(ctx context.Context, specs []spec, flags []string) (report, error) {
	const name = "report.json"
	path := filepath.Join(r.folder, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return report{}, fmt.Errorf("remove the report of an earlier run: %w", err)
	}
	args := []string{"run", "--procs=" + strconv.Itoa(r.processes), "--timeout=" + r.lasts.String(), "--no-color",
		"--flake-attempts=" + strconv.Itoa(r.attempts), "--silence-skips", "--output-dir=" + r.folder, "--json-report=" + name}
	args = append(append(args, focusFiles(specs)...), r.tests, "--")
	cmd := r.command(ctx, r.ginkgo, append(args, flags...)...)
	cmd.Env = append(os.Environ(), "REPORTER_MAX_FAILS=-1") // no state of the cluster for each failure
	cmd.Stdout, cmd.Stderr = r.out, r.out
	// Ginkgo ends at the first interrupt in order, and at the second one at once. So it gets none of the terminal's.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// Its command line does not pass an interrupt on to the processes with the specs.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = endTime
	ran := cmd.Run() // fails also when a spec does
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what has not ended by now
	}
	got, err := readReport(path)
	if err != nil {
		return report{}, errors.Join(ran, err)
	}
	return got, got.failedPreparation()
}

func (r run) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = r.folder
	return cmd
}

// writeConfiguration writes the tests' own configuration, and returns its path.
func (r run) writeConfiguration(hasStorage bool) (string, error) {
	config := map[string]string{}
	if hasStorage {
		for _, of := range []string{"RWXFileSystem", "RWXBlock", "RWOFileSystem", "RWOBlock", "Snapshot", "VMState",
			"ClassCSI"} {
			config["storage"+of] = sharedStorage
		}
	}
	data, err := json.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("write the tests' configuration: %w", err)
	}
	path := filepath.Join(r.folder, "configuration.json")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return "", fmt.Errorf("write the tests' configuration: %w", err)
	}
	return path, nil
}
