package temporal

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/virtflow/virtflow/deploy/dev/parts/temporal/tlsfiles"
	"github.com/virtflow/virtflow/testsuite/temporal/trial"
)

// program returns the server's program as in the local cluster, built unless it is in the cache.
func program(t *testing.T) string {
	t.Helper()
	build := exec.Command("go", "run", "-C", "../../deploy/dev", "-trimpath", "-buildvcs=false", ".", "build",
		"temporal")
	build.Stderr = os.Stderr
	folder, err := build.Output()
	require.NoError(t, err)
	return filepath.Join(strings.TrimSpace(string(folder)), "virtflow-temporal")
}

func TestServerOnSQLite(t *testing.T) { live(t) }

func TestServerOnPostgres(t *testing.T) { live(t, "--postgres", startPostgres(t)) }

// startPostgres starts Debian's PostgreSQL and returns the folder of its socket.
func startPostgres(t *testing.T) string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		require.Empty(t, os.Getenv("CI"), "make test-temporal installs Debian's package postgresql")
		t.Skip("Debian's package postgresql is not installed")
	}
	// A socket's path has at most 107 bytes, and PostgreSQL's user must have access.
	dir, err := os.MkdirTemp("", "pg")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var as []string
	if os.Geteuid() == 0 {
		as = []string{"setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"}
		require.NoError(t, exec.Command("chown", "postgres:", dir).Run())
	}
	data := filepath.Join(dir, "data")
	command := func(args ...string) *exec.Cmd {
		args = append(slices.Clone(as), args...)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		return cmd
	}
	require.NoError(t, command(filepath.Join(found[0], "initdb"), "-D", data, "-U", "temporal", "--auth", "trust",
		"--no-sync").Run())
	server := command(filepath.Join(found[0], "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=", "-c",
		"max_connections=200", "-c", "fsync=off")
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT)
		_ = server.Wait()
	})
	require.Eventually(t, func() bool {
		return exec.Command(filepath.Join(found[0], "pg_isready"), "-h", dir, "-U", "temporal", "-d", "postgres").
			Run() == nil
	}, 20*time.Second, 20*time.Millisecond, "PostgreSQL is ready")
	return dir
}

// live tests one server's life: who is authenticated, what survives kill -9, what the UI shows, how it stops.
func live(t *testing.T, flags ...string) {
	built := program(t)
	ctx, cancel := context.WithTimeout(t.Context(), 55*time.Second)
	defer cancel()
	config, err := filepath.Abs("../../temporal-dev.yaml")
	require.NoError(t, err)
	server, err := trial.New(t.TempDir(), config, nil, built, flags...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Kill() })
	require.NoError(t, server.Start(ctx))

	t.Run("refuses clients without a certificate of its CA", func(t *testing.T) { requireClosed(ctx, t, server) })
	t.Run("a second server on the same data is refused", func(t *testing.T) {
		second := exec.CommandContext(ctx, server.Command()[0], server.Command()[1:]...)
		output, err := second.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(output), "another server uses")
	})

	register(ctx, t, server)
	begin(ctx, t, server)
	t.Run("a certificate permits what its role permits", func(t *testing.T) { requireRoles(ctx, t, server) })
	require.NoError(t, server.Kill())
	require.NoError(t, server.Start(ctx))
	t.Run("a history and its search attributes survive kill -9", func(t *testing.T) { requireKept(ctx, t, server) })
	t.Run("the UI reaches the server", func(t *testing.T) {
		require.Contains(t, get(ctx, t, "http://"+server.UIAddress+"/api/v1/namespaces"), `"virtflow"`)
		require.Contains(t, get(ctx, t, "http://"+server.UIAddress+"/"), "<html")
	})
	require.NoError(t, server.Stop(), "an orderly stop ends with exit code 0")
}

// requireClosed calls every service without a certificate, with one of another CA, and in plain text.
func requireClosed(ctx context.Context, t *testing.T, server *trial.Server) {
	ours, err := tlsfiles.Client(server.TLS)
	require.NoError(t, err)
	elsewhere := t.TempDir()
	require.NoError(t, trial.WriteCertificates(elsewhere))
	theirs, err := tlsfiles.Client(elsewhere)
	require.NoError(t, err)
	without, strange := ours.Clone(), ours.Clone()
	without.Certificates = nil
	strange.Certificates = theirs.Certificates
	for _, address := range server.Services {
		require.Equal(t, codes.OK, knock(ctx, t, address, credentials.NewTLS(ours)), address)
		require.Equal(t, codes.Unavailable, knock(ctx, t, address, credentials.NewTLS(without)), address)
		require.Equal(t, codes.Unavailable, knock(ctx, t, address, credentials.NewTLS(strange)), address)
		require.Equal(t, codes.Unavailable, knock(ctx, t, address, insecure.NewCredentials()), address)
		// The handshake itself is refused, before any request is read. With TLS 1.3 the client gets the error at its
		// first read.
		connection, err := (&tls.Dialer{Config: without}).DialContext(ctx, "tcp", address)
		if err == nil {
			_, err = connection.Read(make([]byte, 1))
			_ = connection.Close()
		}
		require.ErrorContains(t, err, "certificate required", address)
	}
}

// knock calls the service's health check; any answer from the service counts as authenticated.
func knock(ctx context.Context, t *testing.T, address string, credentials credentials.TransportCredentials) codes.Code {
	connection, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials))
	require.NoError(t, err)
	defer func() { _ = connection.Close() }()
	_, err = healthpb.NewHealthClient(connection).Check(ctx, &healthpb.HealthCheckRequest{})
	if code := status.Code(err); code != codes.NotFound && code != codes.Unimplemented {
		return code
	}
	return codes.OK // authenticated; there is no service without a name
}

