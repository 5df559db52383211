package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/virtflow/virtflow/deploy/dev/layout"
	"github.com/virtflow/virtflow/deploy/dev/postgres"
	"github.com/virtflow/virtflow/deploy/dev/readiness"
	"github.com/virtflow/virtflow/deploy/dev/supervise"
	"github.com/virtflow/virtflow/internal/pki"
)

// Where Temporal keeps its histories.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// PostgresOf returns the PostgreSQL server of a cluster, if Temporal has its histories there.
func PostgresOf(l layout.Layout) postgres.Server { return postgres.Server{Dir: l.Path("postgres")} }

// postgres is Temporal's database.
func (c Cluster) postgres() (supervise.Spec, error) {
	server := PostgresOf(c.Layout)
	args, err := server.Args()
	if err != nil {
		return supervise.Spec{}, err
	}
	return supervise.Spec{
		// SIGTERM has it wait for the end of Temporal, which is stopped at the same time.
		Name: "postgres", Last: true, Grace: 20 * time.Second, Args: args, Needs: server.Prepare,
	}, nil
}

// temporal is Temporal's server with its web interface; temporal-dev.yaml says how.
func (c Cluster) temporal() (supervise.Spec, error) {
	l := c.Layout
	// A copy: the process keeps to what it was started with, whatever becomes of the checkout.
	config, err := os.ReadFile(filepath.Join(l.Repo, "temporal-dev.yaml"))
	if err != nil {
		return supervise.Spec{}, fmt.Errorf("read Temporal's configuration: %w", err)
	}
	file := l.Path("run", "temporal-dev.yaml")
	if err := pki.WriteFile(file, config, 0o644); err != nil {
		return supervise.Spec{}, err
	}
	spec := supervise.Spec{
		Name: "temporal", Last: true, Grace: 10 * time.Second, Fingerprint: string(config),
		Args: []string{
			c.temporalProgram(), "--config", file, "--data", l.Path("temporal"), "--tls", l.Path("pki", "temporal"),
			"--address", layout.Temporal, "--ui-address", layout.UI, "--metrics-address", layout.TemporalMetrics,
			"--pprof-address", layout.TemporalPprof,
		},
	}
	if c.TemporalDB == Postgres {
		server := PostgresOf(l)
		spec.Args = append(spec.Args, "--postgres", server.Socket())
		spec.Needs = func(ctx context.Context) error {
			return readiness.Poll(ctx, "PostgreSQL", server.Ready)
		}
	}
	return spec, nil
}

func (c Cluster) temporalProgram() string { return filepath.Join(c.Temporal, "virtflow-temporal") }

// TemporalReady asks Temporal once whether it serves and its database answers.
func (c Cluster) TemporalReady(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, c.temporalProgram(), "health", "--address", layout.Temporal, "--tls",
		c.Layout.Path("pki", "temporal")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ask Temporal: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
