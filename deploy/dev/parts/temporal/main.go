package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/virtflow/virtflow/deploy/dev/parts/temporal/health"
	"github.com/virtflow/virtflow/deploy/dev/parts/temporal/server"
	"github.com/virtflow/virtflow/deploy/dev/parts/temporal/settings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := command(os.Stderr).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "virtflow-temporal: %v\n", err)
		os.Exit(1)
	}
}

// command builds the command line; logs go to the given writer.
func command(logs io.Writer) *cobra.Command {
	var flags settings.Flags
	root := &cobra.Command{
		Use:   "virtflow-temporal",
		Short: "Temporal's server for development, with its UI: SQLite or PostgreSQL, mutual TLS on every connection",
		Long: `Runs Temporal's frontend, history, matching and worker services and the Temporal UI in one process.

Histories are kept in SQLite files below --data, or with --postgres in PostgreSQL, and survive a restart and a kill -9.
Every connection needs a client certificate of the CA in --tls (ca.crt, server.crt, server.key, client.crt, client.key).
Everything else is set in the file given by --config. SIGTERM and SIGINT stop the server in order.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			level, err := zerolog.ParseLevel(flags.LogLevel)
			if err != nil {
				return fmt.Errorf("--log-level %q: use debug, info, warn or error", flags.LogLevel)
			}
			// The few lines about start and stop are worth having at any level but the most silent.
			log := zerolog.New(logs).With().Timestamp().Str("process", "virtflow-temporal").Logger().
				Level(min(level, zerolog.InfoLevel))
			return server.Run(cmd.Context(), flags, log)
		},
	}
	set := root.Flags()
	set.StringVar(&flags.Config, "config", "temporal-dev.yaml", "configuration `FILE`")
	set.StringVar(&flags.Data, "data", "", "`DIR` for the databases; made if missing (required)")
	set.StringVar(&flags.Postgres, "postgres", "",
		"`DIR` of a PostgreSQL server's socket: histories go into its databases temporal and temporal_visibility")
	set.StringVar(&flags.TLS, "tls", "", "`DIR` with ca.crt, server.crt, server.key, client.crt, client.key (required)")
	set.StringVar(&flags.Address, "address", "10.210.0.1:7233",
		"`IP:PORT` where clients connect; 0.0.0.0 for every address")
	set.StringVar(&flags.UIAddress, "ui-address", "127.0.0.1:8233", "`IP:PORT` of the UI; plain HTTP, so loopback only")
	set.StringVar(&flags.MetricsAddress, "metrics-address", "127.0.0.1:7235",
		"`IP:PORT` of the Prometheus metrics, under /metrics")
	set.StringVar(&flags.PprofAddress, "pprof-address", "",
		"`IP:PORT` of profiles, under /debug/pprof, loopback only; empty for none")
	set.StringVar(&flags.LogLevel, "log-level", "warn", "debug, info, warn or error")
	set.IntVar(&flags.HistoryPort, "history-port", 7234, "loopback `PORT` of the history service")
	set.IntVar(&flags.MatchingPort, "matching-port", 7236, "loopback `PORT` of the matching service")
	set.IntVar(&flags.WorkerPort, "worker-port", 7239, "loopback `PORT` of the worker service")
	for _, name := range []string{"data", "tls"} {
		if err := root.MarkFlagRequired(name); err != nil {
			panic(err) // only for a flag that does not exist
		}
	}
	root.AddCommand(healthCommand())
	return root
}

func healthCommand() *cobra.Command {
	var (
		address, tlsDir string
		wait            time.Duration
	)
	cmd := &cobra.Command{
		Use:           "health",
		Short:         "Ask a running server whether it serves; exit code 0 if so",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return health.Wait(cmd.Context(), address, tlsDir, wait)
		},
	}
	set := cmd.Flags()
	set.StringVar(&address, "address", "10.210.0.1:7233", "`IP:PORT` of the server")
	set.StringVar(&tlsDir, "tls", "", "`DIR` with ca.crt, client.crt, client.key (required)")
	set.DurationVar(&wait, "wait", 0, "keep asking for this long before giving up")
	if err := cmd.MarkFlagRequired("tls"); err != nil {
		panic(err) // only for a flag that does not exist
	}
	return cmd
}
