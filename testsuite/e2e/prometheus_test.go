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
	"sigs.k8s.io/yaml"

	"github.com/virtflow/virtflow/deploy/images/cache"
	"github.com/virtflow/virtflow/deploy/images/debian"
	"github.com/virtflow/virtflow/testsuite/turns"
)

const monitoringDir = "../../deploy/monitoring"

// prometheus is a real one on loopback that is configured as deploy/monitoring says.
type prometheus struct {
	t     *testing.T
	base  string
	since time.Time
}

// startPrometheus runs Debian's until the test ends. Its account may do what the configuration says that it needs.
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
	job["kubernetes_sd_configs"].([]any)[0].(map[string]any)["kubeconfig_file"] = scraper(t, dir)
	content, err = yaml.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yaml"), content, 0o600))
	rules, err := os.ReadFile(filepath.Join(monitoringDir, "rules.yaml"))
	require.NoError(t, err)
	// Nobody waits here until an alert has lasted for as long as it is to.
	rules = regexp.MustCompile(`(?m)^ +for: .*\n`).ReplaceAll(rules, nil)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), rules, 0o600))

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
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

// scraper is a kubeconfig file of an account that may list and watch the pods of virtflow.
func scraper(t *testing.T, dir string) string {
	t.Helper()
	const name = "e2e-prometheus"
	remove := func() {
		_, _ = try("-n", "virtflow", "delete", "serviceaccount,role,rolebinding", name, "--ignore-not-found")
	}
	remove() // of a run that was killed
	t.Cleanup(remove)
	kubectl(t, "-n", "virtflow", "create", "serviceaccount", name)
	kubectl(t, "-n", "virtflow", "create", "role", name, "--resource=pods", "--verb=list,watch")
	kubectl(t, "-n", "virtflow", "create", "rolebinding", name, "--role="+name, "--serviceaccount=virtflow:"+name)
	token := strings.TrimSpace(kubectl(t, "-n", "virtflow", "create", "token", name))
	var config map[string]any
	require.NoError(t, json.Unmarshal([]byte(kubectl(t, "config", "view", "--raw", "--minify", "-o", "json")), &config))
	user := config["users"].([]any)[0].(map[string]any)
	user["user"] = map[string]string{"token": token}
	content, err := json.Marshal(config)
	require.NoError(t, err)
	file := filepath.Join(dir, "kubeconfig")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	return file
}

// get asks it, and reads the data of its answer into out.
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

// scrapes fails unless it has scraped all processes of virtflow, and nothing else.
func (p *prometheus) scrapes() error {
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

// evaluates fails unless each rule was evaluated well, and no alert has a reason.
func (p *prometheus) evaluates() error {
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
			if r.Health != "ok" || r.State != "" && r.State != "inactive" { // a recording rule has no state
				return fmt.Errorf("%s: health %q %s, state %q", r.Name, r.Health, r.LastError, r.State)
			}
		}
	}
	if n == 0 {
		return fmt.Errorf("there are no rules")
	}
	return nil
}

// shows says whether a panel's expression has had a value at any time so far: of what it makes of changes one above 0.
func (p *prometheus) shows(expr string) (bool, error) {
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

// panels are the expressions of the dashboard, and what is asked with each.
func panels(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(monitoringDir, "dashboard.json"))
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(content, &dashboard))
	out := map[string]string{}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			out[target.Expr] = panel.Title
		}
	}
	require.NotEmpty(t, out)
	return out
}

// onlyWhenItFails are panels that are empty while all is well.
func onlyWhenItFails() []string {
	return []string{"Failing, by reason", "… for how long", "VMs in error or not there yet", "… the oldest for",
		"Steps that fail", "Activities that failed", "Workflow tasks that failed", "Requests to Temporal that failed",
		"Calls of nodes that were refused"}
}

// TestPrometheus: a real Prometheus, configured as deploy/monitoring says, finds and scrapes all processes, evaluates
// each rule, finds no reason for an alert, and has something for each panel of the dashboard, when a VM has started,
// moved and stopped.
func TestPrometheus(t *testing.T) {
	turns.Take(t, 7)
	untilHealthy(t)
	p := startPrometheus(t)
	until(t, time.Minute, "Prometheus scrapes all processes", p.scrapes)
	m := newMachine(t, "seen", "Always", "")
	m.untilBooted()
	(&virtctl{t, m.namespace}).well("migrate", m.name)
	m.untilMigrated()
	m.strategy("Halted")
	m.untilStatus("Stopped")
	until(t, 2*time.Minute, "each rule is evaluated, and no alert has a reason", p.evaluates)
	empty := panels(t)
	titles := slices.Collect(maps.Values(empty))
	require.Subset(t, titles, onlyWhenItFails())
	until(t, time.Minute, "each panel of the dashboard has shown something", func() error {
		for expr, title := range empty {
			shown, err := p.shows(expr)
			if err != nil {
				return fmt.Errorf("%s: %w", title, err)
			}
			if shown || slices.Contains(onlyWhenItFails(), title) {
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
