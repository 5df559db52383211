//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image/png"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// virtctl is KubeVirt's own command line, unmodified, in one namespace.
type virtctl struct {
	t         *testing.T
	namespace string
}

// command returns one call that has not started. It is killed if it takes too long.
func (v *virtctl) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	v.t.Cleanup(cancel)
	c := exec.CommandContext(ctx, "virtctl", append([]string{"-n", v.namespace}, args...)...)
	c.WaitDelay = 5 * time.Second // the ssh that it starts may outlive it, and keep its output open
	return c
}

// mustRun runs a command, requires that it succeeds, and returns its output.
func (v *virtctl) mustRun(args ...string) string {
	v.t.Helper()
	out, err := v.command(args...).CombinedOutput()
	require.NoError(v.t, err, "virtctl %s: %s", strings.Join(args, " "), out)
	return string(out)
}

// refused runs a command, given as one line, and requires that it fails with these words and an exit code.
func (v *virtctl) refused(line, words string) {
	v.t.Helper()
	out, err := v.command(strings.Fields(line)...).CombinedOutput()
	var ended *exec.ExitError
	require.ErrorAs(v.t, err, &ended, "virtctl %s: %s", line, out)
	code := 1
	if strings.HasPrefix(line, "ssh ") {
		code = 255 // the ssh client's code for a failed connection; virtctl itself exits with 1
		require.Contains(v.t, []int{1, code}, ended.ExitCode(), "virtctl %s: %s", line, out)
	} else {
		require.Equal(v.t, code, ended.ExitCode(), "virtctl %s: %s", line, out)
	}
	require.Contains(v.t, strings.ReplaceAll(string(out), `\"`, `"`), words, "virtctl %s", line)
}

// output collects the output of a running program.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *output) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *output) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

func (s *output) until(t *testing.T, what string) {
	t.Helper()
	s.untilAfter(t, 0, what)
}

// untilAfter ignores the first bytes of the output.
func (s *output) untilAfter(t *testing.T, before int, what string) {
	t.Helper()
	until(t, time.Minute, fmt.Sprintf("the output has %q", what), func() error {
		if said := s.String()[before:]; !strings.Contains(said, what) {
			return fmt.Errorf("so far: %q", tail(said, 5))
		}
		return nil
	})
}

// TestVirtctl runs every command of KubeVirt's own command line that virtflow supports, and each command also in a
// state that does not fit and for objects that do not exist. One guest, which virtctl itself creates, serves all of it;
// a second machine never gets a node. (Freezing has no command.)
func TestVirtctl(t *testing.T) {
	if _, err := exec.LookPath("virtctl"); err != nil {
		t.Skip("no virtctl on the PATH: make tools builds it")
	}
	m := &machine{t: t, namespace: newNamespace(t), name: "ctl", taps: taps()}
	v := &virtctl{t: t, namespace: m.namespace}
	version := v.mustRun("version")
	require.Contains(t, version, `Server Version`)
	require.Contains(t, version, `GitVersion:"v1.9.0+virtflow`)

	m.madeByVirtctl(v)
	waiting := &machine{t: t, namespace: m.namespace, name: "waiting"}
	waiting.apply("Always", `      nodeSelector: {nowhere: "yes"}`)
	m.untilStatus("Stopped")
	waiting.untilStatus("ErrorUnschedulable")
	t.Run("not found", func(t *testing.T) { (&virtctl{t, m.namespace}).notFound() })
	t.Run("wrong state", func(t *testing.T) { (&virtctl{t, m.namespace}).wrongState() })
	t.Run("unsupported", func(t *testing.T) { (&virtctl{t, m.namespace}).unsupported() })
	waiting.remove()

	v.mustRun("credentials", "add-ssh-key", "ctl", "--user=root", "--value=ssh-ed25519 AAAA by-virtctl")
	v.mustRun("start", "ctl")
	first := m.untilBooted()
	require.Contains(t, v.mustRun("permitted-devices", "-n", "virtflow"), "Permitted Devices")
	require.Contains(t, v.mustRun("expand", "--vm", "ctl"), "name: ctl")
	t.Run("console", m.consoleOf)
	t.Run("vnc", m.screenOf)
	t.Run("ssh", m.shellOf)
	t.Run("port-forward and expose", m.portsOf)
	t.Run("agent", m.agentOf)

	v.refused("start ctl", "VM is already running")
	v.refused("unpause vm ctl", "VMI is not paused")
	v.mustRun("pause", "vm", "ctl", "--dry-run")
	v.mustRun("pause", "vm", "ctl")
	v.refused("pause vmi ctl", "VMI is already paused")
	v.refused("soft-reboot ctl", "VMI is paused")
	m.untilStatus("Paused") // streams depend on the status, which is written after the answer
	v.refused("port-forward --stdio vmi/ctl 22", "VMI is paused")
	v.mustRun("unpause", "vmi", "ctl")
	m.untilStatus("Running")
	v.mustRun("evacuate-cancel", "vm", "ctl")
	v.mustRun("soft-reboot", "ctl")
	v.mustRun("reset", "ctl")
	v.mustRun("restart", "ctl")
	second := m.untilReplaced(first)
	v.mustRun("restart", "ctl", "--grace-period=0", "--force")
	until(t, bootTime, "another instance takes over", func() error {
		now, err := m.vmi()
		if err == nil && now.UID == second.UID {
			err = errors.New("it is the same")
		}
		return err
	})
	v.mustRun("stop", "ctl", "--grace-period=0", "--force")
	m.untilStatus("Stopped")
	v.refused("stop ctl", "VM is not running")
	v.mustRun("start", "ctl", "--paused")
	m.untilStatus("Paused")
	v.mustRun("stop", "ctl", "--grace-period=0", "--force")
	m.untilStatus("Stopped")
	m.remove()
}

