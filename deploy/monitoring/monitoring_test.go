package monitoring_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/virtflow/virtflow/deploy/images/cache"
	"github.com/virtflow/virtflow/deploy/images/debian"
	"github.com/virtflow/virtflow/deploy/monitoring"
	"github.com/virtflow/virtflow/testsuite/metrics"
)

const (
	rulesFile = "rules.yaml"
	// kubevirtFile has KubeVirt's rules, as deploy/monitoring/gen makes them.
	kubevirtFile = "kubevirt-rules.yaml"
	runbooks     = "https://github.com/virtflow/virtflow/blob/main/docs/runbooks.md#"
)

type rule struct {
	Alert       string            `json:"alert"`
	Record      string            `json:"record"`
	Expr        string            `json:"expr"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// rules returns the rules of both files.
func rules(t *testing.T) []rule {
	t.Helper()
	return append(rulesOf(t, rulesFile), rulesOf(t, kubevirtFile)...)
}

func rulesOf(t *testing.T, file string) (out []rule) {
	t.Helper()
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	var all struct {
		Groups []struct {
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	require.NoError(t, yaml.Unmarshal(content, &all))
	for _, g := range all.Groups {
		out = append(out, g.Rules...)
	}
	require.NotEmpty(t, out)
	return out
}

// kubevirtTests are the files with tests of KubeVirt's rules.
func kubevirtTests() []string {
	return []string{"kubevirt-rules_test.yaml", "kubevirt-rules-day_test.yaml"}
}

// TestPromtool has Prometheus itself read the rules, and raise each alert.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil { // Debian's package has a server, too, which would serve the network without authentication
		dir, err := cache.Default()
		require.NoError(t, err)
		unpacked, err := debian.NewArchive(dir, zerolog.Nop()).Unpacked(t.Context(), "prometheus")
		require.NoError(t, err)
		promtool = filepath.Join(unpacked, "usr", "bin", "promtool")
	}
	for _, what := range [][]string{{"check", "rules", rulesFile, kubevirtFile},
		append([]string{"test", "rules", "rules_test.yaml"}, kubevirtTests()...)} {
		said, err := exec.CommandContext(t.Context(), promtool, what...).CombinedOutput()
		require.NoError(t, err, "%s", said)
	}
	tests, err := os.ReadFile("rules_test.yaml")
	require.NoError(t, err)
	for _, r := range rulesOf(t, rulesFile) {
		if r.Alert != "" {
			require.Regexp(t, regexp.MustCompile(`alertname: `+r.Alert+`\n +exp_alerts:`), string(tests),
				"no test raises it")
		}
	}
	var all []byte
	for _, file := range kubevirtTests() {
		tests, err = os.ReadFile(file)
		require.NoError(t, err)
		all = append(all, tests...)
	}
	for _, r := range rulesOf(t, kubevirtFile) {
		if r.Alert != "" {
			is := strings.Contains(string(all), `{labels: '{alertname="`+r.Alert+`"`)
			require.True(t, is, "no test raises %s", r.Alert)
		}
	}
}

// TestOperatorsRulesMatch: the operator's rules match the plain ones.
func TestOperatorsRulesMatch(t *testing.T) {
	plain, err := os.ReadFile(rulesFile)
	require.NoError(t, err)
	want, err := monitoring.PrometheusRule(plain)
	require.NoError(t, err)
	have, err := os.ReadFile("prometheusrule.yaml")
	require.NoError(t, err)
	var generated, object, file map[string]any
	require.NoError(t, yaml.Unmarshal(want, &generated))
	require.NoError(t, yaml.Unmarshal(have, &object))
	require.NoError(t, yaml.Unmarshal(plain, &file))
	require.Equal(t, generated, object, "run make generate")
	require.Equal(t, file, object["spec"])
}

// TestEveryAlertHasItsRunbook: every alert has a runbook, and every runbook an alert.
func TestEveryAlertHasItsRunbook(t *testing.T) {
	page, err := os.ReadFile("../../docs/runbooks.md")
	require.NoError(t, err)
	var want, have []string
	for _, r := range rulesOf(t, rulesFile) {
		require.True(t, r.Alert == "" || r.Annotations["description"] != "", r.Alert) // some of KubeVirt's have none
	}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		want = append(want, r.Alert)
		require.Equal(t, runbooks+strings.ToLower(r.Alert), r.Annotations["runbook_url"])
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.Contains(t, []string{"critical", "warning", "info"}, r.Labels["severity"], r.Alert)
	}
	for line := range strings.Lines(string(page)) {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			have = append(have, strings.TrimSpace(name))
		}
	}
	slices.Sort(want)
	slices.Sort(have)
	require.Equal(t, slices.Compact(want), have) // some alerts are there once for each severity
}

