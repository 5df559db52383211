//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The nodes' PID namespaces are children of this machine's, so every process is visible here.

type proc struct {
	pid  int
	comm string
	args string
}

// processes returns the processes for which keep holds.
func processes(keep func(proc) bool) []proc {
	var out []proc
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil {
			continue
		}
		comm, err := os.ReadFile(d + "/comm")
		if err != nil {
			continue
		}
		args, _ := os.ReadFile(d + "/cmdline")
		if len(args) == 0 {
			continue // a kernel thread or a zombie
		}
		p := proc{pid: pid, comm: strings.TrimSpace(string(comm)), args: strings.ReplaceAll(string(args), "\x00", " ")}
		if keep(p) {
			out = append(out, p)
		}
	}
	return out
}

// domains returns the QEMU processes of a VM. They run as the launchers' user, and libvirt names them after the domain.
func (m *machine) domains() []proc {
	return processes(func(p proc) bool {
		return strings.HasPrefix(p.comm, "qemu-system") && strings.Contains(p.args, "guest="+m.namespace+"_"+m.name+",")
	})
}

// program returns the running processes of one of virtflow's programs.
func program(name string) []proc {
	if len(name) > 15 {
		name = name[:15] // as the kernel truncates it
	}
	return processes(func(p proc) bool { return p.comm == name })
}

// kill kills processes.
func kill(t *testing.T, ps []proc) {
	t.Helper()
	for _, p := range ps {
		process, err := os.FindProcess(p.pid)
		require.NoError(t, err)
		_ = process.Kill() // it may have ended by itself
	}
}

// dev runs a verb of the local cluster's tool.
func dev(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("go",
		append([]string{"run", "-C", "../../deploy/dev", "-trimpath", "-buildvcs=false", "."}, args...)...).
		CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// built builds a part of the local cluster, and returns the folder of its programs.
func built(t *testing.T, part string) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(dev(t, "build", part)), "\n")
	return lines[len(lines)-1]
}

// download returns the folder of a Go module, and its sum. A module without version has the one that the module in the
// folder from has.
func download(t *testing.T, from, module string) (folder, sum string) {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = from
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	var downloaded struct{ Dir, Sum string }
	require.NoError(t, json.Unmarshal(out, &downloaded))
	return downloaded.Dir, downloaded.Sum
}

// nodeState returns a folder of the local cluster.
func nodeState(t *testing.T) string {
	t.Helper()
	state := os.Getenv("VIRTFLOW_STATE")
	require.NotEmpty(t, state, "run this with `make e2e`")
	return state
}

// leftovers checks that nothing of a pod is left on any node: its folder (with sockets), network namespaces with a tap,
// QEMU processes.
func leftovers(t *testing.T, m *machine, podUID string) error {
	t.Helper()
	if ps := m.domains(); len(ps) > 0 {
		return fmt.Errorf("QEMU still runs: %v", ps)
	}
	var found []string
	_ = filepath.WalkDir(nodeState(t), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what cannot be read is not virtflow's
		}
		if d.IsDir() && strings.Count(strings.TrimPrefix(path, nodeState(t)), "/") > 6 {
			return filepath.SkipDir
		}
		if strings.Contains(d.Name(), podUID) && !strings.Contains(path, "/log") {
			found = append(found, path)
		}
		return nil
	})
	if len(found) > 0 {
		return fmt.Errorf("files of the pod are left: %v", found)
	}
	for _, tap := range taps() {
		if !slices.Contains(m.taps, tap) {
			return fmt.Errorf("a tap is left: %s", tap)
		}
	}
	return nil
}

// taps lists the tap devices in every network namespace of this machine.
func taps() []string {
	seen := map[string]bool{}
	var out []string
	for _, p := range processes(func(proc) bool { return true }) {
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.pid))
		if err != nil || seen[ns] {
			continue
		}
		seen[ns] = true
		links, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", p.pid))
		if err != nil {
			continue
		}
		for _, l := range strings.Split(string(links), "\n") {
			if name, _, ok := strings.Cut(strings.TrimSpace(l), ":"); ok && strings.HasPrefix(name, "tap") {
				out = append(out, name+" in "+ns)
			}
		}
	}
	return out
}

// watchDomains counts the VM's domains many times a second, until the test ends or the returned function is called,
// which returns the maximum.
func watchDomains(m *machine) (most func() int) {
	stop, done := make(chan struct{}), make(chan struct{})
	top := 0
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
				top = max(top, len(m.domains()))
			}
		}
	}()
	closed := false
	most = func() int {
		if !closed {
			closed = true
			close(stop)
			<-done
		}
		return top
	}
	m.t.Cleanup(func() { most() })
	return most
}
