package world_test

import (
	"os"
	"strings"
	"testing"

	"github.com/virtflow/virtflow/testsuite/world"
)

// complain fails a case whose invariants are broken, shows how it began, and says how to run it alone. VIRTFLOW_TRACE=1
// shows everything that happened.
func complain(t *testing.T, w *world.World) {
	t.Helper()
	switch {
	case os.Getenv("VIRTFLOW_TRACE") != "":
		t.Log("\n" + w.Trace())
	case len(w.Broken) > 0: // what came of a race may not come again
		t.Logf("\n%.60000s", w.Trace())
	}
	if len(w.Broken) > 0 {
		t.Errorf("%s\nrun it alone: VIRTFLOW_MATRIX=whole VIRTFLOW_TRACE=1 go test ./testsuite/world -run '%s' -count 1",
			strings.Join(w.Broken, "\n"), pattern(t.Name()))
	}
}

// pattern is a test's name as -run wants it.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + p + "$"
	}
	return strings.Join(parts, "/")
}