// madeByVirtctl lets virtctl write the manifest, as a user does: virtctl create vm … | kubectl apply -f -
func (m *machine) madeByVirtctl(v *virtctl) {
	m.t.Helper()
	password := filepath.Join(m.t.TempDir(), "password")
	require.NoError(m.t, os.WriteFile(password, []byte("secret-of-"+m.name), 0o600))
	v.refused("create vm --name ctl --memory much", `failed to parse "--memory" flag`)
	v.refused("create vm --name ctl --run-strategy Sometimes", `failed to parse "--run-strategy" flag`)
	manifest, err := v.command("create", "vm", "--name", m.name, "--run-strategy", "Halted", "--memory", "128Mi",
		"--termination-grace-period", "60",
		"--volume-containerdisk", "src:"+image(m.t, "guest"), "--user", "root", "--password-file", password).Output()
	require.NoError(m.t, err)
	apply(m.t, string(manifest))
	_, err = tryWith(strings.Replace(string(manifest), "spec:\n", "spec:\n  instancetype: {name: large}\n", 1), "apply",
		"-f", "-")
	require.Error(m.t, err, "an instance type is refused by name")
	require.Contains(m.t, err.Error(), "nstancetype")
}

// notFound runs every command for an object that does not exist.
func (v *virtctl) notFound() {
	const vm, vmi = `virtualmachine.kubevirt.io "missing" not found`,
		`virtualmachineinstance.kubevirt.io "missing" not found`
	for line, words := range map[string]string{
		"start missing": vm, "stop missing": vm, "restart missing": vm, "migrate missing": vm,
		"restart missing --force --grace-period=0": vm,
		"expand --vm missing":                      vm, "pause vmi missing": vmi, "unpause vmi missing": vmi,
		"soft-reboot missing": vmi,
		"reset missing":       vmi,
		"pause vm missing":    `virtualmachines.kubevirt.io "missing" not found`,
		"unpause vm missing":  `virtualmachines.kubevirt.io "missing" not found`,
		"console missing":     vmi, "vnc missing --proxy-only": vmi, "vnc screenshot missing -f -": vmi,
		"port-forward --stdio vmi/missing 22": vmi, "port-forward --stdio vm/missing 22": vm,
		"ssh root@vmi/missing": vmi, "ssh root@vm/missing": vm,
		"guestosinfo missing": vmi, "userlist missing": vmi, "fslist missing": vmi,
		"expose vm missing --name s --port 22":  `virtualmachines.kubevirt.io "missing" not found`,
		"expose vmi missing --name s --port 22": `virtualmachineinstances.kubevirt.io "missing" not found`,
		"evacuate-cancel vm missing":            vm, "evacuate-cancel vmi missing": vmi,
		"permitted-devices": `no KubeVirt resource in "` + v.namespace + `" namespace`,
	} {
		v.refused(line, words)
	}
}

