//go:build libvirt

package realtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/virtflow/virtflow/contract"
	"github.com/virtflow/virtflow/launcher/rpc"
)

const (
	qemuUser = 107 // as in the image
	// deadline bounds a hang: a guest with UEFI takes a minute and a half to boot where others use the cores.
	deadline = 4 * time.Minute
	poll     = 20 * time.Millisecond
)

// pod is one launcher with its directories, as Kubernetes would give them.
type pod struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	exited chan struct{}
	client rpc.LauncherClient
	// namespace is the network namespace that it runs in; empty: this process's.
	namespace string
	// mount is where the pod sees its directories: two pods that a guest moves between see them at the same path.
	mount   string
	logPath string
	serial  net.Conn // a serial port has one client at a time
}

// vmi of the tests, with the parts that a test wants otherwise.
func vmi(change func(spec map[string]any)) string {
	spec := map[string]any{}
	base := `{"terminationGracePeriodSeconds":60,"domain":{"memory":{"guest":"128Mi"},"cpu":{"cores":1},
	 "devices":{"rng":{},"disks":[{"name":"root","bootOrder":1,"disk":{"bus":"virtio"}},
	 {"name":"scratch","disk":{"bus":"virtio"}},{"name":"seed","disk":{"bus":"virtio"}}]}},
	 "volumes":[{"name":"root","containerDisk":{"image":"guest"}},{"name":"scratch","emptyDisk":{"capacity":"16Mi"}},
	 {"name":"seed","cloudInitNoCloud":{}}]}`
	if err := json.Unmarshal([]byte(base), &spec); err != nil {
		panic(err)
	}
	if change != nil {
		change(spec)
	}
	b, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"name": "vm1", "namespace": "default", "uid": "0f1e"}, "spec": spec})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func newPod(t *testing.T, object string) *pod {
	t.Helper()
	return newPodIn(t, object, "")
}

func newPodIn(t *testing.T, object, namespace string) *pod {
	t.Helper()
	return newPodAt(t, object, namespace, "")
}

func newPodAt(t *testing.T, object, namespace, mount string) *pod {
	t.Helper()
	require.Zero(t, os.Getuid(), "these tests need root, to give the launcher less")
	dir, err := os.MkdirTemp("", "vf")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &pod{t: t, dir: dir, namespace: namespace, mount: mount, exited: make(chan struct{}),
		logPath: filepath.Join(dir, "log")}
	for _, d := range []string{"private", "disks", "sockets", "tmp", "images/root/disk", "cloud-init/seed", "claims",
		"devices", "kernel-boot/boot", "state"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	guest, err := os.ReadFile(filepath.Join(image(t, "guest"), "disk/disk.img"))
	require.NoError(t, err)
	for path, content := range map[string][]byte{
		"images/root/disk/disk.img": guest,
		"cloud-init/seed/userdata":  []byte("#cloud-config\nhostname: vm1\n"),
		"vmi.json":                  []byte(object),
		"termination":               nil,
		"resolv.conf":               []byte("nameserver 10.212.0.10\nsearch default.svc.cluster.local\n"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), content, 0o600))
	}
	require.NoError(t, filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, qemuUser, qemuUser)
	}))
	require.NoError(t, os.Chmod(dir, 0o755)) // the launcher is another user
	p.start()
	return p
}

