package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// Names of the commands, as a pod's annotations have them.
const (
	Freeze = "freeze"
	Thaw   = "thaw"
)

const (
	// thawAfter is the time after which a frozen guest thaws without a request. It is KubeVirt's.
	thawAfter = 5 * time.Minute
	// frozenIn is the time that a guest has to flush its file systems, and thawedIn the time to thaw: together less
	// than the 60 s that Velero waits.
	frozenIn, thawedIn = 35 * time.Second, rpc.OperationAnswered
	// lookedIn is the time that the read of the domain's state may take.
	lookedIn = 5 * time.Second
)

// Commands returns the commands freeze and thaw. A guest that cannot be frozen, since it has no agent or does not run,
// stays unchanged, which is no error: its backup is as good as it can be.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		command(Freeze, "Freezes the guest's file systems, for five minutes at most", &rpc.OperateRequest{
			Operation: rpc.Operation_OPERATION_FREEZE, ThawAfterSeconds: int64(thawAfter / time.Second)}),
		command(Thaw, "Thaws the guest's file systems",
			&rpc.OperateRequest{Operation: rpc.Operation_OPERATION_THAW}),
	}
}

func command(name, short string, request *rpc.OperateRequest) *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return fmt.Errorf("connecting to the launcher: %w", err)
			}
			defer conn.Close()
			if _, err := os.Stat(socket); errors.Is(err, os.ErrNotExist) {
				fmt.Fprintln(cmd.OutOrStdout(), "The guest has not started, so nothing is frozen.")
				return nil
			}
			why, err := operate(cmd.Context(), rpc.NewLauncherClient(conn), request)
			if why != "" {
				fmt.Fprintln(cmd.OutOrStdout(), why)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "/run/virtflow/sockets/launcher.sock", "the launcher's Unix socket")
	return cmd
}

// operate sends the request, or returns why it is not needed. It thaws a guest that does not freeze in time, because
// the guest might still freeze later.
func operate(ctx context.Context, launcher rpc.LauncherClient, request *rpc.OperateRequest) (why string, err error) {
	limit := thawedIn
	if request.GetOperation() == rpc.Operation_OPERATION_FREEZE {
		limit = frozenIn
	}
	domain, err := look(ctx, launcher)
	switch {
	case err != nil:
		return "", err
	case domain.GetFrozen(): // thawed in any state
	case domain.GetState() != rpc.DomainState_DOMAIN_STATE_RUNNING:
		return "The guest does not run, so nothing is frozen.", nil
	case !domain.GetAgentConnected():
		return "The guest has no agent, so its file systems cannot be frozen.", nil
	}
	if err := call(ctx, launcher, request, limit); err != nil {
		if request.GetOperation() == rpc.Operation_OPERATION_FREEZE {
			thaw := &rpc.OperateRequest{Operation: rpc.Operation_OPERATION_THAW}
			err = errors.Join(err, call(ctx, launcher, thaw, thawedIn))
		}
		return "", err
	}
	return "", nil
}

func look(ctx context.Context, launcher rpc.LauncherClient) (*rpc.Domain, error) {
	ctx, cancel := context.WithTimeout(ctx, lookedIn)
	defer cancel()
	domain, err := launcher.GetDomain(ctx, &rpc.GetDomainRequest{})
	if err != nil {
		return nil, errors.New(status.Convert(err).Message())
	}
	return domain, nil
}

func call(ctx context.Context, launcher rpc.LauncherClient, r *rpc.OperateRequest, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if _, err := launcher.Operate(ctx, r); err != nil {
		return errors.New(status.Convert(err).Message())
	}
	return nil
}
