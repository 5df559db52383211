package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/virtflow/virtflow/deploy/dev/cgroup"
	"github.com/virtflow/virtflow/deploy/dev/controlplane"
	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/deploy/dev/node"
	"github.com/virtflow/virtflow/deploy/dev/supervise"
	"github.com/virtflow/virtflow/internal/pki"
)

// handover is the time that one supervisor has to end before the next.
const handover = 15 * time.Second

// ensureSupervisor starts the supervisor of a cluster's processes, unless it already runs with this description. One
// that runs with another description is replaced: its processes keep running, and only those whose specification
// differs are restarted.
func (c Cluster) ensureSupervisor(ctx context.Context, d controlplane.Cluster) error {
	version, err := c.install(d)
	if err != nil {
		return err
	}
	if report, err := c.supervisor().Report(ctx); err == nil {
		if report.Version == version && !report.Finishing {
			return nil
		}
		// One that is finishing, because a run of down was killed, must reach its end.
		if err := c.supervisor().Finish(ctx, false); err != nil && supervise.Alive(report.PID) {
			return err
		}
		if err := waitForEnd(ctx, report.PID, stopTime); err != nil {
			return fmt.Errorf("replace the supervisor: %w", err)
		}
	}
	log, err := os.OpenFile(c.Layout.Log("supervisor"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the supervisor's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(c.Layout.Program(), "supervise")
	// Nothing of the caller's environment leaks into the cluster.
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8",
		"VIRTFLOW_STATE=" + c.Layout.State, "VIRTFLOW_VERSION=" + version,
	}
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return c.waitForSupervisor(ctx, version, ended)
}

func (c Cluster) waitForSupervisor(ctx context.Context, version string, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, handover)
	defer cancel()
	for {
		report, err := c.supervisor().Report(ctx)
		if err == nil && report.Version == version {
			return nil
		}
		select {
		case end := <-ended:
			return fmt.Errorf("the supervisor ended at once: %w; see %s", errors.Join(end), c.Layout.Log("supervisor"))
		case <-ctx.Done():
			return fmt.Errorf("wait for the supervisor: %w; see %s", ctx.Err(), c.Layout.Log("supervisor"))
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// install writes the description and a copy of this program, and returns a version that identifies both.
func (c Cluster) install(d controlplane.Cluster) (string, error) {
	description, err := d.Save()
	if err != nil {
		return "", err
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("read this program: %w", err)
	}
	config, err := os.ReadFile(filepath.Join(c.Layout.Repo, "temporal-dev.yaml"))
	if err != nil {
		return "", fmt.Errorf("read Temporal's configuration: %w", err)
	}
	sum := sha256.New()
	for _, data := range [][]byte{description, program, config} {
		_, _ = sum.Write(data)
	}
	// Processes that run the old copy continue: the file is replaced, not changed.
	if err := pki.WriteFile(c.Layout.Program(), program, 0o755); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// Supervise runs the supervisor in the background until it is asked to finish, or gets SIGTERM.
func Supervise(ctx context.Context, log zerolog.Logger) error {
	state := layout.Layout{State: os.Getenv("VIRTFLOW_STATE")}
	d, err := controlplane.Load(state)
	if err != nil {
		return err
	}
	lock, err := os.OpenFile(d.Layout.Path("run", "supervisor.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("open the supervisor's lock: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.New("another supervisor is running")
	}
	if err := cgroup.Make(hostCgroup); err != nil {
		return err
	}
	if err := cgroup.Join(hostCgroup); err != nil {
		return err
	}
	if err := node.EnsureBridge(ctx); err != nil {
		return err
	}
	specs, err := d.Specs()
	if err != nil {
		return err
	}
	s, err := supervise.New(supervise.Options{
		Log: log, Logs: d.Layout.Path("log"), Records: d.Layout.Path("run"), Version: os.Getenv("VIRTFLOW_VERSION"),
	}, specs)
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		served <- s.Serve(ctx, d.Layout.Control("supervisor"))
		cancel()
	}()
	s.Run(ctx)
	cancel()
	return <-served
}

// waitForEnd waits until a process is gone.
func waitForEnd(ctx context.Context, pid int, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for supervise.Alive(pid) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d does not end: %w", pid, ctx.Err())
		case <-time.After(30 * time.Millisecond):
		}
	}
	return nil
}
