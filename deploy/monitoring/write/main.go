// Command write makes deploy/monitoring/prometheusrule.yaml from rules.yaml. It is run in the repository's root.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/virtflow/virtflow/deploy/monitoring"
)

const folder = "deploy/monitoring"

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write() error {
	rules, err := os.ReadFile(filepath.Join(folder, "rules.yaml"))
	if err != nil {
		return fmt.Errorf("reading the rules: %w", err)
	}
	object, err := monitoring.PrometheusRule(rules)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "prometheusrule.yaml"), object, 0o644); err != nil {
		return fmt.Errorf("writing the rules: %w", err)
	}
	return nil
}
