//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtflow/virtflow/deploy/images/cache"
	"github.com/virtflow/virtflow/deploy/images/debian"
	"github.com/virtflow/virtflow/testsuite/metrics"
	"github.com/virtflow/virtflow/testsuite/suite"
)

const monitoringDir = "../../deploy/monitoring"

// prometheus is a real Prometheus on loopback with the configuration of deploy/monitoring.
type prometheus struct {
	t     *testing.T
	base  string
	since time.Time
}

// startPrometheus runs Debian's Prometheus until the test ends.
func startPrometheus(t *testing.T) *prometheus {
	t.Helper()
	folder, err := cache.Default()
	require.NoError(t, err)
	unpacked, err := debian.NewArchive(folder, zerolog.Nop()).Unpacked(t.Context(), "prometheus")
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(monitoringDir, "prometheus.yaml"))
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, yaml.Unmarshal(content, &config))
	config["global"] = map[string]string{"scrape_interval": "2s", "evaluation_interval": "2s"}
	dir := t.TempDir()
	job := config["scrape_configs"].([]any)[0].(map[string]any)
	require.Contains(t, job, "kubernetes_sd_configs")
	delete(job, "kubernetes_sd_configs")
	job["file_sd_configs"] = []any{map[string]any{"files": []string{discovered(t, dir)}}}
	content, err = yaml.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yaml"), content, 0o600))
	for _, file := range []string{"rules.yaml", "kubevirt-rules.yaml"} {
		rules, err := os.ReadFile(filepath.Join(monitoringDir, file))
		require.NoError(t, err)
		// The test does not wait for the time that an alert must last.
		rules = regexp.MustCompile(`(?m)^ +for: .*\n`).ReplaceAll(rules, nil)
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), rules, 0o600))
	}

	address := "127.0.0.1:" + freePort(t)
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	cmd := exec.Command(filepath.Join(unpacked, "usr", "bin", "prometheus"),
		"--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			said, _ := os.ReadFile(log.Name())
			t.Logf("Prometheus said:\n%s", tail(string(said), 20))
		}
	})
	return &prometheus{t, "http://" + address, time.Now()}
}

// discovered returns the targets that Prometheus's discovery of pods would find, which Debian's build lacks, with those
// of its labels that the configuration reads: one for each port of each pod.
func discovered(t *testing.T, dir string) string {
	t.Helper()
	var pods corev1.PodList
	require.NoError(t, json.Unmarshal([]byte(kubectl(t, "-n", "virtflow", "get", "pods", "-o", "json")), &pods))
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	var groups []group
	for _, pod := range pods.Items {
		for _, c := range pod.Spec.Containers {
			for _, port := range c.Ports {
				groups = append(groups, group{
					Targets: []string{net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port.ContainerPort)))},
					Labels: map[string]string{
						"__meta_kubernetes_namespace":                        pod.Namespace,
						"__meta_kubernetes_pod_name":                         pod.Name,
						"__meta_kubernetes_pod_container_port_name":          port.Name,
						"__meta_kubernetes_pod_label_app_kubernetes_io_name": pod.Labels["app.kubernetes.io/name"],
					}})
			}
		}
	}
	content, err := json.Marshal(groups)
	require.NoError(t, err)
	file := filepath.Join(dir, "pods.json")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	return file
}

// get queries Prometheus, and decodes the data of its answer into out.
func (p *prometheus) get(path string, query url.Values, out any) error {
	ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return json.Unmarshal(answer.Data, out)
}

// checkTargets checks that it has scraped all processes of virtflow, and nothing else.
func (p *prometheus) checkTargets() error {
	var found struct {
		ActiveTargets []struct {
			Labels            map[string]string
			Health, LastError string
		}
	}
	if err := p.get("/api/v1/targets", nil, &found); err != nil {
		return err
	}
	processes := map[string]bool{}
	for _, target := range found.ActiveTargets {
		if target.Health != "up" {
			return fmt.Errorf("%v is %q: %s", target.Labels, target.Health, target.LastError)
		}
		processes[target.Labels["process"]] = true
	}
	for _, name := range []string{"api-server", "control-worker", "crdwatch", "node-gateway", "node-worker"} {
		if !processes[name] {
			return fmt.Errorf("no target is a %s: %+v", name, found.ActiveTargets)
		}
		delete(processes, name)
	}
	if len(processes) > 0 {
		return fmt.Errorf("it scrapes also %v", processes)
	}
	return nil
}

