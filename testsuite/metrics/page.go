package metrics

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/deploy/checkout"
)

// Metric is a row of the page.
type Metric struct {
	Name string
	// Type is counter, gauge or histogram.
	Type   string
	Labels []string
	// Package is the package whose code registers it.
	Package string
}

// row returns the part of a metric's row that a registry knows.
func (m Metric) row() string { return "`" + m.Name + "` | " + strings.Join(m.Labels, ", ") }

// Page reads the rows of docs/metrics.md. A heading "## purpose (`package`)" begins the rows of a package.
func Page() ([]Metric, error) {
	root, err := checkout.Root()
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		return nil, fmt.Errorf("reading the page of metrics: %w", err)
	}
	heading := regexp.MustCompile("^## .*\\(`([^`]+)`\\)$")
	row := regexp.MustCompile("^\\| `([a-z0-9_]+)` \\| (counter|gauge|histogram) \\| ([a-z0-9_, ]*) \\| .+ \\|$")
	var out []Metric
	of := ""
	for line := range strings.Lines(string(content)) {
		line = strings.TrimRight(line, "\n")
		if m := heading.FindStringSubmatch(line); m != nil {
			of = m[1]
		}
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		m := row.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("docs/metrics.md: no row of a metric: %s", line)
		}
		out = append(out, Metric{Name: m[1], Type: m[2], Labels: labels(m[3], ", "), Package: of})
	}
	return out, nil
}

// Documented fails unless the page has, for a package, exactly the metrics of its registry, each with its labels.
func Documented(t *testing.T, of string, registered prometheus.Collector) {
	t.Helper()
	page, err := Page()
	require.NoError(t, err)
	var want, have []string
	for _, m := range Registered(registered) {
		want = append(want, m.row())
	}
	for _, m := range page {
		if m.Package == of {
			have = append(have, m.row())
		}
	}
	slices.Sort(want)
	slices.Sort(have)
	require.NotEmpty(t, want)
	require.Equal(t, slices.Compact(want), have, "docs/metrics.md must have the metrics of %s: name and labels", of)
}

// Registered returns the metrics of a registry, including those without a value yet. A registry does not know their
// types.
func Registered(r prometheus.Collector) []Metric {
	all := make(chan *prometheus.Desc)
	go func() {
		r.Describe(all)
		close(all)
	}()
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	constant := regexp.MustCompile(`constLabels: \{([^}]*)\}`)
	variable := regexp.MustCompile(`variableLabels: \{([^}]*)\}`)
	var out []Metric
	for d := range all {
		text := d.String()
		m := Metric{Name: name.FindStringSubmatch(text)[1]}
		for _, l := range labels(constant.FindStringSubmatch(text)[1], ",") {
			label, _, _ := strings.Cut(l, "=")
			m.Labels = append(m.Labels, label)
		}
		m.Labels = append(m.Labels, labels(variable.FindStringSubmatch(text)[1], ",")...)
		out = append(out, m)
	}
	return out
}

func labels(list, separator string) []string {
	if strings.TrimSpace(list) == "" {
		return nil
	}
	return strings.Split(strings.TrimSpace(list), separator)
}
