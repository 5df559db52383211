package world_test

import (
	"os"
	"strings"
	"testing"

	"github.com/virtflow/virtflow/testsuite/world"
)

// reportBroken fails a case whose invariants are broken, prints the beginning of its trace, and how to run it alone.
// VIRTFLOW_TRACE=1 prints the whole trace of every case.
func reportBroken(t *testing.T, w *world.World) {
	t.Helper()
	switch {
	case os.Getenv("VIRTFLOW_TRACE") != "":
		t.Log("\n" + w.Trace())
	case len(w.Broken) > 0: // a race may not happen again
		t.Logf("\n%.60000s", w.Trace())
	}
	if len(w.Broken) > 0 {
		t.Errorf("%s\nrun it alone: VIRTFLOW_MATRIX=whole VIRTFLOW_TRACE=1 go test ./testsuite/world -run '%s' -count 1",
			strings.Join(w.Broken, "\n"), pattern(t.Name()))
	}
}

// pattern returns a test's name as an argument of -run.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + p + "$"
	}
	return strings.Join(parts, "/")
}
