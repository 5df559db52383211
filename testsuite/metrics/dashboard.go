package metrics

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/virtflow/virtflow/deploy/checkout"
)

// Panel is a panel of the dashboard, or a row of panels.
type Panel struct {
	Type, Title string
	// Targets are its queries to Prometheus.
	Targets []struct{ Expr string }
}

// Dashboard reads the panels of deploy/monitoring/dashboard.json.
func Dashboard() ([]Panel, error) {
	root, err := checkout.Root()
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(root, "deploy", "monitoring", "dashboard.json"))
	if err != nil {
		return nil, fmt.Errorf("reading the dashboard: %w", err)
	}
	var all struct{ Panels []Panel }
	if err := json.Unmarshal(content, &all); err != nil {
		return nil, fmt.Errorf("reading the dashboard: %w", err)
	}
	return all.Panels, nil
}