// checkRules checks that each rule was evaluated, and no alert fires.
func (p *prometheus) checkRules() error {
	var found struct {
		Groups []struct {
			Rules []struct {
				Name, Health, LastError, State string
			}
		}
	}
	if err := p.get("/api/v1/rules", nil, &found); err != nil {
		return err
	}
	n := 0
	for _, g := range found.Groups {
		for _, r := range g.Rules {
			n++
			expected := r.State == "" || r.State == "inactive" || slices.Contains(withoutKubeState(), r.Name)
			if r.Health != "ok" || !expected { // a recording rule has no state
				return fmt.Errorf("%s: health %q %s, state %q", r.Name, r.Health, r.LastError, r.State)
			}
		}
	}
	if n == 0 {
		return fmt.Errorf("there are no rules")
	}
	return nil
}

// withoutKubeState returns those of KubeVirt's alerts that fire in a cluster without kube-state-metrics, like this one.
func withoutKubeState() []string {
	return []string{"VirtAPIDown", "VirtControllerDown", "VirtHandlerDown", "NoReadyVirtAPI", "NoReadyVirtController",
		"NoReadyVirtHandler", "KubeVirtNoAvailableNodesToRunVMs"}
}

// hasValue returns whether a panel's expression has had a value at any time so far: above 0 for an expression of
// changes.
func (p *prometheus) hasValue(expr string) (bool, error) {
	var found struct {
		Result []struct {
			Values [][2]any
		}
	}
	changes := strings.Contains(expr, "$__rate_interval")
	err := p.get("/api/v1/query_range", url.Values{
		"query": {strings.ReplaceAll(expr, "$__rate_interval", "30s")},
		"start": {p.since.Format(time.RFC3339)}, "end": {time.Now().Format(time.RFC3339)}, "step": {"2s"},
	}, &found)
	for _, series := range found.Result {
		for _, v := range series.Values {
			x, err := strconv.ParseFloat(fmt.Sprint(v[1]), 64)
			if err != nil {
				return false, fmt.Errorf("%s: %w", expr, err)
			}
			if !math.IsNaN(x) && (x > 0 || !changes) {
				return true, nil
			}
		}
	}
	return false, err
}

// panels returns the expressions of the dashboard, by panel.
func panels(t *testing.T) map[string]string {
	t.Helper()
	dashboard, err := metrics.Dashboard()
	require.NoError(t, err)
	out := map[string]string{}
	for _, panel := range dashboard {
		for _, target := range panel.Targets {
			out[target.Expr] = panel.Title
		}
	}
	require.NotEmpty(t, out)
	return out
}

// failurePanels returns the panels that are empty while nothing fails.
func failurePanels() []string {
	return []string{"Failing, by reason", "… for how long", "VMs in error or not there yet", "… the oldest for",
		"Steps that fail", "Activities that failed", "Workflow tasks that failed", "Requests to Temporal that failed",
		"Calls of nodes that were refused"}
}

// TestPrometheus: a real Prometheus, with the configuration of deploy/monitoring, scrapes all processes, evaluates each
// rule, fires no alert, and has a value for each panel of the dashboard, after a VM has started, moved and stopped.
func TestPrometheus(t *testing.T) {
	suite.TakeTurn(t, 7)
	untilHealthy(t)
	p := startPrometheus(t)
	until(t, time.Minute, "Prometheus scrapes all processes", p.checkTargets)
	m := newMachine(t, "seen", "Always", "")
	m.untilBooted()
	(&virtctl{t, m.namespace}).mustRun("migrate", m.name)
	m.untilMigrated()
	// Twice: a series that begins with its first event has not changed yet.
	for range 2 {
		m.strategy("Halted")
		m.untilStatus("Stopped")
		m.strategy("Always")
		m.untilStatus("Running")
	}
	until(t, 2*time.Minute, "each rule is evaluated, and no alert fires", p.checkRules)
	empty := panels(t)
	titles := slices.Collect(maps.Values(empty))
	require.Subset(t, titles, failurePanels())
	until(t, time.Minute, "each panel of the dashboard has had a value", func() error {
		for expr, title := range empty {
			shown, err := p.hasValue(expr)
			if err != nil {
				return fmt.Errorf("%s: %w", title, err)
			}
			if shown || slices.Contains(failurePanels(), title) {
				delete(empty, expr)
			}
		}
		if len(empty) > 0 {
			return fmt.Errorf("nothing in %v", empty)
		}
		return nil
	})
	m.remove()
}
