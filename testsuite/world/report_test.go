package world_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/virtflow/virtflow/testsuite/world"
)

// figure prints a suite's one line, and leaves it in the folder $VIRTFLOW_FIGURES where that is set: go test hides what a package that
// passes has printed.
func figure(t *testing.T, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	fmt.Println(line)
	if dir := os.Getenv("VIRTFLOW_FIGURES"); dir != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, t.Name()+".txt"), []byte(line+"\n"), 0o644))
	}
}

// complain fails a case whose invariants are broken, and says how to run it alone. VIRTFLOW_TRACE=1 shows everything that happened.
func complain(t *testing.T, w *world.World) {
	t.Helper()
	if os.Getenv("VIRTFLOW_TRACE") != "" {
		t.Log("\n" + w.Trace())
	}
	if len(w.Broken) > 0 {
		t.Errorf("%s\nrun it alone: VIRTFLOW_TRACE=1 go test ./testsuite/world -run '%s' -count 1", strings.Join(w.Broken, "\n"), pattern(t.Name()))
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
