package monitoring

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// header begins the generated file.
const header = `# Generated from rules.yaml by make generate; do not edit.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: virtflow
  namespace: virtflow
  labels:
    app.kubernetes.io/part-of: virtflow
spec:
`

// PrometheusRule is the object of the Prometheus operator that has the rules of a plain file.
func PrometheusRule(rules []byte) ([]byte, error) {
	var content map[string]any
	if err := yaml.UnmarshalStrict(rules, &content); err != nil {
		return nil, fmt.Errorf("reading the rules: %w", err)
	}
	spec, err := yaml.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("writing the rules: %w", err)
	}
	var out strings.Builder
	out.WriteString(header)
	for line := range strings.Lines(string(spec)) {
		if strings.TrimSpace(line) != "" {
			out.WriteString("  ")
		}
		out.WriteString(line)
	}
	return []byte(out.String()), nil
}
