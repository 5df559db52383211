//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirt "kubevirt.io/api/core/v1"
)

// bootTime is the limit from a VM's creation until its guest is up. Guests are emulated and share two cores: this
// bounds a hang, and measures nothing.
const bootTime = 3 * time.Minute

// marker is what the test guest writes to its serial line when it is up.
const marker = "virtflow-guest ready"

// kubectl runs the unmodified client, and fails the test if the client fails.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := try(args...)
	require.NoError(t, err)
	return out
}

// configured patches the spec of the KubeVirt object. The test itself must restore it.
func configured(t *testing.T, spec string) {
	t.Helper()
	kubectl(t, "-n", "virtflow", "patch", "kubevirt", "kubevirt", "--type=merge", "-p", `{"spec":`+spec+`}`)
}

// try runs the unmodified client.
func try(args ...string) (string, error) { return tryWith("", args...) }

func tryWith(stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err,
			strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

func apply(t *testing.T, manifest string) {
	t.Helper()
	_, err := tryWith(manifest, "apply", "-f", "-")
	require.NoError(t, err)
}

// until polls a condition until it holds. At the limit it fails with the condition's last error.
func until(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	end := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %s still not: %s: %v\n%s", limit, what, err, landscape())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// landscape returns the state of the cluster, for a test that fails.
func landscape() string {
	var b strings.Builder
	for _, args := range [][]string{
		{"get", "vm,vmi,vmim,pods", "-A", "-o", "wide"},
		{"get", "events", "-A", "--sort-by=.lastTimestamp"},
	} {
		out, _ := try(args...)
		if len(out) > 4000 {
			out = out[len(out)-4000:]
		}
		fmt.Fprintf(&b, "$ kubectl %s\n%s\n", strings.Join(args, " "), out)
	}
	return b.String()
}

// machine is one VM of a test, in a namespace of its own that enforces the "restricted" pod security standard.
type machine struct {
	t               *testing.T
	namespace, name string
	taps            []string // those that existed before it
}

// image returns the reference of an image of the project, as deployed.
func image(t *testing.T, name string) string {
	t.Helper()
	v := os.Getenv("VIRTFLOW_IMAGE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	if v == "" {
		v = "localhost/virtflow/" + name + ":dev"
	}
	return v
}

// newNamespace creates a namespace that is deleted when the test ends, with everything in it.
func newNamespace(t *testing.T) string {
	t.Helper()
	name := unusedNamespace(t)
	apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+
		", labels: {pod-security.kubernetes.io/enforce: restricted}}}")
	return name
}

// unusedNamespace returns the name of a namespace that does not exist. If a program creates it, it is deleted when the
// test ends.
func unusedNamespace(t *testing.T) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	name = fmt.Sprintf("e2e-%.30s-%s", name, strings.ToLower(rand.Text()[:8]))
	t.Cleanup(func() {
		out, err := try("delete", "namespace", name, "--ignore-not-found", "--timeout=120s")
		if err != nil {
			t.Errorf("the namespace is not deleted: %v\n%s\n%s", err, out, landscape())
		}
	})
	return name
}

// newMachine applies a VM. extra is added to the spec of the template's domain-independent part, as YAML lines with an
// indentation of six.
func newMachine(t *testing.T, name, strategy, extra string) *machine {
	t.Helper()
	m := &machine{t: t, namespace: newNamespace(t), name: name, taps: taps()}
	m.apply(strategy, extra)
	return m
}

func (m *machine) apply(strategy, extra string) {
	m.t.Helper()
	apply(m.t, m.manifest(strategy, extra))
}

func (m *machine) manifest(strategy, extra string) string {
	return fmt.Sprintf(`apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: %s, namespace: %s}
spec:
  runStrategy: %s
  template:
    metadata:
      labels: {app: %s}
    spec:
      terminationGracePeriodSeconds: 60
%s
      domain:
        cpu: {cores: 1}
        memory: {guest: 128Mi}
        devices:
          disks:
          - {name: root, disk: {bus: virtio}}
          - {name: scratch, disk: {bus: virtio}}
          - {name: cloudinit, disk: {bus: virtio}}
          interfaces:
          - {name: default, masquerade: {}}
      networks:
      - {name: default, pod: {}}
      volumes:
      - name: root
        containerDisk: {image: "%s"}
      - name: scratch
        emptyDisk: {capacity: 16Mi}
      - name: cloudinit
        cloudInitNoCloud:
          userData: |
            #cloud-config
            hostname: %s
            password: secret-of-%s
            chpasswd: {expire: false}
`, m.name, m.namespace, strategy, m.name, extra, image(m.t, "guest"), m.name, m.name)
}

