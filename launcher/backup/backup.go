package backup

import (
	"context"
	"errors"
	"fmt"
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
	// thawAfter is when the guest may write again, should nobody thaw it. It is KubeVirt's.
	thawAfter = 5 * time.Minute
	// margin is how long it may take to find out whether there is anything to do.
	margin = 5 * time.Second
)

// Commands makes the commands freeze and thaw. A guest that cannot be frozen, since it has no agent or does not run, is
// not touched, which is no error: its backup is as good as one can be.
func Commands() []*cobra.Command {
	return []*cobra.Command{
		command(Freeze, "Freezes the guest's file systems, for five minutes at most", &rpc.OperateRequest{
			Operation: rpc.Operation_OPERATION_FREEZE, ThawAfterSeconds: int64(thawAfter / time.Second)}),
		command(Thaw, "Lets the guest write again",
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
				return fmt.Errorf("reaching the launcher: %w", err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), rpc.OperationAnswered+margin)
			defer cancel()
			why, err := operate(ctx, rpc.NewLauncherClient(conn), request)
			if why != "" {
				fmt.Fprintln(cmd.OutOrStdout(), why)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "/run/virtflow/sockets/launcher.sock", "the launcher's Unix socket")
	return cmd
}

// operate does it, or says why there is nothing to do.
func operate(ctx context.Context, launcher rpc.LauncherClient, request *rpc.OperateRequest) (why string, err error) {
	domain, err := launcher.GetDomain(ctx, &rpc.GetDomainRequest{})
	switch {
	case err != nil:
		return "", errors.New(status.Convert(err).Message())
	case domain.GetState() != rpc.DomainState_DOMAIN_STATE_RUNNING:
		return "The guest does not run: it writes nothing.", nil
	case !domain.GetAgentConnected():
		return "The guest has no agent that could freeze its file systems.", nil
	}
	if _, err := launcher.Operate(ctx, request); err != nil {
		return "", errors.New(status.Convert(err).Message())
	}
	return "", nil
}