func (p *pod) start() {
	log, err := os.Create(p.logPath)
	require.NoError(p.t, err)
	defer log.Close() //nolint:errcheck // the child has its own
	before := []string{}
	if p.namespace != "" {
		// The node worker gives the pod a tun device of its user's own; here it is laid over the machine's.
		require.NoError(p.t, unix.Mknod(p.at("tun"), unix.S_IFCHR|0o600, int(unix.Mkdev(10, 200))))
		require.NoError(p.t, os.Lchown(p.at("tun"), qemuUser, qemuUser))
		before = []string{"ip", "netns", "exec", p.namespace, "sh", "-c", `mount --bind "$0" /dev/net/tun && exec "$@"`,
			p.at("tun")}
	}
	if p.mount != "" {
		// libvirt distinguishes two hosts by their names, and resolves its own.
		name := filepath.Base(p.dir)
		hosts := "127.0.0.1 localhost " + name + "\n"
		require.NoError(p.t, os.WriteFile(p.at("hosts"), []byte(hosts), 0o644))
		require.NoError(p.t, os.MkdirAll(p.mount, 0o755))
		before = append(before, "unshare", "--mount", "--uts", "sh", "-c",
			`mount --bind "$0" "$1" && mount --bind "$0/hosts" /etc/hosts && hostname "$2" && shift 2 && exec "$@"`,
			p.dir, p.mount, name)
	}
	root, user := image(p.t, "launcher"), fmt.Sprintf("%d:%d", qemuUser, qemuUser)
	// The image is all that the pod sees besides its directories. chroot needs three capabilities; nothing beneath it
	// can get them, since it is another user without new privileges.
	command := slices.Concat(before, []string{"unshare", "--mount", "sh", "-c", enterImage, root, os.TempDir()},
		[]string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc=" + root + "/proc",
			"setpriv", "--inh-caps", "-all", "--bounding-set", "-all,+sys_chroot,+setuid,+setgid", "--no-new-privs",
			"chroot", "--userspec", user, "--groups", "", root,
			"/usr/bin/launcher", "--vmi", p.inside("vmi.json"), "--termination-message", p.inside("termination"),
			"--socket", p.inside("sockets/launcher.sock"), "--private-dir", p.inside("private"),
			"--disks-dir", p.inside("disks"), "--claims-dir", p.inside("claims"), "--devices-dir", p.inside("devices"),
			"--container-disks-dir", p.inside("images"), "--cloud-init-dir", p.inside("cloud-init"),
			"--files-dir", p.inside("files"), "--access-credentials-dir", p.inside("access-credentials"),
			"--kernel-boot-dir", p.inside("kernel-boot"), "--state-dir", p.inside("state"),
			"--allow-emulation", "--log-level", "debug", "--resolv-conf", p.inside("resolv.conf"), "--pod-uid", uuid.NewString()})
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Env = append(os.Environ(), "TMPDIR="+p.inside("tmp"))
	p.cmd.Stdout, p.cmd.Stderr = log, log
	require.NoError(p.t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // ends reads the exit code
		close(p.exited)
	}()
	p.t.Cleanup(func() {
		// The namespace ends with its first process; changing the user took the parent's death signal from it.
		if pid, found := p.process("launcher"); found {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = p.cmd.Process.Kill()
		if p.t.Failed() {
			b, _ := os.ReadFile(p.logPath)
			p.t.Logf("the launcher's log:\n%s", b)
		}
	})
	p.eventually("the launcher serves", func() bool {
		_, err := os.Stat(p.at("sockets/launcher.sock"))
		return err == nil
	})
	conn, err := grpc.NewClient("unix://"+p.at("sockets/launcher.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = conn.Close() })
	p.client = rpc.NewLauncherClient(conn)
}

// put makes a file as Kubernetes would have mounted it.
func (p *pod) put(path, content string) {
	p.t.Helper()
	require.NoError(p.t, os.MkdirAll(filepath.Dir(p.at(path)), 0o755))
	require.NoError(p.t, os.WriteFile(p.at(path), []byte(content), 0o644))
}

func (p *pod) at(path string) string { return filepath.Join(p.dir, path) }

// enterImage lays the image's root, read-only, and beneath it what the machine gives a container.
const enterImage = `set -e; mkdir -p "$0/$1"; mount --bind "$0" "$0"; mount -o remount,bind,ro "$0"
mount --rbind /dev "$0/dev"; mount --rbind /sys "$0/sys"; mount --rbind "$1" "$0/$1"
mount --bind /etc/hosts "$0/etc/hosts"; shift; exec "$@"`

// mounts mounts something into the pod's file systems, with the arguments of mount(8); the last is a path inside it.
func (p *pod) mounts(arguments ...string) {
	p.t.Helper()
	pid, found := p.process("launcher")
	require.True(p.t, found)
	last := len(arguments) - 1
	arguments[last] = filepath.Join(image(p.t, "launcher"), p.inside(arguments[last]))
	out, err := exec.Command("nsenter", append([]string{"--mount", "--target", strconv.Itoa(pid), "mount"},
		arguments...)...).CombinedOutput()
	require.NoError(p.t, err, "%s", out)
}

// inside is where the pod itself sees it.
func (p *pod) inside(path string) string {
	if p.mount == "" {
		return p.at(path)
	}
	return filepath.Join(p.mount, path)
}

func (p *pod) eventually(what string, ok func() bool) {
	p.t.Helper()
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(poll) {
		if ok() {
			return
		}
	}
	require.Fail(p.t, "it did not happen in time: "+what)
}

// boot starts the domain and waits until the guest reports on its console that it is up.
func (p *pod) boot() *rpc.Domain {
	p.t.Helper()
	return p.bootWith()
}

func (p *pod) bootWith(interfaces ...*rpc.PodInterface) *rpc.Domain {
	p.t.Helper()
	d, err := p.client.StartDomain(p.context(), &rpc.StartDomainRequest{Interfaces: interfaces})
	require.NoError(p.t, err)
	require.Equal(p.t, rpc.DomainState_DOMAIN_STATE_RUNNING, d.GetState())
	p.guestUp(1)
	return d
}

// guestUp waits until the guest has come up n times.
func (p *pod) guestUp(n int) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("the guest came up %d times", n), func() bool {
		return strings.Count(p.log(), "guest console: virtflow-guest ready") >= n
	})
}

