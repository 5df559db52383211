package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/virtflow/virtflow/launcher/rpc"
)

// Name of the command, and its flags, as the pod's probes use them.
const (
	Name        = "probe"
	FlagPing    = "guest-agent-ping"
	FlagCommand = "command"
	FlagArrived = "arrived"
	FlagTimeout = "timeout-seconds"
)

// connectLimit is the time that the launcher has for its answer, beside the time that the guest has.
const connectLimit = time.Second

// highestCode is the last exit code that a process can have.
const highestCode = 255

// FailedError is the exit code of a command in the guest.
type FailedError struct{ Code int }

// Error implements error.
func (e *FailedError) Error() string {
	return fmt.Sprintf("the command ended with exit code %d", e.Code)
}

// ExitCode returns the exit code of the process; a failure never becomes 0.
func ExitCode(err error) int {
	var failed *FailedError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &failed) && failed.Code > 0 && failed.Code <= highestCode:
		return failed.Code
	default:
		return 1
	}
}

// NewCommand returns the command: probe --guest-agent-ping, probe --arrived, or probe --command PROGRAM -- ARGUMENT…
func NewCommand() *cobra.Command {
	var (
		ping, arrived    bool
		command, socket  string
		timeoutInSeconds int32
	)
	cmd := &cobra.Command{
		Use: Name, Short: "Pings the guest's agent, has it run a command and ends with its exit " +
			"code, or asks the launcher whether the guest that it receives has arrived",
		Args: cobra.ArbitraryArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return fmt.Errorf("connecting to the launcher: %w", err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Duration(timeoutInSeconds)*time.Second+connectLimit)
			defer cancel()
			launcher := rpc.NewLauncherClient(conn)
			if arrived {
				return Arrived(ctx, launcher)
			}
			if ping {
				return Ping(ctx, launcher, timeoutInSeconds)
			}
			return Exec(ctx, launcher, cmd.OutOrStdout(), command, arguments, timeoutInSeconds)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&ping, FlagPing, false, "ping the guest's agent")
	f.BoolVar(&arrived, FlagArrived, false, "check whether the guest of a migration runs here")
	f.StringVar(&command, FlagCommand, "", "program to run in the guest; its arguments follow --")
	f.Int32Var(&timeoutInSeconds, FlagTimeout, 1, "how long the guest may take")
	f.StringVar(&socket, "socket", "/run/virtflow/sockets/launcher.sock", "the launcher's Unix socket")
	cmd.MarkFlagsOneRequired(FlagPing, FlagCommand, FlagArrived)
	cmd.MarkFlagsMutuallyExclusive(FlagPing, FlagCommand, FlagArrived)
	return cmd
}

// Ping fails unless the guest's agent answers.
func Ping(ctx context.Context, launcher rpc.LauncherClient, timeoutSeconds int32) error {
	if _, err := launcher.GuestPing(ctx, &rpc.GuestPingRequest{TimeoutSeconds: timeoutSeconds}); err != nil {
		return errors.New(status.Convert(err).Message())
	}
	return nil
}

// errNotArrived means that a launcher still waits for its guest.
var errNotArrived = errors.New("the guest has not arrived")

// Arrived fails until a guest that the launcher receives runs there, or has migrated again since.
func Arrived(ctx context.Context, launcher rpc.LauncherClient) error {
	m, err := launcher.MigrationStatus(ctx, &rpc.MigrationStatusRequest{})
	switch {
	case err != nil:
		return fmt.Errorf("reading the migration status of the launcher: %s", status.Convert(err).Message())
	case m.GetResumed(), m.GetRole() == rpc.MigrationRole_MIGRATION_ROLE_SOURCE:
		return nil
	default:
		return errNotArrived
	}
}

// Exec runs a command in the guest and copies its output. A command that fails returns a *FailedError.
func Exec(
	ctx context.Context, launcher rpc.LauncherClient, out io.Writer, command string, arguments []string,
	timeoutSeconds int32,
) error {
	r, err := launcher.GuestExec(ctx,
		&rpc.GuestExecRequest{Command: command, Arguments: arguments, TimeoutSeconds: timeoutSeconds})
	if err != nil {
		return fmt.Errorf("failed executing the command: %s", status.Convert(err).Message())
	}
	if _, err := out.Write(r.GetOutput()); err != nil {
		return fmt.Errorf("writing the command's output: %w", err)
	}
	if r.GetExitCode() != 0 {
		return &FailedError{Code: int(r.GetExitCode())}
	}
	return nil
}
