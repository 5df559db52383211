package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/virtflow/virtflow/deploy/images/sandbox"
)

const (
	// User is the user and group of a launcher pod: Debian's and KubeVirt's number for QEMU.
	User = 107
	// Private is the directory of the daemon's files, seen from inside.
	Private = "/run/virtflow/private"
	// readyWait is the time that the daemon has until it listens; on a loaded machine it needs seconds.
	readyWait = 60 * time.Second
)

const daemonConfig = `listen_tls = 0
listen_tcp = 0
auth_unix_ro = "none"
auth_unix_rw = "none"
log_outputs = "2:file:` + Private + `/libvirtd.log"
`

const qemuConfig = `stdio_handler = "file"
security_driver = "none"
cgroup_controllers = [ ]
namespaces = [ ]
remember_owner = 0
`

// Daemon is a running libvirtd. Not safe for concurrent use.
type Daemon struct {
	// Dir is Private as the host sees it.
	Dir   string
	virsh string // root of the unpacked packages that have virsh
	cmd   *exec.Cmd
	said  bytes.Buffer
	ended chan error
}

// Start starts the daemon of the launcher root (unpacked as in the image), keeping its state beneath dir, and waits
// until it listens. tools is the root of unpacked packages with virsh and its libraries. Mounts are shown in addition.
func Start(ctx context.Context, root, tools, dir string, mounts ...sandbox.Mount) (*Daemon, error) {
	d := &Daemon{Dir: filepath.Join(dir, "private"), virsh: tools, ended: make(chan error, 1)}
	if err := d.configure(dir); err != nil {
		return nil, fmt.Errorf("prepare libvirtd: %w", err)
	}
	cmd, err := sandbox.Command(ctx, sandbox.Plan{
		Root: root, Mounts: append([]sandbox.Mount{{Host: d.Dir, Inside: Private}}, mounts...), UID: User, GID: User,
		Env: []string{
			"PATH=/usr/bin:/usr/sbin", "HOME=" + Private, "XDG_RUNTIME_DIR=" + Private + "/run",
			"XDG_CACHE_HOME=" + Private + "/cache",
			"XDG_CONFIG_HOME=" + Private + "/config", "XDG_DATA_HOME=" + Private + "/data",
		},
		Argv: []string{"/usr/sbin/libvirtd", "--config", Private + "/config/libvirt/libvirtd.conf"},
	})
	if err != nil {
		return nil, fmt.Errorf("start libvirtd: %w", err)
	}
	d.cmd = cmd
	cmd.Stdout, cmd.Stderr = &d.said, &d.said
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start libvirtd in a sandbox (this needs root): %w", err)
	}
	go func() { d.ended <- cmd.Wait() }()
	if err := d.awaitSocket(ctx); err != nil {
		d.Stop()
		return nil, err
	}
	return d, nil
}

func (d *Daemon) configure(dir string) error {
	for name, content := range map[string]string{
		"config/libvirt/libvirtd.conf": daemonConfig, "config/libvirt/qemu.conf": qemuConfig, "run/.keep": "",
		"cache/.keep": "", "data/.keep": "",
	} {
		path := filepath.Join(d.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	// virsh runs as the same user and must get through to the socket.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	return filepath.WalkDir(d.Dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, User, User)
	})
}

func (d *Daemon) socket() string { return filepath.Join(d.Dir, "run", "libvirt", "libvirt-sock") }

func (d *Daemon) awaitSocket(ctx context.Context) error {
	deadline := time.After(readyWait)
	for {
		if _, err := os.Stat(d.socket()); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-d.ended:
			d.ended <- err
			return fmt.Errorf("libvirtd ended at once: %w: %s", err, d.Said())
		case <-deadline:
			return fmt.Errorf("libvirtd did not listen within %s: %s", readyWait, d.Said())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Virsh runs one virsh command against the daemon and returns what it printed.
func (d *Daemon) Virsh(ctx context.Context, args ...string) (string, error) {
	libraries := []string{filepath.Join(d.virsh, "usr/lib/x86_64-linux-gnu"),
		filepath.Join(d.virsh, "lib/x86_64-linux-gnu")}
	linker := filepath.Join(libraries[1], "ld-linux-x86-64.so.2")
	cmd := exec.CommandContext(ctx, linker, append([]string{
		"--library-path", strings.Join(libraries, ":"), filepath.Join(d.virsh, "usr/bin/virsh"),
		"--connect", "qemu+unix:///session?socket=" + d.socket(),
	}, args...)...)
	cmd.Env = []string{"HOME=" + d.Dir, "XDG_RUNTIME_DIR=" + d.Dir + "/run", "XDG_CACHE_HOME=" + d.Dir + "/cache",
		"LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: User, Gid: User}}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(out), fmt.Errorf("virsh %s: %s", strings.Join(args, " "), strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return string(out), fmt.Errorf("virsh %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// Said returns the end of the daemon's output and log, for error messages.
func (d *Daemon) Said() string {
	logged, _ := os.ReadFile(filepath.Join(d.Dir, "libvirtd.log"))
	text := strings.TrimSpace(d.said.String() + string(logged))
	return text[max(0, len(text)-2000):]
}

// Stop ends the daemon and every process in its sandbox.
func (d *Daemon) Stop() {
	_ = d.cmd.Process.Kill() // it may have ended by itself
	<-d.ended                //nolint:errcheck // it was sent a signal
}