func (p *pod) log() string {
	b, err := os.ReadFile(p.logPath)
	require.NoError(p.t, err)
	return string(b)
}

func (p *pod) context() context.Context {
	ctx, cancel := context.WithTimeout(p.t.Context(), deadline)
	p.t.Cleanup(cancel)
	return ctx
}

// process finds a process of this pod by its program.
func (p *pod) process(program string) (pid int, found bool) {
	p.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(p.t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it ended meanwhile
		}
		arguments := bytes.Split(b, []byte{0})
		if filepath.Base(string(arguments[0])) != program || !p.has(filepath.Dir(f), b) {
			continue
		}
		pid, err = strconv.Atoi(filepath.Base(filepath.Dir(f)))
		require.NoError(p.t, err)
		return pid, true
	}
	return 0, false
}

// has reports whether a process, with its directory in /proc and its command line, is the pod's.
func (p *pod) has(proc string, command []byte) bool {
	if p.mount == "" {
		return bytes.Contains(command, []byte(p.dir))
	}
	seen, err := os.Stat(proc + "/root" + p.mount)
	mine, err2 := os.Stat(p.dir)
	return err == nil && err2 == nil && os.SameFile(seen, mine)
}

func (p *pod) signal(program string, s syscall.Signal) {
	p.t.Helper()
	pid, found := p.process(program)
	require.True(p.t, found, "no %s", program)
	require.NoError(p.t, syscall.Kill(pid, s))
}

// ends waits for the launcher's end and returns what it left.
func (p *pod) ends() (contract.TerminationMessage, int) {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(deadline):
		require.Fail(p.t, "the launcher did not end")
	}
	b, err := os.ReadFile(p.at("termination"))
	require.NoError(p.t, err)
	var m contract.TerminationMessage
	require.NoError(p.t, json.Unmarshal(b, &m), "%s", b)
	_, found := p.process("qemu-system-x86_64")
	require.False(p.t, found, "QEMU is still there")
	return m, p.cmd.ProcessState.ExitCode()
}

// shell runs a command as root at the guest's serial port.
func (p *pod) shell(command string) {
	p.t.Helper()
	if p.serial != nil {
		_ = p.serial.Close()
	}
	conn := dialUnix(p.t, p.at("private/virt-serial0"))
	p.login(conn)
	_, err := io.WriteString(conn, command+"\n")
	require.NoError(p.t, err)
	p.serial = conn
}

func countLog(p *pod, part string) int { return strings.Count(p.log(), part) }

// login gets a shell on the serial port.
func (p *pod) login(conn net.Conn) {
	p.t.Helper()
	screen := make(chan string)
	go func() {
		defer close(screen)
		b := make([]byte, 512)
		for {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			screen <- string(b[:n])
		}
	}()
	seen := ""
	send := func(line string) {
		_, err := io.WriteString(conn, line+"\n")
		require.NoError(p.t, err)
	}
	// A getty that is already waiting repeats its prompt.
	send("")
	for _, step := range []struct{ prompt, answer string }{{"login: ", "root"}, {"assword: ", "virtflow"}, {"# ", ""}} {
		for !strings.Contains(seen, step.prompt) {
			select {
			case s, ok := <-screen:
				require.True(p.t, ok, "the console closed after %q", seen)
				seen += s
			case <-time.After(deadline):
				require.Fail(p.t, "no prompt", "waiting for %q, saw %q", step.prompt, seen)
			}
		}
		seen = ""
		if step.answer != "" {
			send(step.answer)
		}
	}
	go func() {
		for range screen {
		}
	}()
}
