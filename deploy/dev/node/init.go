package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/virtflow/virtflow/deploy/dev/cgroup"
)

// Init is PID 1 of a node: it gives the node its own view of the file system, starts the agent, and from then on only
// reaps what ends. It returns when the agent has ended, and with it ends the node.
func Init(c Config, agent []string) error {
	if os.Getpid() != 1 {
		return errors.New("this is a node's first process: only the supervisor starts it")
	}
	if err := cgroup.Make(c.Node.Cgroup()); err != nil {
		return err
	}
	if err := mountAll(c); err != nil {
		return err
	}
	if err := syscall.Sethostname([]byte(c.Node.Name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	setSysctls()
	return runAndReap(agent)
}

// mountAll makes the mounts of the node. The namespace is the node's own already; mounts within it are shared, so that
// pods with Bidirectional propagation can hand theirs on.
func mountAll(c Config) error {
	const private, shared = syscall.MS_REC | syscall.MS_PRIVATE, syscall.MS_REC | syscall.MS_SHARED
	if err := mount("", "/", "", private, ""); err != nil {
		return err
	}
	if err := mount("", "/", "", shared, ""); err != nil {
		return err
	}
	if err := mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return err
	}
	// The node's own /run: containerd's state, pods' network namespaces, locks.
	if err := mount("tmpfs", "/run", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	for dir, mode := range map[string]os.FileMode{"/run/containerd": 0o711, "/run/netns": 0o755, "/run/lock": 0o1777} {
		if err := os.MkdirAll(dir, mode); err != nil {
			return fmt.Errorf("make %s: %w", dir, err)
		}
	}
	// Addresses that pods had do not outlive the node's pods.
	if err := mount("tmpfs", "/var/lib/cni", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755"); err != nil {
		return err
	}
	for from, to := range map[string]string{
		"kubelet": "/var/lib/kubelet", "containerd": "/var/lib/containerd", "virtflow": "/var/lib/virtflow",
		"cni-net.d": "/etc/cni/net.d", "log-pods": "/var/log/pods", "log-containers": "/var/log/containers",
	} {
		from = c.Layout.Dir(c.Node, from)
		if err := os.MkdirAll(from, 0o755); err != nil {
			return fmt.Errorf("make a folder of the node: %w", err)
		}
		if err := mount(from, to, "", syscall.MS_BIND, ""); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Dir(c.Layout.ContainerdSocket(c.Node)), 0o755)
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := syscall.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	return nil
}

// setSysctls sets what routing between pods needs. A setting that the kernel
// does not have is not needed with that kernel.
func setSysctls() {
	for name, value := range map[string]string{
		"net/ipv4/ip_forward":                "1",
		"net/bridge/bridge-nf-call-iptables": "1", // kube-proxy sees traffic between pods of the node
	} {
		_ = os.WriteFile("/proc/sys/"+name, []byte(value), 0o644)
	}
}

// runAndReap starts the agent and reaps every process that is left to PID 1 until the agent has ended.
func runAndReap(agent []string) error {
	cmd := exec.Command(agent[0], agent[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the node's agent: %w", err)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("wait for the node's processes: %w", err)
		case pid == cmd.Process.Pid:
			return fmt.Errorf("the node's agent ended with %s", describe(status))
		}
	}
}

func describe(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "signal " + strings.ToUpper(s.Signal().String())
	}
	return fmt.Sprintf("exit code %d", s.ExitStatus())
}
