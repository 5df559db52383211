//go:build crash

package crash

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Programs that are killed.
const (
	controlWorker = "control-worker"
	crdWatch      = "crdwatch"
)

// floor returns the oldest release that a cluster may still run: a tag, which the replayed histories' MANIFEST names.
func floor(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "testsuite", "replay", "histories", "MANIFEST"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "floor "); ok {
			return name
		}
	}
	t.Fatal("testsuite/replay/histories/MANIFEST names no floor")
	return ""
}

// built has this checkout's programs, each built once.
var built struct {
	sync.Mutex
	folder string
	names  []string
}

// build builds a program of this checkout, once.
func build(t *testing.T, name string) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	out := filepath.Join(built.folder, name)
	if !slices.Contains(built.names, name) {
		run(t, root(t), "go", "build", "-trimpath", "-buildvcs=false", "-o", out, "./cmd/"+name)
		built.names = append(built.names, name)
	}
	return out
}

// newWorker builds the control worker of this checkout.
func newWorker(t *testing.T) string {
	t.Helper()
	return build(t, controlWorker)
}

// oldRelease returns the floor and its commit. Why is the reason for no commit: there is no release yet, or the clone
// is shallow and the environment permits that.
func oldRelease(t *testing.T) (tag, commit, why string) {
	t.Helper()
	tag = floor(t)
	if out, err := git(t, "rev-parse", "--verify", "--quiet", tag+"^{commit}"); err == nil {
		return tag, out, ""
	}
	shallow, err := git(t, "rev-parse", "--is-shallow-repository")
	require.NoError(t, err, "%s", shallow)
	switch {
	case shallow != "true":
		return tag, "", "no release yet: there is no tag " + tag
	case os.Getenv("VIRTFLOW_ALLOW_SHALLOW") != "":
		return tag, "", "this clone is shallow, and has no tag " + tag
	}
	t.Fatalf("this clone is shallow, and has no tag %s: that release's control worker cannot be built. "+
		"git fetch --unshallow --tags, or set VIRTFLOW_ALLOW_SHALLOW=1 to do without this test", tag)
	return "", "", ""
}

func git(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("git", args...) // fixed words and a tag from this repository
	cmd.Dir = root(t)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// oldWorker builds the control worker of a commit, once.
func oldWorker(t *testing.T, commit string) string {
	t.Helper()
	cache := os.Getenv("VIRTFLOW_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		require.NoError(t, err)
		cache = filepath.Join(home, ".cache", "virtflow")
	}
	folder := filepath.Join(cache, "control-worker-"+commit)
	out := filepath.Join(folder, "crash-worker")
	if _, err := os.Stat(out); err == nil {
		return out
	}
	work := t.TempDir()
	run(t, root(t), "sh", "-c", "git archive "+commit+" | tar x -C "+work)
	run(t, work, "go", "build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(work, "built"),
		"./cmd/control-worker")
	require.NoError(t, os.MkdirAll(folder, 0o755))
	partial := out + ".partial"
	text, err := os.ReadFile(filepath.Join(work, "built"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(partial, text, 0o755))
	require.NoError(t, os.Rename(partial, out))
	return out
}