func (m *machine) kubectl(args ...string) string {
	m.t.Helper()
	return kubectl(m.t, append([]string{"-n", m.namespace}, args...)...)
}

func (m *machine) vm() (*kubevirt.VirtualMachine, error) {
	out, err := try("-n", m.namespace, "get", "vm", m.name, "-o", "json")
	if err != nil {
		return nil, err
	}
	var vm kubevirt.VirtualMachine
	return &vm, json.Unmarshal([]byte(out), &vm)
}

func (m *machine) vmi() (*kubevirt.VirtualMachineInstance, error) {
	out, err := try("-n", m.namespace, "get", "vmi", m.name, "-o", "json")
	if err != nil {
		return nil, err
	}
	var vmi kubevirt.VirtualMachineInstance
	return &vmi, json.Unmarshal([]byte(out), &vmi)
}

// pod returns the name of the launcher pod, or "".
func (m *machine) pod() string {
	out, _ := try("-n", m.namespace, "get", "pods", "-l", "vm.kubevirt.io/name="+m.name, "-o",
		"jsonpath={.items[*].metadata.name}")
	return strings.TrimSpace(out)
}

// untilStatus waits for a printable status.
func (m *machine) untilStatus(want string) *kubevirt.VirtualMachine {
	m.t.Helper()
	var vm *kubevirt.VirtualMachine
	until(m.t, bootTime, "VM "+m.name+" is "+want, func() (err error) {
		if vm, err = m.vm(); err != nil {
			return err
		}
		if string(vm.Status.PrintableStatus) != want {
			return fmt.Errorf("it is %q", vm.Status.PrintableStatus)
		}
		return nil
	})
	return vm
}

// untilBooted waits until the guest is up.
func (m *machine) untilBooted() *kubevirt.VirtualMachineInstance {
	m.t.Helper()
	m.untilStatus("Running")
	// Four guests of two processors each needed 165 s at most when all were emulated on two cores, one alone 20 s.
	until(m.t, 2*bootTime, "the guest's marker is on the serial line", func() error {
		if out := m.console(); !strings.Contains(out, marker) {
			return fmt.Errorf("the log ends with: %s", tail(out, 5))
		}
		return nil
	})
	vmi, err := m.vmi()
	require.NoError(m.t, err)
	return vmi
}

// console returns the guest's serial output so far, from the launcher's log.
func (m *machine) console() string {
	pod := m.pod()
	if pod == "" {
		return ""
	}
	out, _ := try("-n", m.namespace, "logs", pod, "-c", "compute")
	return out
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// follower collects a launcher's log until the pod is gone.
type follower struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	done chan struct{}
}

// follow reads the launcher's log from now on.
func (m *machine) follow() *follower {
	m.t.Helper()
	f := &follower{done: make(chan struct{})}
	cmd := exec.Command("kubectl", "-n", m.namespace, "logs", "-f", m.pod(), "-c", "compute")
	cmd.Stdout = writer(func(p []byte) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.buf.Write(p)
	})
	require.NoError(m.t, cmd.Start())
	go func() {
		defer close(f.done)
		_ = cmd.Wait()
	}()
	m.t.Cleanup(func() { _ = cmd.Process.Kill(); <-f.done })
	return f
}

func (f *follower) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.buf.String()
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

// strategy changes the run strategy as a user does.
func (m *machine) strategy(s string) {
	m.t.Helper()
	m.kubectl("patch", "vm", m.name, "--type=merge", "-p", `{"spec":{"runStrategy":"`+s+`"}}`)
}

// remove deletes the VM, and waits as kubectl does.
func (m *machine) remove() {
	m.t.Helper()
	m.kubectl("delete", "vm", m.name, "--timeout=110s")
}
