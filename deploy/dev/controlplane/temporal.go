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
	"github.com/virtflow/virtflow/deploy/dev/pki"
	"github.com/virtflow/virtflow/deploy/dev/supervise"
)

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
	return supervise.Spec{
		Name: "temporal", Last: true, Grace: 10 * time.Second, Fingerprint: string(config),
		Args: []string{
			c.temporalProgram(), "--config", file, "--data", l.Path("temporal"), "--tls", l.Path("pki", "temporal"),
			"--address", layout.Temporal, "--ui-address", layout.UI, "--metrics-address", layout.TemporalMetrics,
		},
	}, nil
}

func (c Cluster) temporalProgram() string { return filepath.Join(c.Temporal, "virtflow-temporal") }

// TemporalReady asks Temporal once whether it serves and its database answers.
func (c Cluster) TemporalReady(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, c.temporalProgram(), "health", "--address", layout.Temporal, "--tls", c.Layout.Path("pki", "temporal")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ask Temporal: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
