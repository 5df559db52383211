//go:build crash

package crash

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/virtflow/virtflow/deploy/checkout"
	"github.com/virtflow/virtflow/internal/pki"
)

// temporalServer is a Temporal server that ends with the test.
type temporalServer struct {
	address string
	tls     string // folder of the certificates
	data    string // folder of the databases
	log     string
	command []string
	process *exec.Cmd
}

// taskTimeout is how long Temporal waits for a worker that died with a workflow task. The default, ten seconds, would
// be most of each case's duration; a busy machine needs some.
const taskTimeout = "5s"

// startTemporal starts the development server with ports and a database of its own.
func startTemporal(t *testing.T) *temporalServer {
	t.Helper()
	folder := strings.TrimSpace(
		run(t, root(t), "go", "run", "-C", "deploy/dev", "-trimpath", "-buildvcs=false", ".", "build", "temporal"))
	dir := t.TempDir()
	s := &temporalServer{tls: filepath.Join(dir, "tls"), data: filepath.Join(dir, "data"),
		log: filepath.Join(dir, "temporal.log")}
	ca, err := pki.OpenAuthority(s.tls, "crash test")
	require.NoError(t, err)
	require.NoError(t, ca.Ensure(
		pki.Request{Name: "server", CommonName: "localhost", Names: []string{"localhost"}, IPs: []string{"127.0.0.1"},
			ClientToo: true}))
	require.NoError(t, ca.Ensure(pki.Request{Name: "client", CommonName: "client"}))
	// The certificates enforce the processes' roles.
	for _, process := range []string{"control-worker", "crdwatch", "node-gateway"} {
		require.NoError(t, ca.Ensure(pki.Request{Name: process, CommonName: process,
			Organizations: []string{"virtflow:" + process}}))
	}
	text, err := os.ReadFile(filepath.Join(root(t), "temporal-dev.yaml"))
	require.NoError(t, err)
	const section = "\ndynamicConfig:\n"
	require.Contains(t, string(text), section)
	config := filepath.Join(dir, "temporal.yaml")
	changed := strings.Replace(string(text), section,
		section+"  history.defaultWorkflowTaskTimeout:\n    - value: "+taskTimeout+"\n", 1)
	require.NoError(t, os.WriteFile(config, []byte(changed), 0o600))
	ports := freePorts(t, 6)
	local := func(i int) string { return net.JoinHostPort("127.0.0.1", ports[i]) }
	s.address = local(0)
	s.command = []string{
		filepath.Join(folder, "virtflow-temporal"),
		"--config", config, "--data", s.data, "--tls", s.tls, "--address", s.address, "--ui-address", local(1),
		"--metrics-address", local(2), "--history-port", ports[3], "--matching-port", ports[4], "--worker-port",
		ports[5], "--log-level", "error",
	}
	s.serve(t)
	return s
}

// loseDatabase kills the server and starts it with empty databases.
func (s *temporalServer) loseDatabase(t *testing.T) {
	t.Helper()
	end(s.process)
	require.NoError(t, os.RemoveAll(s.data))
	s.serve(t)
}

// copyDatabase copies the databases to a folder, while the server is stopped.
func (s *temporalServer) copyDatabase(t *testing.T, to string) {
	t.Helper()
	end(s.process)
	require.NoError(t, os.CopyFS(to, os.DirFS(s.data)))
	s.serve(t)
}

// putBack kills the server and starts it with copied databases.
func (s *temporalServer) putBack(t *testing.T, from string) {
	t.Helper()
	end(s.process)
	require.NoError(t, os.RemoveAll(s.data))
	require.NoError(t, os.CopyFS(s.data, os.DirFS(from)))
	s.serve(t)
}

func (s *temporalServer) serve(t *testing.T) {
	t.Helper()
	s.process = start(t, s.log, []string{"TEMPORAL_DEV_SYNCHRONOUS=0"}, s.command...)
	until(t, time.Minute, "Temporal serves", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		c, err := client.DialContext(ctx, s.options("default"))
		if err == nil {
			c.Close()
		}
		return err
	})
}

func (s *temporalServer) options(namespace string) client.Options {
	pool := x509.NewCertPool()
	if pem, err := os.ReadFile(filepath.Join(s.tls, "ca.crt")); err == nil {
		pool.AppendCertsFromPEM(pem)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(s.tls, "client.crt"), filepath.Join(s.tls, "client.key"))
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: "localhost"}
	if err == nil {
		config.Certificates = []tls.Certificate{pair}
	}
	return client.Options{HostPort: s.address, Namespace: namespace,
		ConnectionOptions: client.ConnectionOptions{TLS: config}, Logger: silent{}}
}

// silent discards the SDK's log, which is full of lost workers here.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

// freePorts returns loopback ports that are free at the moment.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		_, port, err := net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
		_, err = strconv.Atoi(port)
		require.NoError(t, err)
		out = append(out, port)
	}
	return out
}

// start runs a program in the background, at most until the test ends.
func start(t *testing.T, log string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer out.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // also when the test itself is killed
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { end(cmd) })
	return cmd
}

// end kills a process as a crash does. A second call does nothing.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s %s", name, strings.Join(args, " "))
	return string(out)
}

// root returns the folder of the checkout.
func root(t *testing.T) string {
	t.Helper()
	dir, err := checkout.Root()
	require.NoError(t, err)
	return dir
}

// until polls a condition until it holds. At the limit the test fails.
func until(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	require.NoError(t, await(limit, check), "after %s still not: %s", limit, what)
}

func await(limit time.Duration, check func() error) error {
	end := time.Now().Add(limit)
	for {
		err := check()
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(25 * time.Millisecond)
	}
}
