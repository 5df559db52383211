package figures

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Print prints a suite's line, and leaves it in the folder $VIRTFLOW_FIGURES where that is set, from where make test
// shows it: go test hides what a package that passes has printed.
func Print(t testing.TB, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	fmt.Println(line)
	dir := os.Getenv("VIRTFLOW_FIGURES")
	if dir == "" {
		return
	}
	name := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()) + ".txt"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(line+"\n"), 0o644); err != nil {
		t.Errorf("leaving the suite's figures for make test: %v", err)
	}
}
