package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// PrintFigures prints a suite's line, and writes it to the folder $VIRTFLOW_FIGURES if that is set, from where make
// test shows it: go test does not print the output of a package that passes.
func PrintFigures(t testing.TB, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	fmt.Println(line)
	dir := os.Getenv("VIRTFLOW_FIGURES")
	if dir == "" {
		return
	}
	name := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()) + ".txt"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(line+"\n"), 0o644); err != nil {
		t.Errorf("writing the suite's figures for make test: %v", err)
	}
}