// wrongState runs every command for a machine that is off, or for an instance without node.
func (v *virtctl) wrongState() {
	const off, idle = `virtualmachineinstance.kubevirt.io "ctl" not found`, "VMI is not running"
	for line, words := range map[string]string{
		"stop ctl":                          `virtualmachine.kubevirt.io "ctl": VM is not running`,
		"restart ctl":                       "RunStategy Halted does not support manual restart requests",
		"stop ctl --force --grace-period=0": "VM is not running", "start waiting": "VM is already running",
		"stop ctl --grace-period=0":                "Must both use",
		"restart waiting --force --grace-period=5": "only gracePeriod=0 is supported for now",
		"pause vm ctl":                             "VirtualMachine ctl is not set to run", "pause vmi ctl": off,
		"unpause vm ctl": off,
		"reset ctl":      off, "soft-reboot ctl": off,
		"pause vmi waiting": "VM is not running", "unpause vmi waiting": idle,
		"soft-reboot waiting": "VM is not running",
		"reset waiting": "Failed to reset non-running VMI with phase Scheduling: Unable to connect to " +
			"VirtualMachineInstance because phase is Scheduling instead of Running or Scheduled",
		"console ctl": off, "console waiting --timeout=0": idle, "vnc ctl --proxy-only": off,
		"vnc waiting --proxy-only": idle,
		"vnc screenshot ctl -f -":  off, "vnc screenshot waiting -f -": idle, "guestosinfo waiting": idle,
		"userlist waiting": idle, "fslist waiting": idle,
		"guestosinfo ctl": off, "userlist ctl": off, "fslist ctl": off,
		"port-forward --stdio vm/ctl 22":      `virtualmachine.kubevirt.io "ctl": VMI is not started`,
		"port-forward --stdio vmi/waiting 22": "no network interfaces are present",
		"ssh root@vm/ctl":                     "VMI is not started",
		"ssh root@vmi/waiting":                "no network interfaces are present",
		"expose vm ctl --name s":              "couldn't find port via --port flag or introspection",
		"expand --file /nothing":              "error reading file",
		"evacuate-cancel vm ctl":              "VMI is not started", "migrate ctl": off,
	} {
		v.refused(line, words)
	}
}

// unsupported runs commands that are not supported yet: each is refused with a sentence, never accepted and ignored.
func (v *virtctl) unsupported() {
	apply(v.t, "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: disk, namespace: "+v.namespace+
		"}, spec: {storageClassName: none, accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}}")
	for line, words := range map[string]string{ // "": virtctl itself finds that something is absent
		"migrate waiting": "VM is not running",
		"objectgraph ctl": "ObjectGraph feature gate not enabled",
		"addvolume ctl --volume-name=disk --persist": "Volumes cannot be plugged into or out of a running " +
			"virtual machine yet.",
		"removevolume ctl --volume-name=disk":   "Unable to remove volume [disk] because it does not exist",
		"memory-dump get ctl --claim-name=disk": "",
		"memory-dump remove ctl":                "no association found",
		"migrate-cancel ctl":                    "",
		"guestfs disk":                          "guestfs is not supported yet",
		"vmexport create export --vm=ctl":       "",
	} {
		v.refused(line, words)
	}
}

// login opens the guest's console and logs in. types writes a line and waits for an answer; leave closes the console
// without a change.
func (m *machine) login(t *testing.T) (types func(line, then string), leave func()) {
	t.Helper()
	c := (&virtctl{t, m.namespace}).command("console", m.name)
	in, err := c.StdinPipe()
	require.NoError(t, err)
	var out, said output
	c.Stdout, c.Stderr = &out, &said
	require.NoError(t, c.Start())
	types = func(line, then string) {
		t.Helper()
		before := len(out.String())
		_, err := io.WriteString(in, line)
		require.NoError(t, err)
		out.untilAfter(t, before, then)
	}
	said.until(t, "Successfully connected to "+m.name+" console.")
	types("\n", "login: ")
	types("root\n", "assword: ")
	types("secret-of-"+m.name+"\n", "# ")
	return types, func() {
		t.Helper()
		_, err := io.WriteString(in, "\x1d") // Ctrl+] alone: virtctl leaves
		require.NoError(t, err)
		require.NoError(t, c.Wait(), said.String())
	}
}

// consoleOf logs in to the guest and runs a command.
func (m *machine) consoleOf(t *testing.T) {
	types, leave := m.login(t)
	types("echo $((6*7))-is-it\n", "42-is-it")
	types("exit\n", "login: ")
	leave()
}

