package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func written(t *testing.T, report string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, os.WriteFile(file, []byte(report), 0o600))
	return file
}

// TestDrawsReport draws a report of the command scale, whose own test compares with the same file.
func TestDrawsReport(t *testing.T) {
	out := filepath.Join(t.TempDir(), "new")
	require.NoError(t, all("../testdata/report.json", out))
	for file, labels := range map[string][]string{
		"scale-progress.svg":  {"start, 9.9 a second", "kubectl delete vm --all", "seconds"},
		"scale-requests.svg":  {"create pods", "patch virtualmachines/status"},
		"scale-processes.svg": {"control-worker", "milliseconds", ">200<"}, // a tick of its axis
		"scale-memory.svg":    {"control-worker", "MiB"},
		"scale-legs.svg":      {"control-worker: create pods", "seconds", ">1.5<"}, // a tick of its axis
		"scale-histories.svg": {"failed workflow tasks", ">30<"},
	} {
		b, err := os.ReadFile(filepath.Join(out, file))
		require.NoError(t, err)
		for _, label := range labels {
			require.Contains(t, string(b), label, file)
		}
		require.NotContains(t, string(b), "kubectl delete vmi", "only what many VMs did at once")
	}
}

// TestSkipsMissingFigures: KubeVirt's report has no figures of Temporal.
func TestSkipsMissingFigures(t *testing.T) {
	out := t.TempDir()
	require.NoError(t, all(written(t, `{"steps": [{"stage": "load", "what": "start", "done": [1],
		"used": {"etcd": {"cpu": 1, "resident": 1}}, "calls": {"by": {"create pods": 1}}}]}`), out))
	files, err := filepath.Glob(filepath.Join(out, "*"))
	require.NoError(t, err)
	require.Len(t, files, 4, "%v", files)
	require.NoFileExists(t, filepath.Join(out, "scale-legs.svg"))
	require.NoFileExists(t, filepath.Join(out, "scale-histories.svg"))
}

func TestRefusesEmptyReport(t *testing.T) {
	require.ErrorContains(t, all(filepath.Join(t.TempDir(), "none.json"), t.TempDir()), "-in")
	require.ErrorContains(t, all(written(t, "[1]"), t.TempDir()), "not what the command scale writes")
	require.ErrorContains(t, all(written(t, `{"steps": [{"stage": "rest", "done": [1]}]}`), t.TempDir()),
		"no step under load")
}
