package process

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// earlySignal makes this test program a process that gets a signal while its command is still being made.
const earlySignal = "VIRTFLOW_TEST_EARLY_SIGNAL"

func TestMain(m *testing.M) {
	if os.Getenv(earlySignal) == "" {
		os.Exit(m.Run())
	}
	Main(func() *cobra.Command {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			panic(err)
		}
		cmd := NewCommand("early", "", nil, func(context.Context, *Process) error { panic("work was begun") })
		cmd.SetArgs([]string{"--metrics-address="})
		// The signal reaches the context by way of a goroutine of os/signal.
		cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			return nil
		}
		return cmd
	})
}

// TestSignalBeforeWorkBegins: a signal before work begins ends the process cleanly: without a handler the signal would
// kill the process, or not even reach it as the first process of a container.
func TestSignalBeforeWorkBegins(t *testing.T) {
	var said bytes.Buffer
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.Stderr = append(os.Environ(), earlySignal+"=yes"), &said
	require.NoError(t, cmd.Run(), said.String())
	require.Contains(t, said.String(), "stopped before work began")
}