// screenOf does the RFB handshake as a viewer does, and takes a screenshot.
func (m *machine) screenOf(t *testing.T) {
	v := &virtctl{t, m.namespace}
	port := freePort(t)
	c := v.command("vnc", m.name, "--proxy-only", "--port", port)
	var said output
	c.Stdout, c.Stderr = &said, &said
	require.NoError(t, c.Start())
	said.until(t, `{"port":`+port+`}`)
	viewer, err := net.Dial("tcp", "127.0.0.1:"+port)
	require.NoError(t, err)
	require.NoError(t, viewer.SetDeadline(time.Now().Add(time.Minute)))
	read := func(n int) []byte {
		t.Helper()
		b := make([]byte, n)
		_, err := io.ReadFull(viewer, b)
		require.NoError(t, err, said.String())
		return b
	}
	write := func(b ...byte) {
		t.Helper()
		_, err := viewer.Write(b)
		require.NoError(t, err)
	}
	require.Equal(t, "RFB 003.008\n", string(read(12)))
	write([]byte("RFB 003.008\n")...)
	kinds := read(int(read(1)[0]))
	require.Contains(t, kinds, byte(1), "no further authentication: RBAC decides who may see the screen")
	write(1)
	require.Zero(t, binary.BigEndian.Uint32(read(4)), "the handshake succeeded")
	write(1) // shared
	screen := read(24)
	require.GreaterOrEqual(t, binary.BigEndian.Uint16(screen), uint16(640))
	read(int(binary.BigEndian.Uint32(screen[20:]))) // its name
	require.NoError(t, viewer.Close())
	require.NoError(t, c.Wait(), said.String())

	picture, err := v.command("vnc", "screenshot", m.name, "-f", "-").Output()
	require.NoError(t, err)
	image, err := png.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	require.GreaterOrEqual(t, image.Bounds().Dx(), 640)
}

// shellOf logs in with the ssh client.
func (m *machine) shellOf(t *testing.T) {
	answer := filepath.Join(t.TempDir(), "answer")
	require.NoError(t, os.WriteFile(answer, []byte("#!/bin/sh\necho secret-of-"+m.name+"\n"), 0o700))
	v := &virtctl{t, m.namespace}
	for _, kind := range []string{"vm/", "vmi/"} {
		c := v.command("ssh", "root@"+kind+m.name, "-c", "echo $((6*7))-is-it", "-t", "-oStrictHostKeyChecking=no",
			"-t", "-oUserKnownHostsFile=/dev/null", "-t", "-oPreferredAuthentications=password")
		c.Env = append(os.Environ(), "SSH_ASKPASS="+answer, "SSH_ASKPASS_REQUIRE=force", "DISPLAY=none")
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "42-is-it")
	}
	v.refused("ssh root@vmi/"+m.name+" -p 81 -c true", "connection refused")
}

// portsOf fetches the guest's page through a forwarded port, and through a Service.
func (m *machine) portsOf(t *testing.T) {
	v := &virtctl{t, m.namespace}
	port := freePort(t)
	c := v.command("port-forward", "vm/"+m.name, port+":80")
	var said output
	c.Stdout, c.Stderr = &said, &said
	require.NoError(t, c.Start())
	until(t, time.Minute, "the guest's page comes through port "+port, func() error {
		out, err := page("127.0.0.1:" + port)
		if err == nil && !strings.Contains(out, "hello from") {
			err = fmt.Errorf("it is %q (%s)", out, said.String())
		}
		return err
	})
	require.NoError(t, c.Process.Signal(os.Interrupt))
	require.NoError(t, c.Wait(), said.String())
	v.refused("port-forward --stdio vmi/"+m.name+" 81", ":81: connect: connection refused")

	require.Contains(t, v.mustRun("expose", "vm", m.name, "--name", "page", "--port", "8080", "--target-port", "80"),
		"Service page successfully created for vm ctl")
	v.refused("expose vmi "+m.name+" --name page --port 22", `services "page" already exists`)
	require.Contains(t, m.fromPod("ask", fetchCommand("page", 8080, "/")), "hello from")
}

func page(address string) (string, error) {
	c, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	b, err := io.ReadAll(c)
	return string(b), err
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

// agentOf calls the guest's agent.
func (m *machine) agentOf(t *testing.T) {
	v := &virtctl{t, m.namespace}
	until(t, bootTime, "the guest's agent is connected", func() error {
		out, err := v.command("guestosinfo", m.name).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	require.Contains(t, v.mustRun("guestosinfo", m.name), `"id": "virtflow-guest"`)
	require.Contains(t, v.mustRun("userlist", m.name), `"items": [`)
	require.Contains(t, v.mustRun("fslist", m.name), `"items": [`)
	until(t, time.Minute, "the agent has set the key of virtctl credentials", func() error {
		out, err := m.tryByAgent("cat /root/.ssh/authorized_keys")
		if err == nil && !strings.Contains(out, "by-virtctl") {
			err = fmt.Errorf("the guest has %q", out)
		}
		return err
	})
}
