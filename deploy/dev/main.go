// Command dev is virtflow's local cluster: a real Kubernetes with two nodes and a real Temporal, built from source, on
// one Debian machine. The Makefile calls it; `go run -C deploy/dev . help` lists what it can do.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/virtflow/virtflow/deploy/dev/cluster"
	"github.com/virtflow/virtflow/deploy/dev/layout"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	cancel()
	if err == nil {
		return
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "Interrupted. Repeat the command to continue.")
	} else {
		fmt.Fprintf(os.Stderr, "Failed: %v\n", err)
	}
	os.Exit(1)
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use: "dev", Short: "virtflow's local cluster",
		SilenceUsage: true, SilenceErrors: true,
	}
	cmd.AddCommand(clusterVerbs()...)
	cmd.AddCommand(deliverVerbs()...)
	cmd.AddCommand(backgroundVerbs()...)
	return cmd
}

// here returns the cluster of the working directory's checkout.
func here() (cluster.Cluster, error) {
	l, err := layout.FromEnvironment()
	return cluster.Cluster{Layout: l, TemporalDB: os.Getenv("TEMPORAL_DB"), Out: os.Stdout}, err
}

// with returns a command's function that works on the cluster.
func with(do func(context.Context, cluster.Cluster, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := here()
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, args)
	}
}