const machine = "vm/default/test"

// register creates the namespace and a search attribute, as a client of a new server does.
func register(ctx context.Context, t *testing.T, server *trial.Server) {
	connected, err := server.Dial(ctx, "virtflow")
	require.NoError(t, err)
	defer connected.Close()
	_, err = connected.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: "virtflow", WorkflowExecutionRetentionPeriod: durationpb.New(90 * 24 * time.Hour),
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := connected.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
			Namespace: "virtflow", SearchAttributes: map[string]enumspb.IndexedValueType{
				"Phase": enumspb.INDEXED_VALUE_TYPE_KEYWORD},
		})
		return err == nil
	}, 20*time.Second, 100*time.Millisecond)
}

// begin starts a workflow without a worker, and signals it.
func begin(ctx context.Context, t *testing.T, server *trial.Server) {
	connected, err := server.Dial(ctx, "virtflow")
	require.NoError(t, err)
	defer connected.Close()
	require.Eventually(t, func() bool {
		_, err := connected.SignalWithStartWorkflow(ctx, machine, "observed", "pod ready", client.StartWorkflowOptions{
			TaskQueue: "unpolled",
			TypedSearchAttributes: temporal.NewSearchAttributes(temporal.NewSearchAttributeKeyKeyword("Phase").
				ValueSet("Running")),
		}, "VirtualMachine")
		return err == nil
	}, 20*time.Second, 100*time.Millisecond)
}

// requireRoles makes calls with each process's certificate, permitted and forbidden ones.
func requireRoles(ctx context.Context, t *testing.T, server *trial.Server) {
	as := func(process string) workflowservice.WorkflowServiceClient {
		config, err := tlsfiles.Client(server.TLS)
		require.NoError(t, err)
		pair, err := tls.LoadX509KeyPair(filepath.Join(server.TLS, process+".crt"),
			filepath.Join(server.TLS, process+".key"))
		require.NoError(t, err)
		config.Certificates = []tls.Certificate{pair}
		connection, err := grpc.NewClient("passthrough:///"+server.Address,
			grpc.WithTransportCredentials(credentials.NewTLS(config)))
		require.NoError(t, err)
		t.Cleanup(func() { _ = connection.Close() })
		return workflowservice.NewWorkflowServiceClient(connection)
	}
	execution := &commonpb.WorkflowExecution{WorkflowId: "other"}
	calls := map[string]func(workflowservice.WorkflowServiceClient) error{
		"describe": func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
				Namespace: "virtflow", Execution: execution})
			return err
		},
		"signal": func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.SignalWorkflowExecution(ctx, &workflowservice.SignalWorkflowExecutionRequest{
				Namespace: "virtflow", WorkflowExecution: execution, SignalName: "s"})
			return err
		},
		"terminate": func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.TerminateWorkflowExecution(ctx, &workflowservice.TerminateWorkflowExecutionRequest{
				Namespace: "virtflow", WorkflowExecution: execution})
			return err
		},
		"poll": func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{
				Namespace: "virtflow", TaskQueue: &taskqueuepb.TaskQueue{Name: ""}})
			return err
		},
		"another namespace's settings": func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.UpdateNamespace(ctx, &workflowservice.UpdateNamespaceRequest{Namespace: "nobodys"})
			return err
		},
	}
	for process, may := range map[string][]string{
		"client":         {"describe", "signal", "terminate", "poll", "another namespace's settings"},
		"control-worker": {"describe", "signal", "terminate", "poll", "another namespace's settings"},
		"crdwatch":       {"describe", "signal", "terminate"},
		"api-server":     {"describe", "signal"},
		"node-gateway":   {"signal"},
	} {
		c := as(process)
		for name, call := range calls {
			code := status.Code(call(c))
			if slices.Contains(may, name) {
				require.Contains(t, []codes.Code{codes.NotFound, codes.InvalidArgument}, code, "%s: %s", process, name)
			} else {
				require.Equal(t, codes.PermissionDenied, code, "%s: %s", process, name)
			}
		}
	}
}

func requireKept(ctx context.Context, t *testing.T, server *trial.Server) {
	connected, err := server.Dial(ctx, "virtflow")
	require.NoError(t, err)
	defer connected.Close()
	var types []enumspb.EventType
	for events := connected.GetWorkflowHistory(ctx, machine, "", false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		event, err := events.Next()
		require.NoError(t, err)
		types = append(types, event.GetEventType())
	}
	require.Equal(t, []enumspb.EventType{
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
		enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED,
	}, types)
	require.Eventually(t, func() bool { // visibility has a delay
		found, err := connected.ListWorkflow(ctx,
			&workflowservice.ListWorkflowExecutionsRequest{Query: "Phase = 'Running'"})
		return err == nil && len(found.GetExecutions()) == 1 && found.GetExecutions()[0].GetExecution().
			GetWorkflowId() == machine
	}, 20*time.Second, 100*time.Millisecond)
}

func get(ctx context.Context, t *testing.T, url string) string {
	var body []byte
	require.Eventually(t, func() bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }()
		body, err = io.ReadAll(response.Body)
		return err == nil && response.StatusCode == http.StatusOK
	}, 20*time.Second, 100*time.Millisecond)
	return string(body)
}