// TestMetricsExist: a recorded metric, or one of a process, exists for each name in the alerts, the recording rules and
// the dashboard; or one of the cluster for a name in KubeVirt's rules.
func TestMetricsExist(t *testing.T) {
	known := exported(t)
	asked := dashboard(t)
	for _, r := range rulesOf(t, rulesFile) {
		asked = append(asked, r.Expr)
	}
	for _, expr := range asked {
		for _, name := range names(expr) {
			require.True(t, exists(known, name), "there is no metric %s, asked for by %s", name, expr)
		}
	}
	used := map[string]bool{}
	for _, r := range rulesOf(t, kubevirtFile) {
		for _, name := range names(r.Expr) {
			used[name] = true
			require.True(t, exists(known, name) || slices.Contains(ofTheCluster(), name),
				"there is no metric %s, asked for by %s%s: export it, or leave the rule out in gen/decisions.go",
				name, r.Alert, r.Record)
		}
	}
	for _, name := range ofTheCluster() {
		require.True(t, used[name], "no rule asks for %s", name)
	}
	require.False(t, exists(known, "virtflow_crdwatch_laeder"))
	require.False(t, exists(known, "virtflow_crdwatch_leader_bucket"), "it is no histogram")
	require.Equal(t, []string{"kube_x", "y:z"}, names(`count(kube_x{a=~'b-.*'} * on(p) group_left() (1 - y:z)) or vector(0)`))
	require.Equal(t, []string{"a_total", "b", "c:d"},
		names(`sum by (x, y) (rate(a_total{l="q_q"}[5m])) / on (z) b > bool 5 or time() - c:d offset 5m`))
}

// exported returns the types of the metrics of the processes, and of those that the rules record.
func exported(t *testing.T) map[string]string {
	t.Helper()
	page, err := metrics.Page()
	require.NoError(t, err)
	known := map[string]string{}
	for _, m := range page {
		known[m.Name] = m.Type
	}
	// Go's collectors have them, as the tests of client_golang check.
	known["process_cpu_seconds_total"], known["process_resident_memory_bytes"] = "counter", "gauge"
	for _, r := range rules(t) {
		if r.Record != "" {
			known[r.Record] = "gauge"
		}
	}
	return known
}

// ofTheCluster returns the metrics of Prometheus, kube-state-metrics, cAdvisor and the API server that KubeVirt's rules
// ask for.
func ofTheCluster() []string {
	return []string{
		"up",
		"apiserver_request_total", "apiserver_requested_deprecated_apis",
		"container_memory_rss", "container_memory_working_set_bytes",
		"kube_daemonset_status_desired_number_scheduled", "kube_daemonset_status_number_ready",
		"kube_deployment_spec_replicas", "kube_node_labels", "kube_node_role", "kube_node_spec_unschedulable",
		"kube_node_status_allocatable", "kube_pod_container_resource_requests", "kube_pod_info",
		"kube_pod_status_phase", "kube_pod_status_ready",
	}
}

func exists(known map[string]string, name string) bool {
	if kind, ok := known[name]; ok {
		return kind != "histogram"
	}
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && known[base] == "histogram" {
			return true
		}
	}
	return false
}

// names returns the metrics in an expression: words outside quotes, braces, brackets and lists of labels that are no
// numbers, functions or keywords.
func names(expr string) (out []string) {
	for _, not := range []string{`"[^"]*"`, `'[^']*'`, `\{[^}]*\}`, `\[[^\]]*\]`,
		`\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`, `\boffset\s+\w+`, `\b\w+\s*\(`} {
		expr = regexp.MustCompile(not).ReplaceAllString(expr, " ")
	}
	for _, word := range regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`).FindAllString(expr, -1) {
		if !slices.Contains([]string{"and", "or", "unless", "bool", "sum", "max", "min", "by"}, word) {
			out = append(out, word)
		}
	}
	return out
}

// dashboard returns the expressions of the panels.
func dashboard(t *testing.T) (out []string) {
	t.Helper()
	panels, err := metrics.Dashboard()
	require.NoError(t, err)
	for _, p := range panels {
		require.True(t, p.Type == "row" || len(p.Targets) > 0, p.Title)
		for _, target := range p.Targets {
			require.NotEmpty(t, target.Expr, p.Title)
			out = append(out, target.Expr)
		}
	}
	require.NotEmpty(t, out)
	return out
}

// TestTemporalsSDKHasDocumentedMetrics: the names are constants of its module, which other modules cannot import.
func TestTemporalsSDKHasDocumentedMetrics(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "go.temporal.io/sdk").Output()
	require.NoError(t, err)
	file, err := parser.ParseFile(token.NewFileSet(),
		filepath.Join(strings.TrimSpace(string(dir)), "internal", "common", "metrics", "constants.go"), nil, 0)
	require.NoError(t, err)
	known := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			text, err := strconv.Unquote(l.Value)
			require.NoError(t, err)
			if strings.HasPrefix(text, "_") { // said of requests
				text = "request" + text
			}
			known["temporal_"+text] = true
		}
		return true
	})
	page, err := metrics.Page()
	require.NoError(t, err)
	n := 0
	for _, m := range page {
		if m.Package != "go.temporal.io/sdk" {
			continue
		}
		n++
		suffix := map[string]string{"counter": "_total", "histogram": "_seconds"}[m.Type]
		name, ok := strings.CutSuffix(m.Name, suffix)
		require.True(t, ok && known[name], m.Name)
	}
	require.NotZero(t, n)
}
