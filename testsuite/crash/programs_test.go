//go:build crash

package crash

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// release is the commit that the oldest replayed histories (testsuite/replay/histories) were recorded from: what a cluster may still run.
const release = "c246051"

// newWorker builds the control worker of this checkout.
func newWorker(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "crash-worker")
	run(t, root(t), "go", "build", "-trimpath", "-buildvcs=false", "-o", out, "./cmd/control-worker")
	return out
}

// oldWorker builds the control worker of the release, once. It returns "" where that commit is not in the clone and the environment allows it.
func oldWorker(t *testing.T) string {
	t.Helper()
	cache := os.Getenv("VIRTFLOW_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		require.NoError(t, err)
		cache = filepath.Join(home, ".cache", "virtflow")
	}
	folder := filepath.Join(cache, "control-worker-"+release)
	out := filepath.Join(folder, "crash-worker")
	if _, err := os.Stat(out); err == nil {
		return out
	}
	check := exec.Command("git", "cat-file", "-e", release+"^{commit}")
	check.Dir = root(t)
	if err := check.Run(); err != nil {
		if os.Getenv("VIRTFLOW_ALLOW_SHALLOW") != "" {
			t.Logf("commit %s is not in this clone: the release's control worker cannot be built", release)
			return ""
		}
		t.Fatalf("commit %s is not in this clone (a shallow one?): the release's control worker cannot be built. "+
			"git fetch --unshallow, or set VIRTFLOW_ALLOW_SHALLOW=1 to do without this test", release)
	}
	work := t.TempDir()
	run(t, root(t), "sh", "-c", "git archive "+release+" | tar x -C "+work)
	run(t, work, "go", "build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(work, "built"), "./cmd/control-worker")
	require.NoError(t, os.MkdirAll(folder, 0o755))
	partial := out + ".partial"
	text, err := os.ReadFile(filepath.Join(work, "built"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(partial, text, 0o755)) //nolint:gosec // a program
	require.NoError(t, os.Rename(partial, out))
	return out
}
