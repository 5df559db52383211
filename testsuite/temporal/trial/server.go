package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/virtflow/virtflow/deploy/dev/parts/temporal/health"
	"github.com/virtflow/virtflow/deploy/dev/parts/temporal/tlsfiles"
)

const startTimeout = 50 * time.Second

// Server is one development server with a directory of its own.
type Server struct {
	Address   string // of the frontend
	UIAddress string
	TLS       string // directory of the certificates
	// Services are the addresses of the four services, the frontend's first.
	Services []string

	command []string
	env     []string
	data    string
	process *exec.Cmd
}

// New prepares a server in dir, without starting it. Env is added to the program's environment, and flags to those with
// its addresses and files.
func New(dir, config string, env []string, program string, flags ...string) (*Server, error) {
	server := &Server{TLS: filepath.Join(dir, "tls"), data: filepath.Join(dir, "data"), env: env}
	if err := os.MkdirAll(server.TLS, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the certificates: %w", err)
	}
	if err := WriteCertificates(server.TLS); err != nil {
		return nil, err
	}
	ports, err := freePorts(6)
	if err != nil {
		return nil, err
	}
	local := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	server.Address, server.UIAddress = local(ports[0]), local(ports[1])
	server.Services = []string{server.Address, local(ports[3]), local(ports[4]), local(ports[5])}
	server.command = append([]string{
		program,
		"--config", config, "--data", server.data, "--tls", server.TLS,
		"--address", server.Address, "--ui-address", server.UIAddress, "--metrics-address", local(ports[2]),
		"--history-port", strconv.Itoa(ports[3]), "--matching-port", strconv.Itoa(ports[4]), "--worker-port",
		strconv.Itoa(ports[5]),
		"--log-level", "error",
	}, flags...)
	return server, nil
}

// Command returns the command line that starts the server.
func (s *Server) Command() []string { return slices.Clone(s.command) }

// Start starts the process and returns when it serves.
func (s *Server) Start(ctx context.Context) error {
	s.process = exec.Command(s.command[0], s.command[1:]...) // the caller's own program
	s.process.Env = append(os.Environ(), s.env...)
	s.process.Stdout, s.process.Stderr = os.Stderr, os.Stderr
	if err := s.process.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", s.command[0], err)
	}
	return health.Wait(ctx, s.Address, s.TLS, startTimeout)
}

// Kill ends the process as a crash does.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

// Stop ends the process with SIGTERM and returns an error if its exit code is not 0.
func (s *Server) Stop() error { return s.end(syscall.SIGTERM) }

func (s *Server) end(signal syscall.Signal) error {
	if s.process == nil {
		return nil
	}
	process := s.process
	s.process = nil
	if err := process.Process.Signal(signal); err != nil {
		return fmt.Errorf("signalling the server: %w", err)
	}
	err := process.Wait()
	var exit *exec.ExitError
	if signal == syscall.SIGKILL && errors.As(err, &exit) {
		return nil
	}
	return err
}

// CPU returns the processor time, user and system, that the running process has used so far.
func (s *Server) CPU() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("reading the server's processor time: %w", err)
	}
	// The fields after the command's name in parentheses: utime and stime are 14 and 15 of proc(5), in ticks of 10 ms.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var ticks int
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("reading the server's processor time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// Dial connects a client with the client certificate.
func (s *Server) Dial(ctx context.Context, namespace string) (client.Client, error) {
	config, err := tlsfiles.Client(s.TLS)
	if err != nil {
		return nil, err
	}
	connected, err := client.DialContext(ctx, client.Options{
		HostPort:          s.Address,
		Namespace:         namespace,
		ConnectionOptions: client.ConnectionOptions{TLS: config},
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", s.Address, err)
	}
	return connected, nil
}

// freePorts returns loopback ports that are free at the moment.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		defer func() { _ = listener.Close() }() // held until all are found, so that they differ
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
