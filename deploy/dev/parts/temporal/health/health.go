package health

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/virtflow/virtflow/deploy/dev/parts/temporal/tlsfiles"
)

const (
	tryTimeout = 3 * time.Second
	pause      = 100 * time.Millisecond
)

// Wait asks until the server serves or the time is over; with no time it asks once. It returns the last reason.
func Wait(ctx context.Context, address, tlsDir string, wait time.Duration) error {
	config, err := tlsfiles.Client(tlsDir)
	if err != nil {
		return err
	}
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", address, err)
	}
	defer func() { _ = connection.Close() }()

	deadline := time.Now().Add(wait)
	for {
		err := check(ctx, connection)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("the Temporal server at %s does not serve: %w", address, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			connection.ResetConnectBackoff()
		}
	}
}

// check asks the frontend whether it serves, then has it read from the database.
func check(ctx context.Context, connection *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	answer, err := healthpb.NewHealthClient(connection).Check(ctx, &healthpb.HealthCheckRequest{
		Service: "temporal.api.workflowservice.v1.WorkflowService",
	})
	if err != nil {
		return fmt.Errorf("asking for health: %w", err)
	}
	if answer.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return errors.New("the frontend is not ready yet")
	}
	_, err = workflowservice.NewWorkflowServiceClient(connection).
		ListNamespaces(ctx, &workflowservice.ListNamespacesRequest{PageSize: 1})
	if err != nil {
		return fmt.Errorf("listing namespaces: %w", err)
	}
	return nil
}
